"""Requests of Anthropic's Messages API: two readers see one request, and only tools may be taken out."""

from __future__ import annotations

import json

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import NotAllowedError
from affiant.gateway.dialects.dialect import Offered
from affiant.gateway.dialects.messages.messages import Messages
from affiant.gateway.dialects.messages.messages_lists import CLIENT_TOOLS
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.wire.errors import Busy, RequestMalformed, ToolNotAllowedError
from affiant.policy.canonical.tool_origin import tool_digest

GOOD = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
SCHEMA = {"type": "object", "properties": {"Name": {"type": "string"}}}
TOOL = {"name": "a", "description": "d", "input_schema": SCHEMA}
URL = "https://example.com/a.png"


def body(**members: object) -> bytes:
    return json.dumps({**GOOD, **members}).encode()


def read(**members: object):
    return Messages().read_request(body(**members))


def user(*blocks: object) -> dict:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def test_what_is_decided_about_is_read() -> None:
    found = read(
        stream=True, temperature=0.5, tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"}]
    )
    assert (found.model, found.stream, found.answer.tokens) == ("m", True, 9)
    assert [(each.name, each.provider) for each in found.tools] == [
        ("a", None),
        (None, "web_search_20250305"),
    ]
    assert found.parameters == {"max_tokens": "9", "temperature": "0.5"}
    assert found.tools[0].schema == tool_digest("a", "d", SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "{", '{"model":"m","model":"n","messages":[]}', '{"model":"m"}'),
        '{"model":"m","messages":{}}',
        '{"model":"m","messages":[],"Messages":[]}',
        '{"model":"m","messages":[],"maxTokens":9}',
        '{"model":"m","messages":[],"max_tokens":NaN}',
        '{"model":"m","messages":[],"tools":{}}',
        '{"model":"m","messages":[],"Tools":[]}',
        '{"model":"m","messages":[],"tools":[{"Name":"rm"}]}',
        '{"model":"m","messages":[],"tools":[{"name":"a","inputSchema":{}}]}',
        '{"model":"m","messages":[],"toolChoice":{"type":"tool","name":"rm"}}',
        '{"model":"m","messages":[],"tool_choice":{"Type":"tool"}}',
        '{"model":"m","messages":[],"mcpServers":[]}',
        '{"model":"m","messages":[],"stream":"yes"}',
        '{"model":"a b","messages":[]}',
    ],
)
def test_what_two_readers_could_read_differently_is_rejected(text: str) -> None:
    with pytest.raises(RequestMalformed):
        Messages().read_request(text.encode())


UNLISTED: dict[str, tuple[dict, str]] = {
    "a member": ({"plugins": []}, "plugins"),
    "a conversation of the upstream's": (
        {"thread": {"type": "continue", "previous_message_id": "x"}},
        "thread",
    ),
    "other models": ({"fallbacks": "default"}, "fallbacks"),
    "a credit": ({"fallback_credit_token": "x"}, "fallback_credit_token"),
    "another's bill": ({"billing_policy": {"type": "billing_policy"}}, "billing_policy"),
    "a member of a message": (
        {"messages": [{"role": "user", "content": "x", "tools": []}]},
        "messages[0].tools",
    ),
    "a tool that a message adds": (
        {"messages": [{"role": "system", "content": [{"type": "tool_addition", "tool": {}}]}]},
        "messages[0].content[0].type",
    ),
    "a tool that a summary adds": (
        user({"type": "compaction", "content": "x", "tool_changes": [{"type": "tool_addition"}]}),
        "messages[0].content[0].tool_changes[0].type",
    ),
    "a file of the upstream's": (
        user({"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
        "messages[0].content[0].source.type",
    ),
    "a file for a container": (
        user({"type": "container_upload", "file_id": "f"}),
        "messages[0].content[0].type",
    ),
    "a block": (user({"type": "web_page", "url": URL}), "messages[0].content[0].type"),
    "a member of a block": (user({"type": "text", "text": "x", "url": URL}), "messages[0].content[0].url"),
    "a block in a result": (
        user({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "web_page"}]}),
        "messages[0].content[0].content[0].type",
    ),
    "a block in a document": (
        user({"type": "document", "source": {"type": "content", "content": [{"type": "x"}]}}),
        "messages[0].content[0].source.content[0].type",
    ),
    "a system block": ({"system": [{"type": "image"}]}, "system[0].type"),
    "a member of a tool": ({"tools": [{**TOOL, "server_url": URL}]}, "tools[0].server_url"),
    "a choice": ({"tool_choice": {"type": "web_search"}}, "tool_choice.type"),
}


