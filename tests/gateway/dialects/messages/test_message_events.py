"""No encoding of a forbidden call gets past the judge of Anthropic's messages, and nothing else is held."""

from __future__ import annotations

import hashlib
import json

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.gateway.dialects.judged_calls import MAX_HELD, Passed, ToolCall
from affiant.gateway.dialects.messages.message_events import MessageStream, is_message_stop
from affiant.gateway.dialects.messages.messages import Messages
from affiant.gateway.dialects.relay import Relay
from affiant.gateway.dialects.strict_json import read_response
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.wire.errors import ToolNotAllowedError, UpstreamCut
from affiant.policy.decision.decide import Decision, denied, granted

RULES = ("tools/0",)
NONE = b"{}"


def allowed(name: str, arguments: str | None = None, *, provider: bool = False) -> Decision:
    if provider:
        return denied("provider_tool_not_listed")
    try:
        readable = isinstance(json.loads(arguments or "{}"), dict)
    except ValueError:
        readable = False
    return (
        granted(RULES, ask=False) if readable and name in {"read_file", "run"} else denied("tool_not_listed")
    )


def event(kind: str, *, named: str | None = None, **members: object) -> bytes:
    data = json.dumps({"type": kind, **members})
    return f"event: {kind if named is None else named}\ndata: {data}\n\n".encode()


def start(block: dict, index: int = 0) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def call(name: str, **more: object) -> dict:
    return {"type": "tool_use", "id": "t", "name": name, "input": {}, **more}


def piece(text: str, index: int = 0) -> bytes:
    delta = {"type": "input_json_delta", "partial_json": text}
    return event("content_block_delta", index=index, delta=delta)


def words(text: str, index: int = 0) -> bytes:
    return event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def stop(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


BEGIN = event(
    "message_start",
    message={
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
)
DELTA = event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 9})
END = event("message_stop")
TEXT = {"type": "text", "text": ""}


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def stream() -> MessageStream:
    return Messages().stream_filter(allowed, lambda _: None)


def run(*events: bytes) -> tuple[list[bytes], list[ToolCall]]:
    judge = stream()
    steps = [judge.feed(one) for one in events] + [judge.end(END)]
    return [e for s in steps for e in s.events], [c for s in steps for c in s.calls]


def judged(value: object) -> tuple[ToolCall, ...]:
    return Messages().judge_response(read_response(json.dumps(value).encode()), allowed)


