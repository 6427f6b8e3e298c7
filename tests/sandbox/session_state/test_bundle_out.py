"""Taking a bundle home: the hidden values come back, the receipts do not change."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.raising import raises_code

from affiant.attestation.bundle.bundle import Bundle, BundleMalformed, parse_bundle
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.issuing import issue_receipt
from affiant.attestation.records.receipt import Issued, parse_receipt, verify_receipt
from affiant.attestation.records.sealed_disclosures import SealedDisclosureInvalid, SessionSealing, recipient
from affiant.attestation.statements.statement import (
    LogIdentity,
    gateway_statement,
    parse_statement,
    session_statement,
)
from affiant.attestation.tlog.note_keys import LogKey
from affiant.sandbox.session_state.bundle_out import (
    SealedBundle,
    open_bundle,
    parse_sealed_bundle,
    read_sealed_bundle,
    read_spooled,
    with_spooled,
    write_bundle,
)
from affiant.sandbox.supervisor.records.spool import SpoolEntry

NOW = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)
LINK, ID = "A" * 43, "A" * 22
SIGNER = Signer(ec.derive_private_key(7, ec.SECP256R1()))
STATEMENT = parse_statement(
    session_statement(
        session=ID, cls="simulated", chn=ID, key=SIGNER.public_key, man=LINK, act=LINK, gks=LINK,
        epoch_s=60, not_after=int(NOW.timestamp()) + 60, nonce=None,
    )
)  # fmt: skip


def receipt(name: str) -> Issued:
    return issue_receipt(
        signer=SIGNER, statement=STATEMENT, kind="exec", chn=ID, seq=0, prev=LINK, evd=LINK, jti=ID, now=NOW,
        members={
            "agt": {"ses": ID, "evd": LINK, "key": SIGNER.kid, "bind": "pop", "iso": "gvisor"},
            "act": {"typ": "exec"}, "iso": "gvisor", "ph": "intent",
        },
        hidden={"act": {"name": name}}, random_bytes=os.urandom,
    )  # fmt: skip


@cache
def sealing(to: str) -> SessionSealing:
    return SessionSealing(to=to, session=ID, kid=SIGNER.kid, random_bytes=os.urandom)


def sealed(key: X25519PrivateKey, *issued: Issued) -> bytes:
    bundle = json.loads(Bundle(tuple(each.jws + "~" for each in issued)).to_bytes())
    to = sealing(recipient(key))
    openings = {to.name: to.sealed_key, **{each.rh: to.seal(each.disclosures, rh=each.rh) for each in issued}}
    return json.dumps({"bundle": bundle, "openings": openings}).encode()


def test_hidden_values_are_opened_and_the_signed_part_does_not_change():
    key, one, two = X25519PrivateKey.generate(), receipt("python3"), receipt("make")
    opened = open_bundle(parse_sealed_bundle(sealed(key, one, two)), key)
    assert [parse_receipt(text).jws for text in opened.receipts] == [one.jws, two.jws]
    names = [
        verify_receipt(parse_receipt(text), STATEMENT).disclosed.text("act.name") for text in opened.receipts
    ]
    assert names == ["python3", "make"]


def test_a_receipt_without_an_opening_stays_closed():
    key, one = X25519PrivateKey.generate(), receipt("x")
    document = json.loads(sealed(key, one))
    document["openings"] = {}
    opened = open_bundle(parse_sealed_bundle(json.dumps(document).encode()), key)
    assert opened.receipts == (one.jws + "~",)


def test_an_opening_that_was_moved_to_another_receipt_is_refused():
    key, one, two = X25519PrivateKey.generate(), receipt("one"), receipt("two")
    found = parse_sealed_bundle(sealed(key, one, two))
    exchanged = {one.rh: found.openings[two.rh], two.rh: found.openings[one.rh]}
    swapped = replace(found, openings={**found.openings, **exchanged})
    with pytest.raises(SealedDisclosureInvalid):
        open_bundle(swapped, key)


def test_another_persons_key_opens_nothing():
    found = parse_sealed_bundle(sealed(X25519PrivateKey.generate(), receipt("x")))
    with pytest.raises(SealedDisclosureInvalid):
        open_bundle(found, X25519PrivateKey.generate())


@pytest.mark.parametrize(
    "data", [b"[]", b"{}", b'{"bundle":{},"openings":[]}', b'{"bundle":{},"openings":{"a":1}}']
)
def test_what_is_no_sealed_bundle_is_refused(data: bytes):
    with raises_code("session.bundle", "bundle.malformed"):
        parse_sealed_bundle(data)


def test_a_link_in_place_of_the_bundle_is_not_followed(tmp_path: Path):
    (tmp_path / "real").write_bytes(sealed(X25519PrivateKey.generate(), receipt("x")))
    (tmp_path / "bundle.json").symlink_to(tmp_path / "real")
    with raises_code("session.bundle"):
        read_sealed_bundle(tmp_path / "bundle.json")


def test_a_pipe_in_place_of_the_bundle_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "bundle.json")
    with raises_code("session.bundle"):
        read_sealed_bundle(tmp_path / "bundle.json")


def test_the_bundle_is_written_for_its_owner_alone(tmp_path: Path):
    bundle = Bundle((receipt("x").sdjwt,), policies={"sha256:" + "0" * 64: b""})
    good = replace(bundle, policies={})
    write_bundle(tmp_path / "out", good)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    assert parse_bundle((tmp_path / "out").read_bytes()) == good
    with pytest.raises(BundleMalformed):
        write_bundle(tmp_path / "bad", bundle)
    assert not (tmp_path / "bad").exists()


def test_openings_for_receipts_that_are_not_there_are_ignored():
    key, one = X25519PrivateKey.generate(), receipt("x")
    found = parse_sealed_bundle(sealed(key, one))
    more = SealedBundle(found.bundle, {**found.openings, b64u(bytes(32)): "AAAA"})
    assert open_bundle(more, key).receipts == (one.sdjwt,)


def close(session: str, why: str) -> Issued:
    """A close record as far as its session is concerned: signed by nobody who may."""
    head = {"chn": ID, "seq": 0, "rh": LINK}
    other = Signer(ec.derive_private_key(8, ec.SECP256R1())).public_key
    statement = parse_statement(
        gateway_statement(
            iss="gateway", cls="simulated", chn=(ID,), receipt=SIGNER.public_key, ear=other, tls_spki=LINK,
            policy="sha256:" + "0" * 64, epoch_s=60, log=LogIdentity(LogKey("log.example", bytes(32)), "file"),
            not_after=int(NOW.timestamp()) + 60, nonce=None,
        )
    )  # fmt: skip
    return issue_receipt(
        signer=SIGNER, statement=statement, kind="session-close", chn=ID, seq=1, prev=LINK, evd=LINK, jti=ID, now=NOW,
        members={
            "agt": {"ses": session, "evd": LINK, "key": SIGNER.kid, "bind": "pop", "iso": "gvisor", "seq": 1},
            "why": why, "n": 1, "out": {}, "root": LINK, "head": head, "sup": {**head, "end": 0},
        },
        hidden={}, random_bytes=os.urandom,
    )  # fmt: skip


def spooled(key: X25519PrivateKey, *issued: Issued) -> tuple[SpoolEntry, ...]:
    to = sealing(recipient(key))
    return tuple(SpoolEntry(each.jws, to.handed_on(each.disclosures, rh=each.rh)) for each in issued)


def test_records_that_only_the_journal_has_are_in_the_bundle_once():
    key, one, two = X25519PrivateKey.generate(), receipt("one"), receipt("two")
    found, left_out = with_spooled(parse_sealed_bundle(sealed(key, one)), spooled(key, one, two), session=ID)
    assert open_bundle(found, key).receipts == (one.sdjwt, two.sdjwt)
    assert left_out == 0


def test_a_journals_records_never_contradict_a_close():
    key, one, two = X25519PrivateKey.generate(), receipt("one"), receipt("two")
    closed = parse_sealed_bundle(sealed(key, one, close(ID, "killed")))
    assert with_spooled(closed, spooled(key, one, two), session=ID) == (closed, 1)
    others = parse_sealed_bundle(sealed(key, one, close("B" * 21 + "A", "killed")))
    assert len(with_spooled(others, spooled(key, two), session=ID)[0].bundle.receipts) == 3


def test_a_close_that_says_lost_speaks_for_the_gateway_alone():
    key, one, two = X25519PrivateKey.generate(), receipt("one"), receipt("two")
    lost = parse_sealed_bundle(sealed(key, one, close(ID, "lost")))
    whole, left_out = with_spooled(lost, spooled(key, one, two), session=ID)
    assert (len(whole.bundle.receipts), left_out) == (3, 0)


def test_a_journal_is_read_up_to_what_is_not_its_own(tmp_path: Path):
    key, one, two = X25519PrivateKey.generate(), receipt("one"), receipt("two")
    lines = [json.dumps({"jws": each.jws, "openings": each.openings}) for each in spooled(key, one, two)]
    journal = tmp_path / "records.ndjson"
    assert read_spooled(journal) == ()
    for foreign in ("[]", "1", '{"jws":1,"openings":null}', '{"jws":"x"}', "{"):
        journal.write_text("\n".join([lines[0], foreign, lines[1], ""]))
        assert [entry.jws for entry in read_spooled(journal)] == [one.jws]


def test_a_link_in_place_of_the_journal_is_not_followed(tmp_path: Path):
    (tmp_path / "records.ndjson").symlink_to(tmp_path / "real")
    with raises_code("session.bundle"):
        read_spooled(tmp_path / "records.ndjson")
