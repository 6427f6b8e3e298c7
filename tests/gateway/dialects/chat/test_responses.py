"""No spelling of a forbidden tool call gets past the filter, and nothing else is held."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.dialects.answers import judged
from tests.properties import thorough
from tests.raising import raises_code

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.judged_calls import MAX_HELD, Passed, ToolCall
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.policy.decision.decide import Decision, denied, granted

RULES = ("tools/0",)


def allowed(name: str, _arguments: str | None = None) -> Decision:
    return granted(RULES, ask=False) if name in {"read_file", "run_tests"} else denied("tool_not_listed")


def ignored(_: object) -> None:
    """Nothing is done with an event's value."""


def event(delta: dict, *, finish: str | None = None, index: int = 0) -> bytes:
    value = {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def call(name: str | None = None, arguments: str | None = None, *, index: int = 0, **more: object) -> dict:
    function = {k: v for k, v in {"name": name, "arguments": arguments}.items() if v is not None}
    return {"tool_calls": [{"index": index, "function": function, **more}]}


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def run(events: list[bytes]) -> tuple[list[bytes], list[ToolCall]]:
    judge = Chat().stream_filter(allowed, ignored)
    steps = [judge.feed(one) for one in events] + [judge.release()]
    return [e for s in steps for e in s.events], [c for s in steps for c in s.calls]


def test_an_upstream_cannot_finish_choices_without_end() -> None:
    with raises_code("upstream.answer"):
        run([event({}, finish="stop", index=number) for number in range(129)])


def test_text_goes_on_at_once() -> None:
    judge = Chat().stream_filter(allowed, ignored)
    one = event({"content": "hello"})
    assert judge.feed(one) == Passed((one,))


def test_an_allowed_call_is_held_until_complete_and_told_with_its_arguments() -> None:
    judge = Chat().stream_filter(allowed, ignored)
    events = [event(call("read_file", "")), event(call(None, '{"a"')), event(call(None, ":1}"))]
    assert [judge.feed(one) for one in events] == [Passed()] * 3
    last = event({}, finish="tool_calls")
    assert judge.feed(last) == Passed((*events, last), (ToolCall("read_file", digest('{"a":1}'), RULES),))


def test_calls_of_several_indexes_are_all_judged() -> None:
    events = [
        event(call("read_file", "{}")),
        event(call("run_tests", "{}", index=1)),
        event({}, finish="tool_calls"),
    ]
    passed, calls = run(events)
    assert passed == events and [c.name for c in calls] == ["read_file", "run_tests"]


FORBIDDEN = {
    "by name": [event(call("rm", "{}")), event({}, finish="tool_calls")],
    "case": [event(call("Read_File", "{}")), event({}, finish="tool_calls")],
    "homoglyph": [event(call("read_f\u0456le", "{}")), event({}, finish="tool_calls")],
    "trailing space": [event(call("read_file ", "{}")), event({}, finish="tool_calls")],
    "second of two": [event(call("read_file")), event(call("rm", index=1)), event({}, finish="tool_calls")],
    "name split after an allowed prefix": [
        event(call("read_file")),
        event(call("_x")),
        event({}, finish="stop"),
    ],
    "name split into allowed halves that join": [
        event(call("read_file")),
        event(call("run_tests")),
        event({}, finish="stop"),
    ],
    "no name at all": [event(call(None, "{}")), event({}, finish="tool_calls")],
    "empty name": [event(call("", "{}")), event({}, finish="tool_calls")],
    "the older form": [event({"function_call": {"name": "rm", "arguments": "{}"}}), event({}, finish="stop")],
    "a custom tool": [
        event({"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "rm", "input": "x"}}]}),
        event({}, finish="stop"),
    ],
    "a tool of the upstream's own": [
        event({"tool_calls": [{"index": 0, "type": "web_search", "function": {"name": "read_file"}}]}),
        event({}, finish="stop"),
    ],
    "escaped member names": [
        event(call("rm", "{}")).replace(b"tool_calls", b"tool\\u005fcalls"),
        event({}, finish="stop"),
    ],
    "in another choice": [event(call("rm"), index=3), event({}, finish="stop", index=3)],
    "as a whole message": [
        b"data: " + json.dumps({"choices": [{"index": 0, "message": call("rm")}]}).encode() + b"\n\n"
    ],
    "data over several lines": [
        event(call("rm")).replace(b'"delta"', b'\ndata: "delta"'),
        event({}, finish="stop"),
    ],
    "after its choice was finished": [
        event(call("read_file", "{}")),
        event({}, finish="tool_calls"),
        event(call("run_tests", "{}")),
    ],
    "never finished": [event(call("rm", "{}"))],
}


@pytest.mark.parametrize("events", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_forbidden_call_never_goes_on(events: list[bytes]) -> None:
    with pytest.raises(ToolNotAllowedError):
        run(events)


def test_what_was_held_with_a_forbidden_call_does_not_go_on() -> None:
    judge = Chat().stream_filter(allowed, ignored)
    judge.feed(event(call("read_file", "{}")))
    judge.feed(event({"content": "more"}))
    with pytest.raises(ToolNotAllowedError):
        judge.feed(event({**call("rm", index=1)}, finish="tool_calls"))


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[{"delta":{"tool_calls":[{]}}]}',
        b'{"choices":[{"delta":{"tool_calls":{}}}]}',
        b'{"choices":[{"delta":{"tool_calls":[1]}}]}',
        b'{"choices":{"delta":{"tool_calls":[]}}}',
        b'["tool_calls"]',
        b'{"choices":[{"delta":{"tool_calls":[],"tool_calls":[{"function":{"name":"rm"}}]}}]}',
    ],
)
def test_what_cannot_be_judged_is_refused(data: bytes) -> None:
    with raises_code("upstream.answer"):
        Chat().stream_filter(allowed, ignored).feed(b"data: " + data + b"\n\n")


def test_a_call_that_never_ends_is_bounded() -> None:
    judge = Chat().stream_filter(allowed, ignored)
    judge.feed(event(call("read_file", "")))
    with raises_code("upstream.answer"):
        for _ in range(MAX_HELD // 60_000 + 2):
            judge.feed(event(call(None, "x" * 60_000)))


def answer(message: dict) -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message}]}).encode()