def test_texts_thoughts_and_pings_go_on_at_once() -> None:
    judge = stream()
    thought = event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "x"})
    signed = event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "y"})
    cited = event(
        "content_block_delta",
        index=1,
        delta={"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}},
    )
    events = [
        BEGIN,
        event("ping"),
        start({"type": "thinking", "thinking": "", "signature": ""}),
        thought,
        signed,
    ]
    events += [stop(), start(TEXT, 1), words("hi", 1), cited, stop(1), DELTA]
    assert [judge.feed(one) for one in events] == [Passed((one,)) for one in events]
    assert judge.end(END) == Passed()


def test_an_allowed_call_is_held_until_complete_and_passed_with_its_sorted_arguments() -> None:
    judge = stream()
    assert judge.feed(BEGIN) == Passed((BEGIN,))
    events = [start(call("read_file")), piece(""), piece('{"b": 1,'), event("ping"), piece(' "a": 2}')]
    assert [judge.feed(one) for one in events] == [Passed()] * len(events)
    complete = Passed((*events, stop()), (ToolCall("read_file", digest('{"a":2,"b":1}'), RULES),))
    assert judge.feed(stop()) == complete
    assert judge.feed(DELTA) == Passed((DELTA,))


def test_blocks_that_all_end_at_the_end_are_judged_there() -> None:
    events = [
        BEGIN,
        start(TEXT),
        start(call("read_file"), 1),
        start(call("run"), 2),
        piece("{}", 1),
        piece("{}", 2),
    ]
    passed, calls = run(*events, stop(0), stop(1), stop(2), DELTA)
    assert len(passed) == 10 and [each.name for each in calls] == ["read_file", "run"]


def test_a_stream_and_a_whole_message_name_the_same_arguments() -> None:
    _, streamed = run(BEGIN, start(call("run")), piece('{"b":[1.0],"a":"\\u00e9"}'), stop(), DELTA)
    _, begun = run(BEGIN, start(call("run", input={"a": "é", "b": [1.0]})), stop(), DELTA)
    whole = judged({"type": "message", "content": [call("run", input={"b": [1.0], "a": "é"})]})
    assert (
        tuple(streamed) == tuple(begun) == whole == (ToolCall("run", digest('{"a":"é","b":[1.0]}'), RULES),)
    )


FORBIDDEN: dict[str, list[bytes]] = {
    "by name": [start(call("rm")), piece("{}"), stop()],
    "without input": [start(call("rm")), stop()],
    "with its input at once": [start(call("rm", input={"a": 1})), stop()],
    "after an allowed one": [start(call("run")), stop(), start(call("rm"), 1), stop(1)],
    "beside an allowed one": [start(call("run")), start(call("rm"), 1), stop(0), stop(1)],
    "never ended": [start(call("rm")), piece("{}")],
    "after the message's end": [DELTA, start(call("rm")), stop()],
    "without a name": [start({"type": "tool_use", "id": "t", "input": {}}), stop()],
    "of a toolset": [start(call("run", toolset_name="computer")), stop()],
    "cut short": [start(call("run")), piece('{"a"'), stop()],
    "with arguments that are no object": [start(call("run")), piece("[]"), stop()],
    "with an argument twice": [start(call("run")), piece('{"a":1,"a":2}x'), stop()],
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_call_never_goes_on(name: str) -> None:
    judge, steps = stream(), []
    with pytest.raises(ToolNotAllowedError):
        for one in (BEGIN, *FORBIDDEN[name]):
            steps.append(judge.feed(one))
        judge.end(END)
    begun = [one for step in steps for one in step.events if b"content_block_start" in one]
    assert len(begun) == sum(len(step.calls) for step in steps) and b'"rm"' not in b"".join(begun)


MISREAD: dict[str, list[bytes]] = {
    "an event under another name": [start(call("rm")).replace(b"event: content_block_start", b"event: ping")],
    "an event with two names": [b"event: ping\n" + start(TEXT)],
    "a call in the first event": [
        BEGIN.replace(b'"content": []', b'"content": [%s]' % json.dumps(call("run")).encode())
    ],
    "a call in another event's member": [event("ping", content_block=call("run"))],
    "a call as content of an event": [event("ping", content=[call("run")])],
    "a call as a delta": [start(TEXT), event("content_block_delta", index=0, delta=call("run"))],
    "a call in a block": [start({**TEXT, "content": [call("run")]})],
    "a call in usage": [
        event("message_delta", delta={}, usage={"tool_calls": [call("run")], "a": call("run")})
    ],
    "a member almost named so": [start({**call("run"), "Name": "rm"})],
    "an input almost named so": [start({**call("run"), "Input": {"a": 1}})],
    "an index that is not the next": [start(call("run"), 1)],
    "an index twice": [start(TEXT), start(call("run"), 0)],
    "an index that is true": [
        start(TEXT),
        event("content_block_start", index=True, content_block=call("run")),
    ],
    "no index": [event("content_block_start", content_block=call("run"))],
    "an index that is text": [event("content_block_start", index="0", content_block=call("run"))],
    "a part of no block": [piece("{}")],
    "a part of a block that ended": [start(call("run")), stop(), piece("{}")],
    "the end of no block": [stop()],
    "the end of a block twice": [start(TEXT), stop(), stop()],
    "input for a text": [start(TEXT), piece('{"a":1}')],
    "text for a call": [start(call("run")), words("x")],
    "two inputs": [start(call("run", input={"a": 1})), piece('{"b":1}'), stop()],
    "input that is text": [start(call("run", input="x")), stop()],
    "a name that is no text": [start({**call("run"), "name": ["run"]}), stop()],
    "a number without end": [
        b'event: ping\ndata: {"type":"ping","a":1e999}\n\n',
        start(call("run")),
        piece('{"a":1e999}'),
        stop(),
    ],
    "no object": [b"event: ping\ndata: []\n\n"],
    "no JSON": [b"event: ping\ndata: {\n\n"],
    "a member twice": [b'event: ping\ndata: {"type":"ping","type":"error"}\n\n'],
    "the terminal event in disguise": [b'data: {"type":"message\\u005fstop"}\n\n'],
    "a line that is no field": [b'{"type":"ping"}\n\n'],
    "blocks without end": [start(TEXT, number) for number in range(129)],
    "calls without end": [
        each for n in range(129) for each in (start(call("run"), n), stop(n - 1) if n else event("ping"))
    ],
}


@pytest.mark.parametrize("name", MISREAD)
def test_what_readers_could_read_differently_never_goes_on(name: str) -> None:
    with pytest.raises(AffiantError) as found:
        run(BEGIN, *MISREAD[name])
    assert found.value.code in {"upstream.answer", "upstream.unlisted"}


ITEMS: dict[str, dict] = {
    "an unknown block": {"type": "function_call", "name": "run", "arguments": "{}"},
    "a block like a call": {"type": "text", "text": "x", "input": {}},
    "a block without type": {"name": "rm", "input": {}},
    "a change of tools": {"type": "compaction", "tool_changes": [{"type": "tool_addition", "tool": {}}]},
}


@pytest.mark.parametrize("name", ITEMS)
def test_a_block_that_is_not_listed_never_goes_on(name: str) -> None:
    with raises_code("upstream.unlisted"):
        run(BEGIN, start(ITEMS[name]))
    with raises_code("upstream.unlisted"):
        judged({"type": "message", "content": [ITEMS[name]]})


PROVIDED: dict[str, tuple[dict, str]] = {
    "a search": (
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        "web_search_20250305",
    ),
    "what it found": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [{"type": "web_search_result", "url": "u"}],
        },
        "web_search_20260318",
    ),
    "code of a search": (
        {"type": "server_tool_use", "name": "code_execution", "input": {}},
        "web_search_20260209",
    ),
    "a call of a server": ({"type": "mcp_tool_use", "name": "run", "server_name": "n", "input": {}}, "mcp"),
    "tools of a server": (
        {"type": "mcp_tool_listing", "mcp_server_name": "n", "tools": [{"name": "a"}]},
        "mcp",
    ),
    "a file": ({"type": "container_upload", "file_id": "f"}, "code_execution_20250825"),
    "an unknown tool": ({"type": "server_tool_use", "name": "fly", "input": {}}, "fly"),
}


