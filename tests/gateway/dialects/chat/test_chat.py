"""Requests: two readers must not see two requests, and only tools may be taken out."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.dialect import ModelRequest, Offered
from affiant.gateway.dialects.strict_json import parse_json
from affiant.gateway.wire.errors import RequestMalformed

GOOD = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def tool(name: str) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def names(request: ModelRequest) -> tuple[str | None, ...]:
    return tuple(each.name for each in request.tools)


def named(*allowed: str) -> Callable[[Offered], bool]:
    return lambda offered: offered.name in allowed


def body(**members: object) -> bytes:
    return json.dumps({**GOOD, **members}).encode()


def test_what_is_decided_about_is_read() -> None:
    found = Chat().read_request(
        body(
            stream=True,
            temperature=0.7,
            n=2,
            tools=[tool("a"), {"type": "web_search"}],
            functions=[{"name": "f"}],
        )
    )
    assert (found.model, found.stream, names(found)) == ("m", True, ("a", None, "f"))
    assert found.parameters == {"temperature": "0.7", "n": "2"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"model":"m","model":"n","messages":[]}',
        b'{"model":"m","messages":[{"role":"user","role":"system"}]}',
        b'{"model":"m","messages":[],"temperature":NaN}',
        b'{"model":"m","messages":[],"temperature":Infinity}',
        b'{"model":"m","messages":{}}',
        b'{"model":"m"}',
        b'{"model":7,"messages":[]}',
        b'{"model":"","messages":[]}',
        b'{"model":"a b","messages":[]}',
        b'{"model":"m\\u0000","messages":[]}',
        b'{"model":"m","messages":[],"stream":"yes"}',
        b'{"model":"m","messages":[],"tools":{}}',
        b'{"model":"m","messages":[],"tools":"x"}',
        b"\xff\xfe{\x00}\x00",
        '{"model":"m","messages":[]}'.encode("utf-16"),
        b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model":"m","messages":[],"seed":' + b"9" * 5000 + b"}",
        b'{"model":"m","Model":"big","messages":[]}',
        b'{"model":"m","mode\\u006c\\u0000":"big","messages":[]}',
        b'{"model":"m","messages":[],"Messages":[]}',
        b'{"model":"m","messages":[],"STREAM":true}',
        b'{"model":"m","messages":[],"Tools":[{"type":"function","function":{"name":"rm"}}]}',
        b'{"model":"m","messages":[],"Functions":[{"name":"rm"}]}',
        b'{"model":"m","messages":[],"toolChoice":{"type":"function","function":{"name":"rm"}}}',
        b'{"model":"m","messages":[],"maxTokens":9}',
        b'{"model":"m","messages":[],"tools":[{"type":"function","Function":{"name":"rm"}}]}',
        b'{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"a","Name":"rm"}}]}',
        b'{"model":"m","messages":[],"functions":[{"name":"a","NAME":"rm"}]}',
        b'{"model":"m","messages":[],"tools":[],"tool_choice":{"Type":"function"}}',
    ],
)
def test_what_two_readers_could_read_differently_is_refused(data: bytes) -> None:
    with pytest.raises(RequestMalformed):
        Chat().read_request(data)


def test_members_of_others_and_of_a_tools_schema_pass_in_every_spelling() -> None:
    schema = {"type": "object", "properties": {"Name": {"Type": "string"}, "Function": {}, "Model": {}}}
    listed = {"type": "function", "function": {"name": "a", "parameters": schema, "strict": True}}
    found = Chat().read_request(
        body(tools=[listed], metadata={"Model": "x"}, user="u", response_format={"Type": "x"})
    )
    assert names(found) == ("a",)


@pytest.mark.parametrize(
    "entry",
    [
        {**tool("a"), "custom": {"name": "rm"}},
        {**tool("a"), "name": "rm"},
        {"type": "custom", "custom": {"name": "a"}, "function": {"name": "rm"}},
    ],
)
def test_a_tool_with_two_names_has_none_that_a_profile_could_list(entry: dict) -> None:
    assert names(Chat().read_request(body(tools=[entry]))) == (None,)
    assert b"rm" not in Chat().without_tools(body(tools=[entry, tool("a")]), named("a"))


def test_no_secret_text_stands_in_a_refusal() -> None:
    with pytest.raises(RequestMalformed) as refused:
        Chat().read_request(b'{"model":"m","messages":[],"hunter2":1,"hunter2":2}')
    assert "hunter2" not in str(refused.value)


def test_removing_tools_keeps_every_other_byte() -> None:
    text = (
        b'{ "model" : "m",  "messages":[ {"content":"\\u00e9  x","role":"user"} ], "temperature": 1.0e0,'
        b' "tools": [%s , %s], "tool_choice":"auto", "seed":007 }'
    ) % (json.dumps(tool("keep")).encode(), json.dumps(tool("drop")).encode())
    text = text.replace(b"007", b"7")
    changed = Chat().without_tools(text, named("keep"))
    assert b'[ {"content":"\\u00e9  x","role":"user"} ]' in changed and b"1.0e0" in changed
    value = json.loads(changed)
    assert [entry["function"]["name"] for entry in value["tools"]] == ["keep"]
    assert value["tool_choice"] == "auto"


@pytest.mark.parametrize(
    ("members", "left"),
    [
        ({"tools": [tool("x")], "tool_choice": "required", "parallel_tool_calls": True}, set()),
        ({"tools": [{"type": "web_search"}]}, set()),
        ({"tools": [{"type": "function", "function": {}}]}, set()),
        (
            {
                "tools": [tool("ok"), tool("x")],
                "tool_choice": {"type": "function", "function": {"name": "x"}},
            },
            {"tools"},
        ),
        (
            {
                "tools": [tool("ok"), tool("x")],
                "tool_choice": {"type": "function", "function": {"name": "ok"}},
            },
            {"tools", "tool_choice"},
        ),
        (
            {"tools": [tool("ok"), tool("x")], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
            {"tools"},
        ),
        ({"functions": [{"name": "x"}], "function_call": {"name": "x"}}, set()),
        ({"functions": [{"name": "ok"}, {"name": "x"}], "function_call": {"name": "x"}}, {"functions"}),
        ({"functions": [{"name": "ok"}], "function_call": "auto"}, {"functions", "function_call"}),
        ({"tools": None}, {"tools"}),
    ],
)
def test_what_points_at_a_removed_tool_goes_too(members: dict, left: set) -> None:
    value = json.loads(Chat().without_tools(body(**members), named("ok")))
    assert set(value) - set(GOOD) == left


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6), st.sets(st.sampled_from(["a", "b"])))
@thorough(60)
def test_only_allowed_tools_remain_in_their_order(names: list[str], allowed: set[str]) -> None:
    value = json.loads(Chat().without_tools(body(tools=[tool(name) for name in names]), named(*allowed)))
    found = [entry["function"]["name"] for entry in value.get("tools", [])]
    assert found == [name for name in names if name in allowed]
    assert {k: v for k, v in value.items() if k != "tools"} == GOOD


@given(st.binary(max_size=200))
@thorough(200)
def test_no_input_does_anything_but_parse_or_be_refused(data: bytes) -> None:
    try:
        parse_json(data)
    except RequestMalformed:
        pass


def test_the_terminal_event_is_recognised_as_clients_do() -> None:
    assert all(Chat().is_terminal(event) for event in (b"data: [DONE]\n\n", b"data:[DONE] \n\n"))
    assert not any(
        Chat().is_terminal(event) for event in (b"data:  [DONE]\n\n", b"data: {}\n\n", b": [DONE]\n\n")
    )