def test_a_whole_answer_is_judged_too() -> None:
    good = {"tool_calls": [{"type": "function", "function": {"name": "read_file", "arguments": "{}"}}]}
    assert judged(answer(good), allowed) == (ToolCall("read_file", digest("{}"), RULES),)
    assert judged(answer({"content": "hi"}), allowed) == ()
    for bad in (
        {"tool_calls": [{"type": "function", "function": {"name": "rm", "arguments": "{}"}}]},
        {"tool_calls": [{"type": "mcp", "function": {"name": "read_file"}}]},
        {"tool_calls": [{}]},
        {"function_call": {"name": "rm"}},
    ):
        with pytest.raises(ToolNotAllowedError):
            judged(answer(bad), allowed)


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b'{"a":1,"a":2}'])
@pytest.mark.parametrize("judge", [allowed, None])
def test_an_answer_that_is_not_strict_json_is_refused(body: bytes, judge: object) -> None:
    with raises_code("upstream.answer"):
        judged(body, judge)  # type: ignore[arg-type]


names = st.sampled_from(["read_file", "run_tests", "rm", "Read_file", ""])


@given(st.lists(st.tuples(names, st.integers(0, 3), st.booleans()), max_size=8))
@thorough(200)
def test_every_name_that_goes_on_is_allowed(parts: list[tuple[str, int, bool]]) -> None:
    events = [event(call(name, "{}", index=at), finish="stop" if end else None) for name, at, end in parts]
    try:
        passed, calls = run(events)
    except ToolNotAllowedError:
        return
    assert passed == events
    assert all(allowed(name) for name, _, _ in parts if name)
    assert all(allowed(one.name) for one in calls)


def test_text_of_a_known_shape_is_held_like_all_else_while_a_call_is() -> None:
    judge = Chat().stream_filter(allowed, ignored)
    first, later = event({"content": "one"}), event({"content": "two"})
    started, ended = event(call("read_file", "{}")), event({}, finish="tool_calls")
    assert judge.feed(first) == Passed((first,))
    assert judge.feed(started) == Passed()
    assert judge.feed(later) == Passed()
    assert judge.feed(ended).events == (started, later, ended)


def test_a_call_has_no_known_shape_however_often_text_came_before_it() -> None:
    judge = Chat().stream_filter(allowed, ignored)
    denied_call = event({"content": "x", "tool_calls": [{"function": {"name": "rm", "arguments": "{}"}}]})
    for text in ("x", "y", 'with "quotes"', "z"):
        judge.feed(event({"content": text}))
    assert judge.feed(denied_call) == Passed()
    with pytest.raises(ToolNotAllowedError):
        judge.release()
