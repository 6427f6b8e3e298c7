"""Statements: one algorithm, the key whose thumbprint is named, and nothing that is not signed."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.small_order import SMALL_ORDER
from tests.properties import thorough

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.erasure.keys import AUTHORITY_KEY
from affiant.attestation.signatures.approvers.errors import ApproverKeyMalformed, StatementMalformed
from affiant.attestation.signatures.approvers.keys import APPROVER_KEY
from affiant.attestation.signatures.approvers.statement import (
    MAX_STATEMENT,
    judge_statement,
    read_statement,
    sign_statement,
)
from affiant.errors import AffiantError

ANN, EVE = Signer.generate(), Signer.generate()
ACTION = "sha256:" + "0a" * 32
TEXT = sign_statement(ANN, action=ACTION, approves=True, made=100, expires=200)


def payload(**changes: object) -> dict[str, object]:
    members = json.loads(from_b64u(TEXT.split(".")[1]))
    return {name: value for name, value in {**members, **changes}.items() if value is not None}


def test_a_statement_is_read_as_it_was_signed() -> None:
    found = read_statement(TEXT)
    assert (found.kid, found.action, found.approves, found.made, found.expires, found.via) == (
        ANN.kid,
        ACTION,
        True,
        100,
        200,
        "cli",
    )
    assert not read_statement(
        sign_statement(ANN, action=ACTION, approves=False, made=1, expires=2, via="console")
    ).approves


def test_a_key_in_a_statement_is_only_the_one_that_its_header_names() -> None:
    """Else whoever signs could bring a key of their own under somebody else's name."""
    eve = dict(public_jwk(EVE.public_key))
    body = canonical(payload(jwk=eve))
    header = TEXT.split(".")[0]
    signing_input = f"{header}.{b64u(body)}"
    forged = f"{signing_input}.{b64u(EVE.sign(signing_input.encode()))}"
    with pytest.raises(StatementMalformed):
        read_statement(forged)


def thumbprint(jwk: dict[str, str]) -> str:
    """RFC 7638."""
    return b64u(hashlib.sha256(canonical(jwk)).digest())


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_no_profile_can_name_a_key_under_which_anybody_signs(point: bytes) -> None:
    """A profile has thumbprints alone: whichever key is behind one, its statement is read as ES256 on P-256."""
    keys = [{"crv": curve, "kty": "OKP", "x": b64u(point)} for curve in ("Ed25519", "P-256")]
    keys += [
        {"crv": "P-256", "kty": "EC", "x": b64u(point), "y": b64u(other)} for other in (point, bytes(32))
    ]
    for jwk in keys:
        for alg in ("ES256", "EdDSA"):
            header = {"alg": alg, "kid": thumbprint(jwk), "typ": "affiant-approval+jwt"}
            body = b64u(canonical(payload(jwk=jwk)))
            signature = b64u(point + bytes(32))
            with pytest.raises(StatementMalformed):
                read_statement(f"{b64u(canonical(header))}.{body}.{signature}")


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "kid": ANN.kid, "typ": "affiant-approval+jwt"},
        {"alg": "HS256", "kid": ANN.kid, "typ": "affiant-approval+jwt"},
        {"alg": "ES384", "kid": ANN.kid, "typ": "affiant-approval+jwt"},
        {"alg": "ES256", "kid": ANN.kid, "typ": "affiant-proof+jwt"},
        {"alg": "ES256", "kid": ANN.kid, "typ": "affiant-approval+jwt", "jwk": {}},
        {"alg": "ES256", "crit": [], "kid": ANN.kid, "typ": "affiant-approval+jwt"},
    ],
)
def test_no_other_header_is_read(header) -> None:
    signing_input = f"{b64u(canonical(header))}.{TEXT.split('.')[1]}"
    with pytest.raises(StatementMalformed):
        read_statement(f"{signing_input}.{b64u(ANN.sign(signing_input.encode()))}")


@pytest.mark.parametrize(
    "changes",
    [
        {"dec": "maybe"},
        {"act": "sha256:0"},
        {"via": "mail"},
        {"via": None},
        {"exp": -1},
        {"exp": True},
        {"jwk": None},
        {"more": 1},
        {"typ": "affiant-approval/2"},
    ],
)
def test_what_is_signed_has_one_form(changes) -> None:
    signed = jws.sign(ANN, payload(**changes), typ="affiant-approval+jwt")
    with pytest.raises(StatementMalformed):
        read_statement(signed)


def test_a_proof_or_receipt_is_no_statement() -> None:
    with pytest.raises(StatementMalformed):
        read_statement(jws.sign(ANN, payload(), typ="affiant-proof+jwt"))


@thorough(300)
@given(st.integers(0, len(TEXT) - 1), st.integers(1, 127))
def test_any_flipped_byte_is_refused(at: int, by: int) -> None:
    data = bytearray(TEXT.encode())
    data[at] ^= by
    with pytest.raises(StatementMalformed):
        read_statement(data.decode("latin-1"))


def test_a_key_file_is_read_by_its_owner_and_is_no_other_key(tmp_path) -> None:
    content = APPROVER_KEY.make(lambda size: b"\x07" * size)
    path = tmp_path / "ann.key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert APPROVER_KEY.read(path).kid == APPROVER_KEY.parse(content).kid
    path.chmod(0o640)
    with pytest.raises(ApproverKeyMalformed, match="other users"):
        APPROVER_KEY.read(path)
    with pytest.raises(ApproverKeyMalformed, match="expected affiant-approver-key/1"):
        APPROVER_KEY.parse(AUTHORITY_KEY.make(lambda size: b"\x07" * size))


MADE, END = 1_800_000_000, 1_800_000_600


def judged(
    *, now: float = MADE + 10, kid: Signer = ANN, approvers=(ANN.kid,), never=(), **changes: object
) -> str | None:
    """The code by which a statement does not count; None: it does."""
    said = {"action": ACTION, "approves": True, "made": MADE + 5, "expires": END, **changes}
    statement = read_statement(sign_statement(kid, **said))
    try:
        judge_statement(
            statement, action=ACTION, approvers=approvers, never=never, made=MADE, not_after=END, now=now
        )
    except AffiantError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"approvers": ()}, "approval.not_an_approver"),
        ({"kid": EVE}, "approval.not_an_approver"),
        ({"kid": EVE, "approvers": (ANN.kid, EVE.kid)}, None),
        ({"never": (ANN.kid,)}, "approval.not_an_approver"),
        ({"action": "sha256:" + "b" * 64}, "approval.other_action"),
        ({"made": MADE - 60}, None),
        ({"made": MADE - 61}, "approval.stale"),
        ({"made": MADE + 70}, None),
        ({"made": MADE + 71}, "approval.stale"),
        ({"expires": END + 1}, "approval.stale"),
        ({"expires": MADE + 11}, None),
        ({"expires": MADE + 10}, "approval.stale"),
        ({"now": END - 1}, None),
        ({"now": END}, "approval.stale"),
    ],
)
def test_a_statement_counts_for_one_action_by_an_approver_in_its_time(changes, code) -> None:
    assert judged(**changes) == code


def test_text_that_no_record_holds_is_no_statement() -> None:
    longest = "x" * MAX_STATEMENT
    for text in (longest + "x", TEXT + "=" * MAX_STATEMENT):
        with pytest.raises(StatementMalformed, match="at most 1024"):
            read_statement(text)