@pytest.mark.parametrize("name", PROVIDED)
def test_what_a_provider_ran_goes_on_only_where_the_profile_allows_that_tool(name: str) -> None:
    block, tool = PROVIDED[name]
    later = [piece('{"a":1}')] if block["type"].endswith("_use") else []
    events = [BEGIN, start(block), *later, stop(), DELTA]
    for refused in (lambda: run(*events), lambda: judged({"content": [block]})):
        with pytest.raises(ToolNotAllowedError) as found:
            refused()
        assert found.value.code == "tool.not_allowed"

    def with_tool(called: str, arguments: str | None, *, provider: bool = False) -> Decision:
        return (
            granted(RULES, ask=False)
            if provider and called == tool
            else allowed(called, arguments, provider=provider)
        )

    passing = Messages().stream_filter(with_tool, lambda _: None)
    assert [passing.feed(one) for one in events] == [Passed((one,)) for one in events]
    assert Messages().judge_response({"content": [block]}, with_tool) == ()


@pytest.mark.parametrize(
    "value",
    [
        {"content": [call("rm")]},
        {"content": [TEXT, call("run"), call("rm")]},
        {"content": [call("run", toolset_name="browser")]},
        {"content": [{"type": "tool_use", "input": {}}]},
    ],
)
def test_a_forbidden_call_in_a_whole_message_is_none(value: dict) -> None:
    with pytest.raises(ToolNotAllowedError):
        judged(value)


@pytest.mark.parametrize(
    "value",
    [
        {"content": {"type": "tool_use"}},
        {"content": "x"},
        {"content": ["x"]},
        {"content": [], "content_block": call("run")},
        {"content": [], "message": {"content": [call("run")]}},
        {"content": [call("run", Name="rm")]},
        {"content": [call("run", input=[1])]},
        {"Content": [call("rm")]},
        {"content": [call("run")] * 129},
        [call("rm")],
        "x",
    ],
)
def test_a_whole_message_that_readers_could_read_differently_is_rejected(value: object) -> None:
    with pytest.raises(AffiantError) as found:
        judged(value)
    assert found.value.code in {"upstream.answer", "upstream.unlisted"}


def test_arguments_may_hold_what_would_be_a_call_elsewhere() -> None:
    arguments = {"name": "x", "arguments": {}, "tool_calls": [{"type": "tool_use"}], "Input": 1}
    (found,) = judged({"content": [call("run", input=arguments)]})
    assert found.name == "run"
    run(BEGIN, start(call("run", input=arguments)), stop(), DELTA)


