"""Keys of one boot: bound to the TD that makes them, one use each, never shown."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.gateway.in_process import in_process, settings_for
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.release.boot import Image, boot_log
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.statements.evidence import parse_evidence
from affiant.attestation.statements.gateway_config import make_gateway_config
from affiant.attestation.statements.statement import LogIdentity, parse_statement, report_data
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tlog.note_keys import LogKey
from affiant.gateway.config.keyset import Keyset, make_keyset
from affiant.gateway.wire.tls import make_tls_identity

NOW = datetime.now(UTC)


@pytest.fixture
def keyset(platform: PlatformClient, tmp_path: Path) -> Iterator[Keyset]:
    config = settings_for(platform, tmp_path).config
    with SimulatedTD(platform.create_td(image=Image.GATEWAY, mrconfigid=config.mrconfigid)) as source:
        yield make_keyset(
            config=config,
            source=source,
            boot_log=boot_log(Image.GATEWAY),
            tls_spki="A" * 43,
            log=LogIdentity(LogKey(config.origin, bytes(32)), "file"),
            now=NOW,
            random_bytes=secrets.token_bytes,
        )


def test_a_nonce_makes_the_evidence_fresh_and_keeps_the_keyset(keyset: Keyset) -> None:
    nonce = b64u(secrets.token_bytes(32))
    fresh = parse_evidence(keyset.evidence_for(nonce))
    statement = parse_statement(fresh.statement)
    assert statement.nonce == nonce and statement.keyset_digest == keyset.digest
    assert parse_quote(fresh.quote).body.report_data == report_data(fresh.statement)
    assert statement.digest != keyset.statement.digest
    kids = [entry.get("kid") for entry in statement.keys.values()]
    assert len(set(kids)) == 3


def test_nothing_that_is_shown_holds_a_key(keyset: Keyset) -> None:
    assert "PRIVATE" not in repr(keyset) and "EllipticCurvePrivateKey" not in repr(keyset)


def test_a_td_that_was_launched_for_another_configuration_is_refused_before_anything_is_written(
    platform: PlatformClient, tmp_path: Path
) -> None:
    good = settings_for(platform, tmp_path).config
    other = make_gateway_config(
        iss="urn:other",
        cls="simulated",
        origin=good.origin,
        reference=good.reference,
        upstreams=good.upstreams,
    )
    for launched in (other.mrconfigid, bytes(48)):  # all zero: the launcher bound nothing
        with SimulatedTD(platform.create_td(image=Image.GATEWAY, mrconfigid=launched)) as source:
            with raises_code("gateway.configuration_unbound"):
                make_keyset(
                    config=good,
                    source=source,
                    boot_log=b"",
                    tls_spki="A" * 43,
                    log=LogIdentity(LogKey(good.origin, bytes(32)), "file"),
                    now=NOW,
                    random_bytes=secrets.token_bytes,
                )


def test_every_boot_has_keys_and_a_chain_of_its_own(platform: PlatformClient, tmp_path: Path) -> None:
    statements = []
    for _ in range(2):
        with in_process(platform, tmp_path) as inside:
            statements.append(parse_statement(inside.keyset))
    first, second = statements
    assert first.receipt_kid != second.receipt_kid and first.chn.isdisjoint(second.chn)


def test_a_tls_identity_is_fresh_and_names_its_key() -> None:
    made = [make_tls_identity(now=NOW, lifetime=NOW - NOW.replace(year=NOW.year - 1)) for _ in range(2)]
    assert made[0].spki != made[1].spki and len(made[0].spki) == 43
    assert replace(made[0]) == made[0]
