"""No event of the Responses API, and no repetition of one, brings an agent a call that was not allowed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import MalformedError
from affiant.gateway.dialects.judged_calls import MAX_HELD, Passed, ToolCall
from affiant.gateway.dialects.relay import Relay
from affiant.gateway.dialects.responses.responses import Responses
from affiant.gateway.upstream.dev_echo import MODEL, answer_to
from affiant.gateway.upstream.dev_echo_responses import respond, respond_stream
from affiant.gateway.wire.errors import ToolNotAllowedError, UpstreamCut
from affiant.policy.decision.decide import Decision, denied, granted

RULES = ("tools/0",)
NAMES = {"read_file", "run_tests"}
TEXT = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "hi"}],
}


def allowing(*names: str, provider: tuple[str, ...] = ()) -> Callable[..., Decision]:
    def judge(name: str, arguments: str | None, *, provider: bool = False) -> Decision:
        del arguments
        return (
            granted(RULES, ask=False) if name in (run if provider else names) else denied("tool_not_listed")
        )

    run = provider
    return judge


JUDGE = allowing(*NAMES)


def ignored(_: object) -> None:
    """Nothing is done with an event's value."""


def event(kind: str, **members: object) -> bytes:
    value = {"type": kind, "sequence_number": 0, **members}
    return b"event: " + kind.encode() + b"\ndata: " + json.dumps(value).encode() + b"\n\n"


def call(name: str = "read_file", arguments: str = "{}", *, at: int = 1, **more: object) -> dict:
    given = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": name}
    return {**given, "arguments": arguments, "status": "completed", **more}


def added(item: dict, *, at: int = 1) -> bytes:
    empty = {name: "" for name in ("arguments", "input") if name in item}
    return event("response.output_item.added", output_index=at, item={**item, **empty})


def done(item: dict, *, at: int = 1) -> bytes:
    return event("response.output_item.done", output_index=at, item=item)


def delta(text: str, *, at: int = 1, kind: str = "function_call_arguments", **more: object) -> bytes:
    return event(f"response.{kind}.delta", output_index=at, item_id=f"fc_{at}", delta=text, **more)


def response(*output: dict, status: str = "completed", **more: object) -> dict:
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "model": "m",
        "output": list(output),
        **more,
    }


def ended(*output: dict, status: str = "completed", **more: object) -> bytes:
    return event(f"response.{status}", response=response(*output, status=status, **more))


def run(events: list[bytes], judge: Callable[..., Decision] = JUDGE) -> tuple[list[bytes], list[ToolCall]]:
    """What an agent gets of a stream: events and calls; the terminal event last."""
    relay = Relay(Responses(), judge)  # type: ignore[arg-type]
    passed: list[bytes] = []
    calls: list[ToolCall] = []
    for one in events:
        step = relay.feed(one)
        passed += step.events
        calls += step.calls
        if step.ended:
            return [*passed, step.terminal], calls
    relay.finish()
    raise AssertionError("it did not end")


def judged(*output: dict, judge: Callable[..., Decision] = JUDGE) -> tuple[ToolCall, ...]:
    return Responses().judge_response(response(*output), judge)  # type: ignore[arg-type]


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


CREATED = event("response.created", response=response(status="in_progress"))


