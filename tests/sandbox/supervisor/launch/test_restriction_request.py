"""A request to narrow is read strictly: it comes from outside of the trusted half."""

from __future__ import annotations

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.errors import AffiantError, StateError
from affiant.sandbox.supervisor.launch.restriction_request import (
    RestrictionRequest,
    RestrictionResult,
    parse_restriction_request,
    refused_answer,
)

GOOD = {"op": "narrow", "id": 3, "policy": b64u(b"{}"), "file": "sha256:" + "0" * 64, "signature": None}


def test_a_request_is_read() -> None:
    assert parse_restriction_request(GOOD) == RestrictionRequest(b"{}", "sha256:" + "0" * 64, None)
    assert parse_restriction_request({**GOOD, "signature": b64u(b"s")}).signature == b"s"


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": None},
        {"policy": "="},
        {"policy": 1},
        {"file": "sha256:" + "0" * 63},
        {"file": "sha384:" + "0" * 64},
        {"file": "sha256:" + "0" * 64 + "\n"},
        {"signature": 1},
        {"signature": "!"},
        {"more": 1},
    ],
)
def test_anything_else_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(AffiantError):
        parse_restriction_request({**GOOD, **changes})
    for name in GOOD:
        with raises_code("session.control"):
            parse_restriction_request({key: value for key, value in GOOD.items() if key != name})


def test_answers_name_the_request() -> None:
    assert RestrictionResult(2, "sha384:x", changed=True).to_json(7) == {
        "event": "narrowed", "id": 7, "epoch": 2, "digest": "sha384:x", "changed": True,
    }  # fmt: skip
    answer = refused_answer(7, StateError("not now", hint="Ask again", code="session.narrowing_busy"))
    assert answer == {
        "event": "narrow-refused",
        "id": 7,
        "code": "session.narrowing_busy",
        "message": "not now",
        "hint": "Ask again",
    }
