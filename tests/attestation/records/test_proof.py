"""Proofs of possession: one request, one session, one gateway, once."""

from __future__ import annotations

import copy
import hmac
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.raising import raises_code

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.proof import (
    MAC_PROOF_TYPE,
    PROOF_TYPE,
    WINDOW,
    MACKey,
    ProofMismatch,
    ProofReplayed,
    ReplayWindow,
    Request,
    VerifiedProof,
    issue_proof,
    proven_by,
    verify_proof,
    verify_proof_of_head,
)
from affiant.errors import AffiantError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = Signer.generate()
SESSION, KEYSET = "SSSSSSSSSSSSSSSSSSSSSQ", "K" * 43
SHARED = MACKey(bytes(range(32)), session=SESSION)
REQUEST = Request.of(
    "POST", "/v1/chat/completions?a=b", b"{}", content_type="application/json", nonce="N" * 43
)


def proof(**changes: object) -> str:
    known = {"session": SESSION, "cseq": 0, "keyset_digest": KEYSET, "now": NOW, **changes}
    return issue_proof(known.pop("key", KEY), known.pop("request", REQUEST), **known)


def by_mac(**changes: object) -> str:
    return proof(**{"key": SHARED, **changes})


def check(text: str, **changes: object) -> VerifiedProof:
    known = {
        "key": KEY.public_key,
        "session": SESSION,
        "keyset_digest": KEYSET,
        "counted": True,
        "now": NOW,
        **changes,
    }
    return verify_proof(text, known.pop("request", REQUEST), **known)


def test_a_proof_holds_for_its_request() -> None:
    assert check(proof()) == VerifiedProof(SESSION, 0, int(NOW.timestamp()))


FORWARDED = {"anthropic-beta": "pdfs-2024-09-25, new-9", "anthropic-version": "2023-06-01"}


def test_a_proof_covers_the_headers_that_a_gateway_may_forward() -> None:
    asked = replace(REQUEST, forwarded=FORWARDED)
    assert check(proof(request=asked), request=asked).cseq == 0
    others = [{}, {**FORWARDED, "anthropic-version": "2023-01-01"}, {"anthropic-version": "2023-06-01"}]
    for other in others:
        changed = replace(REQUEST, forwarded=other)
        for text, request in ((proof(request=asked), changed), (proof(request=changed), asked)):
            with pytest.raises(ProofMismatch) as refused:
                check(text, request=request)
            assert refused.value.where == "hdr"


@pytest.mark.parametrize(
    "forwarded", [{"anthropic-beta": "x" * 1025}, {"anthropic-beta": ""}, {"A": "x"}, {"a": "\n"}]
)
def test_a_header_that_no_proof_can_cover_is_none(forwarded: dict[str, str]) -> None:
    with raises_code("fmt.profile"):
        proof(request=replace(REQUEST, forwarded=forwarded))


def test_a_proof_by_mac_holds_for_the_same_members() -> None:
    assert check(by_mac(), key=SHARED) == check(proof())
    assert by_mac().split(".")[1] == proof().split(".")[1]
    assert proven_by(by_mac()) == (MAC_PROOF_TYPE, SESSION)
    assert proven_by(proof()) == (PROOF_TYPE, KEY.kid)
    with pytest.raises(jws.JWSMalformed):
        proven_by(jws.sign(KEY, {}, typ="eat+jwt"))


def test_a_proof_of_one_kind_is_none_of_the_other() -> None:
    other = MACKey(bytes(range(32)), session="TTTTTTTTTTTTTTTTTTTTTQ")
    for text, key in ((by_mac(), KEY.public_key), (proof(), SHARED), (by_mac(), other)):
        with raises_code("fmt.jws"):
            check(text, key=key)
    with raises_code("sig.invalid"):
        check(by_mac(), key=MACKey(bytes(32), session=SESSION))


def under(header: bytes, key: Signer | MACKey) -> str:
    """The members of a proof under any header, signed or authenticated by ``key``."""
    text = f"{b64u(header)}.{proof().split('.')[1]}"
    return f"{text}.{b64u(key.sign(text.encode()) if isinstance(key, Signer) else key._mac(text))}"