def test_a_call_without_end_is_not_held_without_end() -> None:
    judge = stream()
    judge.feed(start(call("run")))
    with raises_code("upstream.answer"):
        for _ in range(2 + MAX_HELD // (1 << 18)):
            judge.feed(piece("x" * (1 << 18)))


@pytest.mark.parametrize(
    ("found", "ends"),
    [
        (END, True),
        (b'data: {"type":"message_stop"}\n\n', True),
        (b"event: message_stop\n\n", True),
        (b"event: message_stop\ndata: {\n\n", True),
        (words("message_stop"), False),
        (b"data: message_stop\n\n", False),
        (event("ping"), False),
        (b"data: [DONE]\n\n", False),
    ],
)
def test_a_stream_ends_where_a_client_takes_it_to_end(found: bytes, *, ends: bool) -> None:
    assert is_message_stop(found) is ends


@pytest.mark.parametrize(
    "last",
    [
        b"event: message_stop\n\n",
        b"event: message_stop\ndata: {\n\n",
        event("ping", named="message_stop"),
        event("message_stop", content_block=call("run")),
        event("message_stop", content=[call("run")]),
        event("message_stop", named="ping"),
    ],
)
def test_a_terminal_event_that_says_more_never_goes_on(last: bytes) -> None:
    judge = stream()
    judge.feed(BEGIN)
    with raises_code("upstream.answer"):
        judge.end(last)


def test_a_relay_adds_up_what_the_first_and_the_last_event_state() -> None:
    relay = Relay(Messages(), allowed)
    step = relay.feed(BEGIN + start(TEXT) + words("hi") + stop() + DELTA + END + b"data: [DONE]\n\n")
    assert (step.ended, step.terminal) == (True, END)
    assert relay.usage == Usage(3, 9)


@pytest.mark.parametrize("judge", [allowed, None], ids=["judged", "not judged"])
def test_a_stream_without_its_terminal_event_is_cut(judge) -> None:
    relay = Relay(Messages(), judge)
    relay.feed(BEGIN + start(call("run")) + DELTA)
    with pytest.raises(UpstreamCut):
        relay.finish()


def test_an_error_in_a_stream_is_passed_on_and_no_end() -> None:
    relay = Relay(Messages(), allowed)
    error = event("error", error={"type": "overloaded_error", "message": "x"})
    assert relay.feed(BEGIN + error).events == (BEGIN, error)
    with pytest.raises(UpstreamCut):
        relay.finish()


KINDS = "message_start content_block_start content_block_delta content_block_stop message_delta ping error".split()
BLOCKS = st.sampled_from(
    [TEXT, call("run"), call("rm"), call("rm", input={"a": 1}), *ITEMS.values(), PROVIDED["a search"][0]]
)
DELTAS = st.sampled_from(
    [
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": "1}"},
        {"type": "text_delta", "text": "x"},
        {"stop_reason": "tool_use"},
    ]
)
EVENTS = (
    st.builds(
        lambda kind, named, members: event(kind, named=named, **members),
        st.sampled_from(KINDS),
        st.none() | st.sampled_from(KINDS),
        st.fixed_dictionaries(
            {},
            optional={
                "index": st.integers(0, 2),
                "content_block": BLOCKS,
                "delta": DELTAS,
                "message": st.just({"content": [], "role": "assistant"}),
            },
        ),
    )
    | st.builds(start, BLOCKS, st.integers(0, 2))
    | st.sampled_from([stop(), stop(1)])
)


@thorough(400)
@given(st.lists(EVENTS, max_size=8))
def test_the_packages_own_reader_finds_no_call_that_was_not_judged(events: list[bytes]) -> None:
    judge, passed, calls = stream(), [], []
    try:
        for one in (*events, END):
            step = judge.end(one) if one == END else judge.feed(one)
            passed += step.events
            calls += [each.name for each in step.calls]
    except AffiantError:
        pass
    snapshot = None
    for one in (BEGIN, *passed):
        value = json.loads(one.split(b"data: ", 1)[1])
        if value["type"] in {"ping", "error"}:
            continue
        try:
            snapshot = accumulate_event(event=value, current_snapshot=snapshot, json_bufs={})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            break  # the reader gives up: it acts on nothing
    found = [block.name for block in getattr(snapshot, "content", ()) if block.type == "tool_use"]
    assert [name for name in found if name == "rm"] == []
    assert found == calls[: len(found)]
