"""A reader's proof is for one request to one gateway, in its minute."""

from __future__ import annotations

import pytest

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.errors import ReaderRefused, StatementMalformed
from affiant.attestation.signatures.approvers.reader_proof import (
    READER_TOLERANCE_S,
    ReaderProof,
    sign_reader_proof,
    verify_reader_proof,
)
from affiant.attestation.signatures.approvers.statement import sign_statement

ANN = Signer.generate()
SPKI, NONCE, NOW = b64u(bytes(32)), b64u(bytes(16)), 1_800_000_000
TEXT = sign_reader_proof(ANN, "POST", "/v1/approvals/ab?x=1", b"{}", spki=SPKI, nonce=NONCE, now=NOW)


def judged(
    method: str = "POST",
    target: str = "/v1/approvals/ab?x=1",
    body: bytes = b"{}",
    *,
    spki: str = SPKI,
    now: float = NOW,
) -> ReaderProof:
    return verify_reader_proof(TEXT, method, target, body, spki=spki, now=now)


def test_a_proof_says_whose_it_is() -> None:
    assert judged() == ReaderProof(ANN.kid, NONCE, NOW)


@pytest.mark.parametrize(
    "other",
    [
        lambda: judged("GET"),
        lambda: judged(target="/v1/approvals/ab"),
        lambda: judged(body=b"{ }"),
        lambda: judged(spki=b64u(bytes([1] * 32))),
    ],
)
def test_of_another_request_or_gateway_it_proves_nothing(other) -> None:
    with pytest.raises(ReaderRefused):
        other()


def test_it_holds_for_a_minute_on_either_side_and_not_a_second_more() -> None:
    for sign in (-1, 1):
        judged(now=NOW + sign * READER_TOLERANCE_S)
        with pytest.raises(ReaderRefused):
            judged(now=NOW + sign * (READER_TOLERANCE_S + 1))


def test_a_statement_about_an_action_is_no_proof() -> None:
    text = sign_statement(ANN, action="sha256:" + "0a" * 32, approves=True, made=NOW, expires=NOW + 60)
    for wrong in (text, "", "a.b.c", TEXT[:-2], TEXT + " " * 4096):
        with pytest.raises(StatementMalformed):
            verify_reader_proof(wrong, "POST", "/v1/approvals/ab?x=1", b"{}", spki=SPKI, now=NOW)
