"""In-toto statements: one subject and one predicate, in any layout; anything else is the caller's error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from affiant.attestation.signatures.in_toto import InTotoStatement, parse_in_toto
from affiant.errors import MalformedError

_TYPE = "tag:affiant.dev,2026:test/1"
_STATEMENT = InTotoStatement("it", "ab" * 32, _TYPE, {"said": ["a", 1]})


class Malformed(MalformedError):
    """The caller's own."""


def parse(statement: bytes) -> InTotoStatement:
    return parse_in_toto(statement, predicate_type=_TYPE, limit=1024, error=Malformed)


def test_a_statement_is_read_as_it_was_written() -> None:
    assert parse(_STATEMENT.to_bytes()) == _STATEMENT


def test_any_layout_is_read() -> None:
    document = json.loads(_STATEMENT.to_bytes())
    assert parse(json.dumps(dict(reversed(document.items())), indent=3).encode()) == _STATEMENT


@pytest.mark.parametrize(
    "change",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"predicateType": "tag:affiant.dev,2026:test/2"},
        {"predicateType": 7},
        {"predicate": []},
        {"more": 1},
        {"subject": []},
        {"subject": [{"name": "it", "digest": {"sha256": "ab" * 32}}] * 2},
        {"subject": [{"name": "it", "digest": {"sha256": "AB" * 32}}]},
        {"subject": [{"name": "it", "digest": {"sha256": "ab" * 32, "sha512": "ab" * 64}}]},
        {"subject": [{"name": "it", "digest": {"sha256": "ab" * 32}, "uri": "x"}]},
        {"subject": [{"digest": {"sha256": "ab" * 32}}]},
    ],
)
def test_another_form_is_the_callers_error(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        parse(json.dumps({**json.loads(_STATEMENT.to_bytes()), **change}).encode())


@pytest.mark.parametrize("statement", [b"", b"[]", b"{}", b'{"a":1,"a":1}', b" " * 1025])
def test_what_is_no_strict_json_object_is_the_callers_error(statement: bytes) -> None:
    with pytest.raises(Malformed):
        parse(statement)