@pytest.mark.parametrize("name", UNLISTED)
def test_what_a_request_has_beyond_the_lists_is_found_with_its_path(name: str) -> None:
    members, where = UNLISTED[name]
    assert read(**members).members.unlisted == where


PROVIDED: dict[str, tuple[dict, str, str]] = {
    "a search": (
        {"tools": [{"type": "web_search_20260318", "name": "a"}]},
        "web_search_20260318",
        "tools[0]",
    ),
    "servers": ({"mcp_servers": [{"type": "url", "url": URL, "name": "n"}]}, "mcp", "mcp_servers"),
    "tools of servers": (
        {"tools": [{"type": "mcp_toolset", "mcp_server_name": "n"}]},
        "mcp_toolset",
        "tools[0]",
    ),
    "a container": ({"container": "c"}, "container", "container"),
    "a toolset": ({"tools": [{"type": "browser_toolset_20260801"}]}, "browser_toolset_20260801", "tools[0]"),
    "a later version": ({"tools": [{"type": "bash_20990101", "name": "bash"}]}, "bash_20990101", "tools[0]"),
}


@pytest.mark.parametrize("name", PROVIDED)
def test_a_tool_that_the_provider_runs_is_found_by_its_type(name: str) -> None:
    members, tool, where = PROVIDED[name]
    found = read(**members).members
    assert found.unlisted is None
    assert [(each.name, each.where) for each in found.provider_tools] == [(tool, where)]


@pytest.mark.parametrize("kind", CLIENT_TOOLS)
def test_a_tool_that_anthropic_defines_has_the_one_name_that_the_model_calls(kind: str) -> None:
    (offered,) = read(tools=[{"type": kind, "name": CLIENT_TOOLS[kind]}]).tools
    assert (offered.name, offered.provider) == (CLIENT_TOOLS[kind], None)
    (other,) = read(tools=[{"type": kind, "name": "a"}]).tools
    assert other.called is None


def test_every_client_tool_and_member_of_the_package_is_known_or_left_out_on_purpose() -> None:
    from anthropic.types.beta import message_create_params

    known = set(message_create_params.MessageCreateParamsBase.__annotations__)
    left_out = {"billing_policy", "fallback_credit_token", "fallbacks", "thread"}
    sent_as_headers = {"betas", "user_profile_id", "workspace_id"}
    asked = known - left_out - sent_as_headers - {"container", "mcp_servers"}
    assert asked >= {"messages", "system", "thinking", "context_management"}
    listed = Messages().lists.request.members["request"]
    assert asked <= set(listed) and not left_out & set(listed)
    assert set(anthropic.types.MessageCountTokensParams.__annotations__) - sent_as_headers <= set(listed)


