"""What is handed to the log is the leaf of exactly these bytes, whoever computes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.shape_values import members
from tests.gateway.in_process import in_process
from tests.gateway.journal_reader import entries_of
from tests.gateway.session_client import SessionClient
from tests.properties import thorough

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.issuing import issue_receipt
from affiant.attestation.records.receipt import parse_receipt, verify_receipt
from affiant.attestation.schema.records import KINDS, shape_of
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.statement import (
    KeysetStatement,
    LogIdentity,
    gateway_statement,
    parse_statement,
    session_statement,
)
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.gateway.log.transparency_log import TransparencyLog
from affiant.gateway.store.entries import PeerEntry, RecordEntry
from affiant.gateway.store.journal import Place
from affiant.gateway.store.leaves import Logged, leaf_of

SIGNER = Signer.generate()
CHN, LINK = b64u(os.urandom(16)), b64u(os.urandom(32))
LATER = int(datetime.now(UTC).timestamp()) + 3600
LOG = LogIdentity(LogSigner("log.example/leaves", Ed25519PrivateKey.generate()).verifier, "file")
STATEMENTS: Mapping[str, KeysetStatement] = {
    "gateway": parse_statement(
        gateway_statement(
            iss="https://gateway.example", cls="simulated", chn=[CHN], receipt=SIGNER.public_key,
            ear=Signer.generate().public_key, tls_spki=LINK, policy="sha256:" + "5" * 64, log=LOG, epoch_s=60,
            not_after=LATER, nonce=None,
        )
    ),
    "session": parse_statement(
        session_statement(
            session=b64u(os.urandom(16)), cls="simulated", chn=CHN, key=SIGNER.public_key, man=LINK, act=LINK,
            gks=LINK, epoch_s=60, not_after=LATER, nonce=LINK,
        )
    ),
}  # fmt: skip
SIGNED = [(kind, role) for kind, row in KINDS.items() for role in sorted(row.signers)]
MADE_BY_SIGNER = {
    "eat_profile",
    "iss",
    "jti",
    "iat",
    "kind",
    "cls",
    "role",
    "chn",
    "seq",
    "prev",
    "evd",
    "_sd_alg",
}


@pytest.mark.parametrize(("kind", "role"), SIGNED)
def test_the_leaf_of_a_signed_record_is_that_of_its_bytes(kind: str, role: str) -> None:
    shape = shape_of(kind, role=role, cls="simulated")
    numbers = st.integers(0, MAX_INTEGER)

    @thorough(8)
    @given(members(shape, frozenset(MADE_BY_SIGNER)), numbers, st.integers(0, 1 << 34))
    def holds(given_members: dict[str, Any], seq: int, now: int) -> None:
        issued = issue_receipt(
            signer=SIGNER, statement=STATEMENTS[role], kind=kind, chn=CHN, seq=seq, prev=LINK, evd=LINK,
            jti=CHN, now=datetime.fromtimestamp(now, UTC), members=given_members, hidden={},
            random_bytes=os.urandom,
        )  # fmt: skip
        assert issued.leaf == leaf_of(issued.jws)
        assert parse_entry(issued.leaf.to_bytes()) == issued.leaf
        assert verify_receipt(parse_receipt(issued.sdjwt), STATEMENTS[role]).leaf == issued.leaf

    holds()


def test_every_record_of_a_journal_is_handed_over_with_the_leaf_of_its_own_bytes(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[Logged] = []
    plain = TransparencyLog.on_durable

    def on_durable(self: TransparencyLog, entries: Sequence[tuple[object, Place]]) -> None:
        handed.extend(note for note, _ in entries if isinstance(note, Logged))
        plain(self, entries)

    monkeypatch.setattr(TransparencyLog, "on_durable", on_durable)
    with in_process(platform, tmp_path) as inside:
        session = SessionClient.start(inside, platform)
        session.say("hi")
        session.submit(session.exec_record())
        session.chat(b"{")
        session.submit(session.end_record())
        session.close()
    kept = [e for boot in entries_of(tmp_path) for e in boot if isinstance(e, (RecordEntry, PeerEntry))]
    assert [each.entry for each in handed] == kept
    assert {"boot", "session-start", "inference", "refusal", "exec", "session-close", "end"} <= {
        each.leaf.kind for each in handed
    }
    for each in handed:
        assert each.leaf == leaf_of(each.entry.jws)
