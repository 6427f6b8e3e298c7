"""Proofs of possession: one request, one session, one gateway, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.raising import raises_code

from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.proof import (
    WINDOW,
    ProofMismatch,
    ProofReplayed,
    ReplayWindow,
    Request,
    VerifiedProof,
    issue_proof,
    verify_proof,
    verify_proof_of_head,
)
from affiant.errors import AffiantError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = Signer.generate()
SESSION, KEYSET = "S" * 22, "K" * 43
REQUEST = Request.of(
    "POST", "/v1/chat/completions?a=b", b"{}", content_type="application/json", nonce="N" * 43
)


def proof(**changes: object) -> str:
    known = {"session": SESSION, "cseq": 0, "keyset_digest": KEYSET, "now": NOW, **changes}
    return issue_proof(known.pop("key", KEY), known.pop("request", REQUEST), **known)


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
    with pytest.raises(AffiantError) as caught:
        check(proof(), request=replace(REQUEST, **request_change))
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