def test_a_conversation_with_everything_that_is_listed_is_listed() -> None:
    blocks = [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "citations": None},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        {
            "type": "document",
            "title": "t",
            "source": {"type": "text", "media_type": "text/plain", "data": "x"},
        },
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "https://x/"}]},
        },
        {"type": "search_result", "source": URL, "title": "t", "content": [{"type": "text", "text": "x"}]},
        {"type": "thinking", "thinking": "x", "signature": "y"},
        {"type": "redacted_thinking", "data": "/x"},
        {"type": "tool_use", "id": "t", "name": "a", "input": {"url": URL}, "caller": {"type": "direct"}},
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [{"type": "tool_reference", "tool_name": "a"}],
        },
        {"type": "tool_result", "tool_use_id": "t", "content": URL, "is_error": True},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": URL}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "x", "url": URL}]},
        {"type": "mcp_tool_use", "id": "s", "name": "b", "server_name": "n", "input": {"u": URL}},
        {"type": "mcp_tool_result", "tool_use_id": "s", "content": [{"type": "text", "text": URL}]},
        {"type": "compaction", "content": "x", "tool_changes": None},
    ]
    found = read(
        **user(*blocks),
        system=[{"type": "text", "text": URL}],
        tools=[TOOL, {"type": "bash_20250124", "name": "bash"}],
        tool_choice={"type": "tool", "name": "a", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 1024},
        metadata={"user_id": URL},
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"},
        stop_sequences=["https://"],
    )
    assert (found.members.unlisted, found.members.provider_tools, found.urls) == (None, (), ())


NAMED: dict[str, tuple[dict, str]] = {
    "an image": (user({"type": "image", "source": {"type": "url", "url": URL}}), "GET"),
    "a path as an image": (user({"type": "image", "source": {"type": "url", "url": "/etc/passwd"}}), "GET"),
    "a document": (user({"type": "document", "source": {"type": "url", "url": URL}}), "GET"),
    "an image in a result": (
        user({"type": "tool_result", "content": [{"type": "image", "source": {"type": "url", "url": URL}}]}),
        "GET",
    ),
    "an image in a document": (
        user(
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "image", "source": {"url": URL}}]},
            }
        ),
        "GET",
    ),
    "a source that is text": (user({"type": "image", "source": URL}), "GET"),
    "data that is a URL": (user({"type": "image", "source": {"type": "base64", "data": URL}}), "GET"),
    "a file that is a path": (user({"type": "image", "source": {"type": "file", "file_id": "/a/b"}}), "GET"),
    "an unknown block": (user({"type": "web_page", "page": "x.example/a"}), "GET"),
    "a server": ({"mcp_servers": [{"type": "url", "url": URL, "name": "n"}]}, "POST"),
    "a server without scheme": ({"mcp_servers": [{"type": "url", "url": "x.example", "name": "n"}]}, "POST"),
    "a schema's reference": ({"tools": [{**TOOL, "input_schema": {"$ref": URL}}]}, "GET"),
    "an output's schema": ({"output_config": {"format": {"schema": {"$ref": URL}}}}, "GET"),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_the_upstream_may_fetch_is_named(name: str) -> None:
    members, method = NAMED[name]
    assert [each.method for each in read(**members).urls] == [method]


@pytest.mark.parametrize(
    ("members", "tokens"),
    [
        ({}, 9),
        ({"max_tokens": 0}, None),
        ({"max_tokens": "9"}, None),
        ({"max_tokens_to_sample": 10}, None),
        ({"compaction": {"type": "summarize"}}, None),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, None),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, 9),
    ],
)
def test_the_bound_of_a_response_is_what_every_server_would_read(members: dict, tokens: int | None) -> None:
    assert read(**members).answer.tokens == tokens


@pytest.mark.parametrize(
    ("members", "other"),
    [
        ({}, None),
        ({"fallbacks": [{"model": "n"}]}, "fallbacks"),
        ({"tools": [TOOL, {"type": "advisor_20260301", "name": "advisor", "model": "n"}]}, "tools[1].model"),
    ],
)
def test_what_lets_another_model_answer_is_found(members: dict, other: str | None) -> None:
    assert read(**members).other_models == other