def test_text_goes_on_at_once() -> None:
    judge = Responses().stream_filter(JUDGE, ignored)
    one = event("response.output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta="hello")
    assert judge.feed(one) == Passed((one,))


def test_an_allowed_call_is_held_until_complete_and_told_with_its_arguments() -> None:
    item = call(arguments='{"a":1}')
    events = [CREATED, added(item), delta('{"a"'), delta(":1}"), done(item), ended(item)]
    passed, calls = run(events)
    assert passed == events
    assert calls == [ToolCall("read_file", digest('{"a":1}'), RULES)]
    judge = Responses().stream_filter(JUDGE, ignored)
    assert [judge.feed(one).events for one in events[:5]] == [(CREATED,), (), (), (), tuple(events[1:5])]


def test_calls_of_several_items_are_all_judged_together() -> None:
    one, two = call(at=1), call("run_tests", at=2)
    events = [CREATED, added(one), added(two, at=2), done(one), done(two, at=2), ended(one, two)]
    passed, calls = run(events)
    assert passed == events and [each.name for each in calls] == ["read_file", "run_tests"]


def test_a_call_that_only_the_terminal_event_names_is_judged() -> None:
    assert [each.name for each in run([CREATED, ended(TEXT, call())])[1]] == ["read_file"]
    assert [each.name for each in run([CREATED, done(call()), ended(call())])[1]] == ["read_file"]
    with pytest.raises(ToolNotAllowedError):
        run([CREATED, ended(TEXT, call("rm"))])


def test_a_call_that_the_terminal_event_repeats_twice_is_two_calls() -> None:
    item = call()
    for again in (item, {**item, "id": "fc_7"}):
        _, calls = run([CREATED, added(item), done(item), ended(item, again)])
        assert [each.name for each in calls] == ["read_file", "read_file"]
    assert len(judged(item, item)) == 2


def test_reasoning_that_is_left_out_in_the_end_does_not_make_a_call_another_one() -> None:
    item = call(at=2)
    _, calls = run([CREATED, added(item, at=2), delta("{}", at=2), done(item, at=2), ended(item)])
    assert len(calls) == 1


RM = call("rm")
CUSTOM = {"type": "custom_tool_call", "id": "fc_1", "call_id": "call_1", "name": "rm", "input": "x"}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_1",
    "action": {"commands": ["rm -r /"]},
    "status": "completed",
}
FORBIDDEN = {
    "by name": [added(RM), delta("{}"), done(RM), ended(RM)],
    "announced and never finished": [added(RM), ended()],
    "whole, unannounced": [done(RM), ended(RM)],
    "case": [done(call("Read_File")), ended()],
    "homoglyph": [done(call("read_f\u0456le")), ended()],
    "trailing space": [done(call("read_file ")), ended()],
    "second of two": [done(call()), done(call("rm", at=2), at=2), ended()],
    "without a name": [done(call("")), ended()],
    "pieces that belong to no item": [delta("{}"), ended()],
    "a whole that belongs to no item": [
        event("response.function_call_arguments.done", output_index=1, item_id="fc_1", arguments="{}"),
        ended(),
    ],
    "a custom tool": [added(CUSTOM), delta("x", kind="custom_tool_call_input"), done(CUSTOM), ended(CUSTOM)],
    "in the first event": [event("response.created", response=response(RM)), ended()],
    "in a failed response": [CREATED, ended(RM, status="failed")],
    "in an incomplete response": [CREATED, ended(RM, status="incomplete")],
    "after it was complete": [done(call()), delta("{}"), ended()],
    "announced again after it was complete": [done(call()), added(call()), ended()],
    "a shell": [done(SHELL), ended(SHELL)],
    "escaped member names": [done(RM).replace(b"function_call", b"function\\u005fcall"), ended()],
    "of a namespace": [done(call(namespace="danger")), ended()],
    "data over several lines": [
        done(RM).replace(b', "item"', b',\ndata: "item"'),
        ended(),
    ],
    **{
        f"run by the provider: {kind}": [done({"type": kind, "id": "x_1", "status": "completed"}), ended()]
        for kind in (
            *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
            *("mcp_call", "mcp_list_tools", "mcp_approval_request", "tool_search_call", "program"),
            *("computer_call", "local_shell_call", "apply_patch_call"),
        )
    },
    **{
        f"said by an event alone: {kind}": [event(f"response.{kind}", output_index=1, item_id="x"), ended()]
        for kind in (
            *("web_search_call.in_progress", "mcp_call.completed", "mcp_call_arguments.delta"),
            *("code_interpreter_call_code.delta", "image_generation_call.partial_image"),
        )
    },
}