MAC_HEADER = b'{"alg":"HS256","kid":"%s","typ":"affiant-proof-mac+jwt"}' % SESSION.encode()
SIGNED_HEADER = b'{"alg":"ES256","kid":"%s","typ":"affiant-proof+jwt"}' % KEY.kid.encode()


def test_the_two_headers_are_exactly_these() -> None:
    assert by_mac() == under(MAC_HEADER, SHARED) and proof() == under(SIGNED_HEADER, KEY)


@pytest.mark.parametrize(
    "header",
    [
        MAC_HEADER.replace(b"HS256", b"none"),
        MAC_HEADER.replace(b"HS256", b"ES256"),
        MAC_HEADER.replace(b"HS256", b"HS512"),
        MAC_HEADER.replace(b"-mac", b""),
        MAC_HEADER.replace(b"-mac+", b"-macc"),
        MAC_HEADER.replace(SESSION.encode(), KEY.kid.encode()),
        MAC_HEADER.replace(b'"alg"', b'"crit":["b64"],"alg"'),
        MAC_HEADER.replace(b"}", b',"x":1}'),
        MAC_HEADER.replace(b'"alg"', b'"alg":"HS256","alg"'),
        MAC_HEADER.replace(b":", b": "),
        MAC_HEADER + b"\n",
        b'{"kid":"%s","alg":"HS256","typ":"affiant-proof-mac+jwt"}' % SESSION.encode(),
        SIGNED_HEADER.replace(b"ES256", b"HS256"),
        SIGNED_HEADER.replace(b"ES256", b"none"),
        SIGNED_HEADER.replace(b"proof+", b"proof-mac+"),
        SIGNED_HEADER.replace(KEY.kid.encode(), SESSION.encode()),
    ],
    ids=count(),  # the key is another in each process
)
def test_any_other_header_is_none_though_the_mac_or_the_signature_holds(header: bytes) -> None:
    for key in (SHARED, KEY):
        text = under(header, key)
        with raises_code("fmt.jws"):
            proven_by(text)
        for judged in (SHARED, KEY.public_key):
            with raises_code("fmt.jws"):
                check(text, key=judged)


def test_a_public_key_is_no_key_of_a_mac() -> None:
    """The classical confusion: HS256 with the bytes of the public key, in each of its encodings, as the secret."""
    public = KEY.public_key
    encodings = [
        public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint),
        public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        from_b64u(KEY.kid),
        KEY.kid.encode(),
    ]
    for header in (MAC_HEADER, SIGNED_HEADER, SIGNED_HEADER.replace(b"ES256", b"HS256")):
        for secret in encodings:
            text = f"{b64u(header)}.{proof().split('.')[1]}"
            text += f".{b64u(hmac.digest(secret, text.encode(), 'sha256'))}"
            for key in (SHARED, KEY.public_key):
                with pytest.raises(AffiantError):
                    check(text, key=key)


def test_a_proof_by_mac_has_three_parts_and_32_bytes_of_mac() -> None:
    head, _, mac = by_mac().rpartition(".")
    with raises_code("sig.invalid"):
        check(f"{head}.{b64u(bytes(32))}", key=SHARED)
    for text in (
        "",
        ".",
        "..",
        head,
        f"{head}.",
        f"{head}.{mac}.",
        f"{head}.{mac}A",
        f"{head}.{mac[:-1]}=",
        head + "é",
    ):
        with pytest.raises(AffiantError):
            check(text, key=SHARED)
    for size in (0, 31, 33, 64):
        with pytest.raises(AffiantError):
            check(f"{head}.{b64u(bytes(size))}", key=SHARED)


@pytest.mark.parametrize("payload", [b"[]", b"7", b"{}", b'{"a": 1}', b"{", b"\xff"])
def test_what_is_under_a_mac_that_holds_must_be_a_proof_all_the_same(payload: bytes) -> None:
    text = f"{b64u(MAC_HEADER)}.{b64u(payload)}"
    with pytest.raises(AffiantError):
        check(f"{text}.{b64u(SHARED._mac(text))}", key=SHARED)