def test_removing_tools_keeps_every_other_byte() -> None:
    text = (
        b'{ "model" : "m", "messages":[ {"content":"\\u00e9  x"} ], "temperature": 1.0e0, "tools": [%s , %s]}'
        % (
            json.dumps(TOOL).encode(),
            json.dumps({**TOOL, "name": "b"}).encode(),
        )
    )
    changed = Messages().without_tools(text, lambda offered: offered.name == "b")
    assert b'[ {"content":"\\u00e9  x"} ]' in changed and b"1.0e0" in changed
    assert [entry["name"] for entry in json.loads(changed)["tools"]] == ["b"]


@pytest.mark.parametrize(
    ("members", "left"),
    [
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, set()),
        ({"tools": [TOOL, {"name": "b"}], "tool_choice": {"type": "tool", "name": "a"}}, {"tools"}),
        (
            {"tools": [TOOL, {"name": "b"}], "tool_choice": {"type": "tool", "name": "b"}},
            {"tools", "tool_choice"},
        ),
        ({"tools": [TOOL, {"name": "b"}], "tool_choice": {"type": "any"}}, {"tools", "tool_choice"}),
        ({"tools": [{"type": "web_search_20250305"}, {"name": "b"}]}, {"tools"}),
    ],
)
def test_a_choice_that_would_point_at_nothing_goes_too(members: dict, left: set[str]) -> None:
    changed = json.loads(Messages().without_tools(body(**members), lambda offered: offered.name == "b"))
    assert set(changed) - set(GOOD) == left


@thorough(200)
@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_request_or_malformed(data: bytes) -> None:
    try:
        Messages().read_request(data)
        Messages().without_tools(data, lambda _: False)
    except RequestMalformed:
        pass


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.sampled_from(["tool_use", "text", URL]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "content", "source", "url", "input", "name", "tools", "cache_control"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@thorough(200)
@given(messages=st.lists(JSON, max_size=3), tools=st.none() | st.lists(JSON, max_size=3), system=JSON)
def test_any_values_at_the_places_of_a_request_are_read_or_malformed(
    messages: list, tools: list | None, system: object
) -> None:
    try:
        found = read(messages=messages, tools=tools, system=system)
        assert all(isinstance(each, Offered) for each in found.tools)
    except RequestMalformed:
        pass


def test_a_count_is_of_the_prompt_alone() -> None:
    counting = Messages(counts=True)
    asked = counting.read_request(json.dumps({**user("x"), "model": "m", "stream": True}).encode())
    assert (asked.stream, asked.answer.tokens) == (False, 0)
    assert counting.usage_in({"input_tokens": 7}, streamed=False) == Usage(7, 0)
    assert counting.usage_in({"input_tokens": "7"}, streamed=False) == Usage()
    assert counting.name == Messages().name == "messages"


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        ({"usage": {"input_tokens": 3, "output_tokens": 2}}, Usage(3, 2)),
        (
            {"usage": {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}},
            Usage(113),
        ),
        (
            {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
            Usage(3, 1),
        ),
        ({"type": "message_delta", "usage": {"output_tokens": 9}}, Usage(None, 9)),
        ({"usage": {"input_tokens": -3, "output_tokens": True}}, Usage()),
        ({"usage": [1]}, Usage()),
        ([], Usage()),
    ],
)
def test_token_counts_are_the_sum_of_a_prompts_parts(value: object, usage: Usage) -> None:
    assert Messages().usage_in(value, streamed=True) == usage


def test_an_error_has_the_form_that_the_clients_read() -> None:
    error = json.loads(Messages().error_body(NotAllowedError("no", code="tool.not_allowed")))
    assert error == {
        "type": "error",
        "error": {"type": "permission_error", "message": "no", "code": "tool.not_allowed"},
    }
    thread = ToolNotAllowedError("no", where="thread", code="request.unlisted")
    details = json.loads(Messages().error_body(thread))["error"]["details"]
    assert details == {"error_code": "thread_unsupported_request"}  # by which the client goes on without
    event = Messages().error_event(Busy("full"))
    assert event.startswith(b"event: error\ndata: {") and event.endswith(b"}\n\n")
    assert b'"rate_limit_error"' in event
