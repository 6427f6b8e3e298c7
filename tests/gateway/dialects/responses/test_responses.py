"""Requests of the Responses API: what is read of them, what of them is listed, and how tools are removed."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator

import pytest
from openai.types.responses import (
    ResponseInputItem,
    ResponseOutputItem,
    ResponseStreamEvent,
    response_create_params,
)
from tests.raising import raises_code

from affiant.gateway.dialects.dialect import Offered
from affiant.gateway.dialects.responses.responses import Responses
from affiant.gateway.dialects.responses.responses_members import PROVIDED, RESPONSES_LISTS
from affiant.gateway.dialects.unlisted import read_members
from affiant.gateway.wire.errors import RequestMalformed, UpstreamCut
from affiant.gateway.wire.errors_http import error_body

TOOL = {"type": "function", "name": "a", "parameters": {"type": "object"}, "description": "d"}


def read(**members: object):  # noqa: ANN201 - a request
    return Responses().read_request(json.dumps({"model": "m", "input": "hi", **members}).encode())


def kinds(union: object) -> Iterator[str]:
    """The values of ``type`` of the forms of a union in OpenAI's package."""
    if typing.get_origin(union) is typing.Annotated:
        yield from kinds(typing.get_args(union)[0])
    elif hasattr(union, "model_fields"):
        annotation = union.model_fields["type"].annotation
        yield from (each for each in typing.get_args(annotation) if isinstance(each, str))
        for inner in typing.get_args(annotation):
            yield from (each for each in typing.get_args(inner) if isinstance(each, str))
    else:
        for each in typing.get_args(union):
            yield from kinds(each)


def test_every_member_that_the_package_has_is_listed_or_left_out_for_a_reason() -> None:
    known = set(response_create_params.ResponseCreateParamsBase.__annotations__)
    assert known - set(RESPONSES_LISTS.request.members["request"]) == {"conversation", "prompt"}


def test_every_kind_of_item_and_event_that_the_package_has_is_listed_or_left_out_for_a_reason() -> None:
    request, response = RESPONSES_LISTS.request.kinds, RESPONSES_LISTS.response.kinds
    offering = {"additional_tools", "tool_search_call", "tool_search_output"}
    assert set(kinds(ResponseInputItem)) - set(request["item"]) == offering
    assert set(kinds(ResponseOutputItem)) - set(response["output_item"]) == set()
    events = set(kinds(ResponseStreamEvent))
    commands = {
        each
        for each in events
        if each.startswith(("response.shell_call_command.", "response.shell_call_output"))
    }
    assert events - set(response["event"]) == commands and commands
    called = {each for each in kinds(ResponseOutputItem) if each.endswith("_call")}
    assert called - set(PROVIDED) == {"function_call", "custom_tool_call"}


def test_a_request_is_read_as_it_is_meant() -> None:
    found = read(
        stream=True,
        max_output_tokens=9,
        temperature=0.5,
        previous_response_id="resp_1",
        input=[{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "hi"}],
        tools=[TOOL, {"type": "custom", "name": "b"}, {"type": "web_search"}],
    )
    assert (found.model, found.stream, found.stored) == ("m", True, True)
    assert (found.continues, found.items) == ("resp_1", ("msg_1",))
    assert found.answer.tokens == 9 and found.parameters == {"max_output_tokens": "9", "temperature": "0.5"}
    assert [(tool.name, tool.provider) for tool in found.tools] == [
        ("a", None),
        ("b", None),
        (None, "web_search"),
    ]
    assert found.tools[0].schema is not None and found.tools[1].schema is None
    assert [tool.name for tool in found.members.provider_tools] == ["web_search"]
    assert found.members.unlisted is None
    assert (
        not read(store=False).stored and read(previous_response_id=None, conversation=None).continues is None
    )


@pytest.mark.parametrize(
    "members",
    [
        {"conversation": "conv_1"},
        {"conversation": {}},
        {"Conversation": "conv_1"},
        {"previousResponseId": "resp_1"},
        {"max_outputTokens": 1},
        {"previous_response_id": ["resp_1"]},
        {"input": 7},
        {"tools": {}},
        {"tools": [{**TOOL, "Name": "b"}]},
        {"tool_choice": {"Type": "function", "name": "a"}},
        {"stream": "yes"},
        {"input": [{"type": "item_reference", "id": 7}]},
        {"model": ""},
    ],
)
def test_what_two_readers_could_read_differently_is_refused(members: dict) -> None:
    with pytest.raises(RequestMalformed):
        read(**members)


def test_other_members_that_bound_an_answer_leave_it_unbounded() -> None:
    for members in ({}, {"max_tokens": 5}, {"max_output_tokens": 5, "n": 2}, {"max_output_tokens": 0}):
        assert read(**members).answer.tokens is None


def test_an_agreement_to_a_providers_call_is_a_wish_for_its_tool() -> None:
    item = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
    (wish,) = read(input=[{"role": "user", "content": "hi"}, item]).members.provider_tools
    assert (wish.name, wish.where) == ("mcp", "input[1]")


def without(value: dict, *names: str) -> dict:
    def allowed(tool: Offered) -> bool:
        return tool.called in names

    return json.loads(Responses().without_tools(json.dumps(value).encode(), allowed))


def test_tools_are_removed_with_what_points_at_them() -> None:
    tools = [TOOL, {"type": "custom", "name": "b"}, {"type": "mcp", "server_label": "s"}]
    asked = {"model": "m", "input": "hi", "tools": tools, "tool_choice": "auto", "parallel_tool_calls": True}
    assert without(asked, "a") == {**asked, "tools": [TOOL]}
    assert without(asked, "mcp")["tools"] == tools[2:]
    assert without(asked) == {"model": "m", "input": "hi"}
    for choice, stays in (
        ({"type": "function", "name": "a"}, True),
        ({"type": "custom", "name": "b"}, False),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "b"}]}, False),
        ({"type": "mcp", "server_label": "s"}, False),
    ):
        assert ("tool_choice" in without({**asked, "tool_choice": choice}, "a")) is stays


def test_names_of_an_operators_are_listed_where_places_take_them() -> None:
    lists = Responses().with_names(("request.new", "item.new", "event.response.new")).lists
    assert read_members({"new": {}, "input": [{"type": "new"}]}, lists.request).unlisted is None
    assert "response.new" in lists.response.kinds["event"]
    with raises_code("gateway.settings"):
        Responses().with_names(("tool.new",))


def test_an_error_ends_a_stream_in_the_form_that_clients_raise() -> None:
    error = UpstreamCut("it was cut")
    event = Responses().error_event(error)
    assert event.startswith(b"event: error\ndata: ") and event.endswith(b"\n\n")
    value = json.loads(event.partition(b"data: ")[2])
    inner = json.loads(error_body(error))["error"]
    assert (value["type"], value["error"], value["code"]) == ("error", inner, "upstream.cut")
    assert not Responses().is_terminal(event)