@pytest.mark.parametrize("events", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_forbidden_call_never_goes_on(events: list[bytes]) -> None:
    with pytest.raises(ToolNotAllowedError):
        run(events)


ITEM = call(arguments='{"a":1}')
TWO_READINGS = {
    "the pieces": [added(ITEM), delta('{"a":2}'), done(ITEM)],
    "the whole text": [
        added(ITEM),
        event("response.function_call_arguments.done", output_index=1, item_id="fc_1", arguments="{}"),
        done(ITEM),
    ],
    "the announcement": [
        event("response.output_item.added", output_index=1, item=call(arguments='{"b":1}')),
        done(ITEM),
    ],
    "an announcement with all of it, and pieces": [
        event("response.output_item.added", output_index=1, item=ITEM),
        delta('{"a":1}'),
        done(ITEM),
    ],
    "pieces after the whole": [
        added(ITEM),
        event("response.function_call_arguments.done", output_index=1, item_id="fc_1", arguments='{"a":1}'),
        delta("x"),
    ],
    "the name": [added(call("run_tests", '{"a":1}')), done(ITEM)],
    "the name of the text": [
        added(ITEM),
        event(
            "response.function_call_arguments.done",
            output_index=1,
            item_id="fc_1",
            arguments='{"a":1}',
            name="run_tests",
        ),
    ],
    "the id": [added(ITEM), delta('{"a":1}').replace(b"fc_1", b"fc_2"), done(ITEM)],
    "the call's id": [added(ITEM), done({**ITEM, "call_id": "call_2"})],
    "its type": [added(ITEM), done({**CUSTOM, "name": "read_file"})],
    "an item that is none": [added(ITEM), done(TEXT)],
    "its place, twice": [added(ITEM), added(ITEM)],
    "a name that is left out": [added(ITEM), delta('{"a":1}'), done(call("", '{"a":1}'))],
    "a name that is left out in the end": [added(ITEM), delta('{"a":1}'), ended(call("", '{"a":1}'))],
    "the end": [added(ITEM), delta('{"a":1}'), done(ITEM), ended(call(arguments='{"a":2}'))],
    "the name in the end": [done(ITEM), ended(call("run_tests", '{"a":1}'))],
    "the end, before it was complete": [added(ITEM), delta('{"a":1}'), ended(call(arguments='{"a":2}'))],
}


@pytest.mark.parametrize("events", TWO_READINGS.values(), ids=TWO_READINGS.keys())
def test_a_call_that_is_said_in_two_ways_is_none(events: list[bytes]) -> None:
    with raises_code("upstream.answer"):
        run([CREATED, *events, ended()])


UNREADABLE = {
    "no place": event("response.output_item.done", item=ITEM),
    "a place that is no number": event("response.output_item.done", output_index=True, item=ITEM),
    "an item that is no object": event("response.output_item.done", output_index=1, item=[ITEM]),
    "an output that is no list": event("response.in_progress", response={"output": {"a": ITEM}}),
    "no response": event("response.in_progress"),
    "arguments that are no text": done({**ITEM, "arguments": {"a": 1}}),
    "no type": b'data: {"output": []}\n\n',
    "a hidden end": ended()
    .replace(b"event: response.completed\n", b"")
    .replace(b'"response.co', b'"response\\u002eco'),
    "another type in its name": event("keepalive").replace(b"event: keepalive", b"event: response.completed"),
    "two names": b"event: response.completed\n" + event("keepalive"),
    "not JSON": b"data: [DONE]\n\n",
    "a call elsewhere": event("response.in_progress", response=response(metadata={"tool_calls": [ITEM]})),
    "a name that is almost one": done({**ITEM, "Arguments": "{}"}),
    "two of a member": done(ITEM).replace(b'"name": "read_file"', b'"name": "read_file", "name": "rm"'),
}


@pytest.mark.parametrize("one", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_judged_is_refused(one: bytes) -> None:
    with pytest.raises((MalformedError, ToolNotAllowedError)):
        run([CREATED, one, ended()])


UNLISTED = {
    "an event": event("response.new_thing", output_index=1),
    "commands of a shell": event("response.shell_call_command.added", output_index=1, command="rm"),
    "an item": done({"type": "new_call", "id": "x"}),
    "an item of a whole response": event("response.in_progress", response=response({"type": "new"})),
    "an object in an item": done({**TEXT, "extra": {"a": 1}}),
    "an object like a call": event(
        "response.in_progress", response=response(metadata={"name": "rm", "input": "x"})
    ),
    "a part": event("response.content_part.added", output_index=0, part={"type": "new"}),
}


@pytest.mark.parametrize("one", UNLISTED.values(), ids=UNLISTED.keys())
def test_what_is_not_listed_is_refused(one: bytes) -> None:
    with raises_code("upstream.unlisted"):
        run([CREATED, one, ended()])
    passed, _ = run([CREATED, event("response.output_text.delta", delta="a", new=1), ended()])
    assert len(passed) == 3


PROVIDED = {
    "web_search_call": ("web_search", {"action": {"type": "search", "query": "x", "queries": ["x"]}}),
    "file_search_call": ("file_search", {"queries": ["x"], "results": [{"text": "a", "filename": "f"}]}),
    "code_interpreter_call": ("code_interpreter", {"code": "1", "outputs": [{"type": "logs", "logs": "1"}]}),
    "image_generation_call": ("image_generation", {"action": "generate", "result": "aGk="}),
    "mcp_call": ("mcp", {"name": "ask", "arguments": "{}", "server_label": "s", "output": "1"}),
    "mcp_list_tools": ("mcp", {"tools": [{"name": "ask", "input_schema": {"type": "object"}}]}),
    "mcp_approval_request": ("mcp", {"name": "ask", "arguments": "{}", "server_label": "s"}),
    "tool_search_call": ("tool_search", {"arguments": {"q": "x"}, "execution": "server"}),
    "shell_call": (
        "shell",
        {"action": {"commands": ["ls"]}, "environment": {"type": "container_reference", "container_id": "c"}},
    ),
}


@pytest.mark.parametrize(("kind", "tool", "members"), [(k, t, m) for k, (t, m) in PROVIDED.items()])
def test_what_the_provider_did_passes_where_the_profile_allows_its_tool(
    kind: str, tool: str, members: dict
) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", **members}
    may = allowing(provider=(tool,))
    events = [CREATED, done(item), ended(item)]
    assert run(events, may) == (events, [])
    assert judged(item, judge=may) == ()
    with pytest.raises(ToolNotAllowedError) as refused:
        judged(item, judge=allowing(tool))
    assert refused.value.tool == tool


def test_an_older_name_of_the_providers_tool_allows_its_calls() -> None:
    item = {"type": "web_search_call", "id": "x", "status": "completed"}
    assert judged(item, judge=allowing(provider=("web_search_preview",))) == ()


AGENT_RUN = {
    "local_shell": {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    "shell": {"type": "shell_call", "action": {"commands": ["ls"]}},
    "apply_patch": {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
    "computer": {"type": "computer_call", "actions": [{"type": "click", "x": 1, "y": 2, "button": "left"}]},
    "tool_search": {"type": "tool_search_call", "arguments": {"q": "x"}, "execution": "client"},
}


@pytest.mark.parametrize(("tool", "members"), AGENT_RUN.items())
def test_a_tool_of_the_providers_that_the_agent_runs_must_be_allowed_twice(tool: str, members: dict) -> None:
    item = {"id": "x_1", "call_id": "call_1", "status": "completed", **members}
    (made,) = judged(item, judge=allowing(tool, provider=(tool,)))
    assert made.name == tool
    _, calls = run([CREATED, done(item), ended(item)], allowing(tool, provider=(tool,)))
    assert calls == [made]
    for judge in (allowing(tool), allowing(provider=(tool,))):
        with pytest.raises(ToolNotAllowedError):
            judged(item, judge=judge)


def test_each_reading_of_a_patch_is_judged() -> None:
    def judge(name: str, arguments: str | None, *, provider: bool = False) -> Decision:
        allowed = provider or (name == "apply_patch" and "/etc" not in (arguments or ""))
        return granted(RULES, ask=False) if allowed else denied("tool_argument_refused")

    item = {"type": "apply_patch_call", "id": "x", "call_id": "c"}
    etc = {"type": "delete_file", "path": "/etc/passwd"}
    own = {"type": "delete_file", "path": "a"}
    announced = event("response.output_item.added", output_index=1, item={**item, "operation": etc})
    with pytest.raises(ToolNotAllowedError):
        run([CREATED, announced, done({**item, "operation": own}), ended()], judge)


def test_a_whole_response_is_judged_too() -> None:
    assert judged(TEXT, call()) == (ToolCall("read_file", digest("{}"), RULES),)
    assert judged({**CUSTOM, "name": "run_tests"})[0].arguments_digest == digest("x")
    for bad in (RM, CUSTOM, call(""), call(namespace="n"), SHELL):
        with pytest.raises(ToolNotAllowedError):
            judged(bad)
    with raises_code("upstream.answer"):
        Responses().judge_response({"type": "response.completed", "response": response(call())}, JUDGE)  # type: ignore[arg-type]


def test_items_of_a_list_are_judged_as_those_of_a_response() -> None:
    listed = {"object": "list", "data": [{**TEXT, "role": "user"}], "has_more": False, "first_id": "msg_1"}
    assert Responses().judge_response(listed, JUDGE) == ()  # type: ignore[arg-type]
    with pytest.raises(ToolNotAllowedError):
        Responses().judge_response({**listed, "data": [RM]}, JUDGE)  # type: ignore[arg-type]


def test_definitions_that_a_response_repeats_are_no_calls() -> None:
    tool = {
        "type": "function",
        "name": "rm",
        "parameters": {"type": "object", "properties": {"tool_calls": {"type": "array", "input": 1}}},
    }
    form = {"format": {"type": "json_schema", "name": "x", "schema": {"function_call": {"a": 1}}}}
    given = response(TEXT, tools=[tool], text=form)
    assert Responses().judge_response(given, JUDGE) == ()  # type: ignore[arg-type]
    assert run([event("response.created", response=given), ended(TEXT, tools=[tool])])[1] == []


def test_a_call_that_never_ends_is_bounded() -> None:
    judge = Responses().stream_filter(JUDGE, ignored)
    judge.feed(added(call()))
    with raises_code("upstream.answer"):
        for _ in range(MAX_HELD // 60_000 + 2):
            judge.feed(delta("x" * 60_000))


def test_an_upstream_cannot_make_calls_without_end() -> None:
    with raises_code("upstream.answer"):
        run([done(call(at=at), at=at) for at in range(1, 131)])
    with raises_code("upstream.answer"):
        judged(*(call(at=at) for at in range(130)))


def test_what_a_call_was_made_with_is_not_kept_once_it_went_on() -> None:
    judge = Responses().stream_filter(JUDGE, ignored)
    item = call(arguments=json.dumps({"a": "x" * 100_000}))
    judge.feed(done(item))
    judge.read = None
    assert all(len(each.text) == 0 for each in judge._judged.values())
    with raises_code("upstream.answer"):
        judge.end(ended(call(arguments="{}")))


def test_a_stream_ends_with_its_terminal_event_alone() -> None:
    item = call()
    with pytest.raises(UpstreamCut):
        run([CREATED, done(item)])
    failed = event("error", code="server_error", message="no", param=None)
    with pytest.raises(UpstreamCut):
        run([CREATED, failed])
    assert run([CREATED, failed, ended(status="failed")])[0][1] == failed
    bare = b"data: " + ended().partition(b"data: ")[2]
    assert run([CREATED, bare])[0] == [CREATED, bare]
    assert run([CREATED, ended(), done(RM)])[0] == [CREATED, ended()]


def test_the_echo_passes_whole_and_streamed_as_the_same() -> None:
    for text in ("several words", 'call_tool:read_file {"path": "a long enough path"}'):
        request = {"model": MODEL, "input": text}
        events = list(respond_stream(request, answer_to, MODEL))
        passed, calls = run(events)
        whole = json.loads(respond(request, answer_to, MODEL))
        assert passed == events
        assert tuple(calls) == Responses().judge_response(whole, JUDGE)  # type: ignore[arg-type]
        assert bool(calls) is text.startswith("call_tool")


names = st.sampled_from(["read_file", "run_tests", "rm", "Read_file", ""])
steps = st.one_of(
    st.builds(lambda n, at: added(call(n, at=at), at=at), names, st.integers(1, 3)),
    st.builds(lambda t, at: delta(t, at=at), st.sampled_from(["{}", "{", "}"]), st.integers(1, 3)),
    st.builds(
        lambda n, t, at: done(call(n, t, at=at), at=at), names, st.sampled_from(["{}", ""]), st.integers(1, 3)
    ),
)


@given(
    st.lists(steps, max_size=10),
    st.lists(st.builds(lambda n, at: call(n, at=at), names, st.integers(1, 3)), max_size=3),
)
@thorough(300)
def test_every_name_that_goes_on_is_allowed_and_recorded(events: list[bytes], output: list[dict]) -> None:
    try:
        passed, calls = run([CREATED, *events, ended(*output)])
    except (ToolNotAllowedError, MalformedError):
        return
    said = [json.loads(one.partition(b"data: ")[2]) for one in passed]
    items = [value["item"] for value in said if "item" in value] + said[-1]["response"]["output"]
    recorded = {(one.name, one.arguments_digest) for one in calls}
    assert {item["name"] for item in said[-1]["response"]["output"]} <= NAMES
    assert {item["name"] for item in items} <= {*NAMES, ""} and {name for name, _ in recorded} <= NAMES
    assert {(item["name"], digest(item["arguments"])) for item in items if item["arguments"]} <= recorded