def test_a_mac_agrees_with_another_implementation() -> None:
    options = {"verify_iat": False}
    members = jwt.decode(by_mac(), bytes(range(32)), algorithms=["HS256"], options=options)
    assert members["ses"] == SESSION and jwt.get_unverified_header(by_mac())["kid"] == SESSION


def test_a_key_for_macs_is_never_shown_or_copied() -> None:
    assert repr(SHARED) == "<MACKey>"
    for copying in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError):
            copying(SHARED)
    for size in (0, 31, 33):
        with pytest.raises(AssertionError):
            MACKey(bytes(size), session=SESSION)


@pytest.mark.parametrize(
    ("request_change", "code"),
    [
        ({"method": "GET"}, "proof.mismatch"),
        ({"target": "/v1/chat/completions"}, "proof.mismatch"),
        ({"target": "/v1/chat/completions?a=c"}, "proof.mismatch"),
        ({"body_sha256": bytes(32)}, "proof.mismatch"),
        ({"content_type": "text/plain"}, "proof.mismatch"),
        ({"content_type": None}, "proof.mismatch"),
        ({"nonce": None}, "proof.mismatch"),
        ({"nonce": "M" * 43}, "proof.mismatch"),
    ],
)
def test_a_proof_for_another_request_is_refused(request_change: dict[str, object], code: str) -> None:
    for text, key in ((proof(), KEY.public_key), (by_mac(), SHARED)):
        with pytest.raises(AffiantError) as caught:
            check(text, request=replace(REQUEST, **request_change), key=key)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"session": "T" * 22}, "proof.mismatch"),
        ({"keyset_digest": "L" * 43}, "proof.mismatch"),
        ({"counted": False}, "proof.mismatch"),
        ({"now": NOW + timedelta(seconds=61)}, "proof.stale"),
        ({"now": NOW - timedelta(seconds=61)}, "proof.stale"),
        ({"key": Signer.generate().public_key}, "fmt.jws"),
    ],
)
def test_a_proof_elsewhere_or_at_another_time_is_refused(change: dict[str, object], code: str) -> None:
    with pytest.raises(AffiantError) as caught:
        check(proof(), **change)
    assert caught.value.code == code


def test_what_holds_for_a_head_holds_for_the_one_body_that_was_signed() -> None:
    known = {"key": KEY.public_key, "session": SESSION, "keyset_digest": KEYSET, "counted": True, "now": NOW}
    held = verify_proof_of_head(proof(), REQUEST.head, **known)
    assert held.cseq == 0 and not isinstance(held, VerifiedProof)
    assert held.covering(REQUEST.body_sha256) == check(proof())
    with pytest.raises(ProofMismatch):
        held.covering(bytes(32))


def test_a_counter_is_demanded_where_one_belongs() -> None:
    with pytest.raises(AffiantError):
        check(proof(cseq=None))
    assert check(proof(cseq=None), counted=False).cseq is None


@given(st.integers(0, 400), st.sampled_from("AZaz09_-."))
def test_any_changed_character_is_refused(position: int, character: str) -> None:
    text = proof()
    position %= len(text)
    changed = text[:position] + character + text[position + 1 :]
    if changed != text:
        with pytest.raises(AffiantError):
            check(changed)


@given(st.integers(0, 400), st.sampled_from("AZaz09_-."))
def test_any_changed_character_of_a_proof_by_mac_is_refused(position: int, character: str) -> None:
    text = by_mac()
    position %= len(text)
    changed = text[:position] + character + text[position + 1 :]
    if changed != text:
        with pytest.raises(AffiantError):
            check(changed, key=SHARED)


@given(st.lists(st.integers(0, 200), max_size=150))
def test_a_window_takes_each_counter_at_most_once_and_none_behind_it(numbers: list[int]) -> None:
    window, taken, highest = ReplayWindow(), set(), -1
    for number in numbers:
        if number in taken or number <= highest - WINDOW:
            with pytest.raises(ProofReplayed):
                window.take(number)
        else:
            window.take(number)
            taken.add(number)
            highest = max(highest, number)


def test_a_far_jump_forgets_nothing() -> None:
    window = ReplayWindow()
    window.take(0)
    window.take(10**9)
    with pytest.raises(ProofReplayed):
        window.take(0)
    window.take(10**9 - 1)
