"""A relayed stream is the upstream's bytes, hashed as sent, held before its end."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.merkle import root
from affiant.errors import MalformedError
from affiant.gateway.dialects import relay as relay_module
from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.relay import Relay, usage_of
from affiant.gateway.dialects.stream_end import NO_END
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.upstream.dev_echo import stream
from affiant.gateway.wire.errors import ToolNotAllowedError, UpstreamCut
from affiant.policy.decision.decide import Decision, denied


def deny(_name: str, _arguments: str | None) -> Decision:
    return denied("tool_not_listed")


REQUEST = {"model": "m", "messages": [{"role": "user", "content": "some words to echo, é"}]}
EVENTS = list(stream(REQUEST))


def run(relay: Relay, chunks: list[bytes]) -> tuple[bytes, bytes]:
    """Relay ``chunks`` to their end: what went on before the terminal event, and that."""
    sent, terminal = b"", b""
    for chunk in [*chunks, b""]:
        step = relay.feed(chunk) if chunk else relay.finish()
        relay.count(*step.events)
        sent += b"".join(step.events)
        if step.terminal:
            terminal = step.terminal
            relay.count(terminal)
            break
    return sent, terminal


@given(st.lists(st.integers(0, 5000), max_size=30), st.booleans())
@thorough(100)
def test_bytes_and_hashes_do_not_depend_on_the_chunking(cuts: list[int], judged: bool) -> None:
    data = b"".join(EVENTS)
    places = sorted({cut % len(data) for cut in cuts} | {0, len(data)})
    relay = Relay(Chat(), deny if judged else None)
    sent, terminal = run(relay, [data[a:b] for a, b in zip(places, places[1:], strict=False)])
    assert sent + terminal == data
    assert terminal == b"data: [DONE]\n\n"
    assert relay.hidden == {
        "dig": "sha256:" + hashlib.sha256(data).hexdigest(),
        "len": len(data),
        "evs": len(EVENTS),
        "evr": b64u(root(EVENTS)),
    }


def test_what_follows_the_terminal_event_is_nobodys() -> None:
    relay = Relay(Chat(), None)
    step = relay.feed(b"data: x\n\ndata: [DONE]\n\ndata: more\n\n")
    assert step.events == (b"data: x\n\n",) and step.terminal == b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "cut", [b"", b"data: x\n\n", b"data: x\n\ndata: [DONE]", b"data: x\n\ndata: [DONE]\n"]
)
def test_a_stream_without_its_terminal_event_is_cut(cut: bytes) -> None:
    relay = Relay(Chat(), None)
    if cut:
        relay.feed(cut)
    with pytest.raises(UpstreamCut):
        relay.finish()


FINISHED = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
SECOND = FINISHED.replace(b'"index":0', b'"index":1')
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
ENDS: dict[str, tuple[bytes, int]] = {
    "the only choice finished": (FINISHED, 1),
    "with usage after it": (FINISHED + USAGE, 1),
    "with a comment after it": (FINISHED + b": ping\n\n", 1),
    "with carriage returns": (FINISHED.replace(b"\n\n", b"\r\r"), 1),
    "without an index": (FINISHED.replace(b'"index":0,', b""), 1),
    "both choices finished": (FINISHED + SECOND, 2),
    "both in one event": (
        b'data: {"choices":[{"index":0,"finish_reason":"stop"},{"index":1,"finish_reason":"length"}]}\n\n',
        2,
    ),
}
NO_ENDS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 1),
    "no finish_reason": (
        b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n',
        1,
    ),
    "an empty finish_reason": (FINISHED.replace(b"stop", b""), 1),
    "a finish_reason that is no text": (FINISHED.replace(b'"stop"', b"true"), 1),
    "in a text": (b'data: {"choices":[{"delta":{"content":"\\"finish_reason\\": \\"stop\\""}}]}\n\n', 1),
    "of no choice": (b'data: {"finish_reason":"stop"}\n\n', 1),
    "in a comment": (b": " + FINISHED[6:], 1),
    "not as JSON": (b'data: {"choices":[{"index":0,"finish_reason":"stop"}]\n\n', 1),
    "one of two choices": (FINISHED, 2),
    "one of two choices, twice": (FINISHED + FINISHED, 2),
    "amid the next event": (FINISHED + b"data: {", 1),
    "amid its blank line": (FINISHED[:-1], 1),
    "an error after it": (FINISHED + b'data: {"error":{"message":"out of memory"}}\n\n', 1),
    "an error beside it": (FINISHED.replace(b'{"choices"', b'{"error":{},"choices"'), 1),
    "a strange index": (FINISHED.replace(b'"index":0', b'"index":-1'), 1),
}


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("name", ENDS)
def test_a_framed_body_ends_a_stream_whose_choices_are_finished(name: str, *, judged: bool) -> None:
    data, answers = ENDS[name]
    relay = Relay(Chat(), deny if judged else None, answers=answers)
    steps = [relay.feed(data), relay.finish()]
    assert b"".join(event for step in steps for event in step.events) == data
    assert [(step.ended, step.terminal) for step in steps] == [(False, b""), (True, b"")]


@pytest.mark.parametrize("name", NO_ENDS)
def test_an_unfinished_stream_is_cut_however_its_body_ends(name: str) -> None:
    data, answers = NO_ENDS[name]
    relay = Relay(Chat(), None, answers=answers)
    relay.feed(data)
    with pytest.raises(UpstreamCut):
        relay.finish()


def test_a_body_that_ends_does_not_let_a_held_call_slip_by() -> None:
    called = (
        b'data: {"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"name":"x"}}]}}]}\n\n'
    )
    relay = Relay(Chat(), deny)
    assert relay.feed(called + FINISHED).events == ()
    with pytest.raises(ToolNotAllowedError):
        relay.finish()


def test_a_dialect_may_end_with_its_terminal_event_alone() -> None:
    NO_END.take(FINISHED)
    assert not NO_END.reached


def test_the_terminal_event_may_end_with_carriage_returns() -> None:
    relay = Relay(Chat(), None)
    assert relay.feed(b"data: [DONE]\r\r").terminal == b""
    assert relay.finish().terminal == b"data: [DONE]\r\r"


def test_the_terminal_event_does_not_let_a_held_call_slip_by() -> None:
    relay = Relay(Chat(), deny)
    relay.feed(
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"x"}}]}}]}\n\n'
    )
    with pytest.raises(ToolNotAllowedError):
        relay.feed(b"data: [DONE]\n\n")


def test_counts_are_the_last_that_the_upstream_stated() -> None:
    relay = Relay(Chat(), None)
    request = {**REQUEST, "stream_options": {"include_usage": True}}
    run(relay, [b"".join(stream(request))])
    assert relay.usage.prompt and relay.usage.completion == 6


def test_a_judged_event_is_read_once_for_its_calls_and_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    judging = Relay(Chat(), deny)
    judging.feed(b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n')
    monkeypatch.setattr(relay_module, "parse_json", None)
    assert judging.usage == Usage(3, 2)


@pytest.mark.parametrize(("choices", "beside"), [("[]", False), ("null", False), ('[{"index":0}]', True)])
def test_counts_beside_a_choice_of_a_stream_are_told_apart(choices: str, beside: bool) -> None:
    usage = '{"prompt_tokens":3,"completion_tokens":2}'
    relay = Relay(Chat(), None)
    relay.feed(f'data: {{"choices":{choices},"usage":{usage}}}\n\n'.encode())
    assert relay.usage == Usage(3, 2, beside_choices=beside)
    assert usage_of(f'{{"choices":[{{}}],"usage":{usage}}}'.encode(), Chat()) == Usage(3, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        b"{}",
        b'{"usage":null}',
        b'{"usage":{"prompt_tokens":-1,"completion_tokens":true}}',
        b'{"usage":{"prompt_tokens":1e400}}',
        b'{"usage":{"prompt_tokens":9007199254740992,"completion_tokens":1.0}}',
    ],
)
def test_counts_that_make_no_sense_are_left_out(data: bytes) -> None:
    assert usage_of(data, Chat()) == Usage()


def test_an_error_event_is_the_apis_own() -> None:
    event = Chat().error_event(MalformedError("no", code="upstream.answer"))
    assert event.startswith(b'data: {"error": {"message":') and event.endswith(b"\n\n")
