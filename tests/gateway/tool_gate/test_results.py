"""A server's result: of MCP's form, bounded, and without what the gateway keeps secret."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.gateway.tool_gate.results import MAX_RESULT, error_text, passed_result
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.redaction import Redactor

VALUE = b"s3cr3t-Value/with+chars=0123456789"
KNOWS = Redactor([(SecretValue(VALUE), "[redacted]")])
NOTHING = Redactor(())


def passed(**members: Any) -> dict[str, Any]:
    return json.loads(passed_result({"content": [], **members}, NOTHING).data)


def test_content_of_every_kind_passes_without_what_is_not_known() -> None:
    content = [
        {"type": "text", "text": "é", "annotations": {"audience": ["user"]}, "_meta": {"x": 1}, "more": 1},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///x", "name": "x", "size": 5},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "t", "_meta": {}}},
    ]
    found = passed(content=content, structuredContent={"a": [1, None]}, _meta={"x": 1}, extra=1)
    assert found == {
        "content": [
            {"type": "text", "text": "é"},
            *content[1:4],
            {"type": "resource", "resource": {"uri": "file:///x", "text": "t"}},
        ],
        "structuredContent": {"a": [1, None]},
        "isError": False,
    }


@pytest.mark.parametrize(
    "members",
    [
        {"content": None},
        {"content": "text"},
        {"content": [5]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{"type": ["text"], "text": "x"}]},
        {"content": [{"type": "script", "text": "x"}]},
        {"content": [{"type": "image", "data": "AAAA"}]},
        {"content": [{"type": "text", "text": "\ud800"}]},
        {"content": [{"type": "text", "text": ""}] * 2000},
        {"content": [{"type": "text", "text": "x" * MAX_RESULT}]},
        {"structuredContent": [1]},
        {"structuredContent": {"a": float("nan")}},
        {"isError": "no"},
    ],
)
def test_a_result_of_another_form_is_refused(members: dict[str, Any]) -> None:
    with raises_code("upstream.answer"):
        passed(**members)


@pytest.mark.parametrize(
    "spelling",
    [
        VALUE.decode(),
        VALUE.decode()[::-1],
        VALUE.hex(),
        base64.b64encode(VALUE).decode(),
        base64.b64encode(b"x" + VALUE).decode(),
        json.dumps(VALUE.decode()),
        VALUE.decode().upper(),
    ],
)
@pytest.mark.parametrize("place", ["text", "data", "structured", "name"])
def test_a_secret_of_the_gateway_is_redacted_wherever_it_stands(spelling: str, place: str) -> None:
    members: dict[str, Any] = {
        "text": {"content": [{"type": "text", "text": f"a {spelling} b"}]},
        "data": {"content": [{"type": "image", "data": spelling, "mimeType": "image/png"}]},
        "structured": {"content": [], "structuredContent": {"a": [{"b": spelling}]}},
        "name": {"content": [], "structuredContent": {spelling: 1}},
    }[place]
    found = passed_result(members, KNOWS)
    assert found.redacted
    assert "[redacted]" in json.dumps(json.loads(found.data))
    assert spelling not in found.data.decode()
    assert not passed_result({"content": [{"type": "text", "text": "plain"}]}, KNOWS).redacted


def test_a_servers_own_words_are_short_and_printable_and_hold_no_secret() -> None:
    said = error_text("\x1b[31mno " + VALUE.decode() + "x" * 5000, KNOWS)
    assert len(said) <= 310
    assert "\x1b" not in said and VALUE.decode() not in said
