"""Tool calls in answers: none reaches the agent before it was judged and recorded.

A whole answer is judged before a byte of it leaves. In a stream, the first event that speaks of a tool call is
held, and everything after it, until the calls are complete; then all are judged together. Reading is a second
pair of eyes only: what goes on are the exact events that came. An event is parsed if it could speak of a tool
call in any spelling, escapes included.

Sans I/O: :class:`StreamFilter` takes events and says which may go on, and what to record before they do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.gateway.chat import parse_json, tool_name
from affiant.gateway.errors import RequestMalformed, ToolNotAllowed, UpstreamAnswerRefused
from affiant.gateway.sse import event_data, is_terminal

__all__ = ["Passed", "StreamFilter", "ToolCall", "judge_answer"]

MAX_HELD: Final = 4 << 20
"""Bytes of events held while a call is incomplete."""
_MAX_CALLS: Final = 128
_MAX_CHOICES: Final = 128

Judge = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that is let through: its name and ``sha256:`` of its arguments' text."""

    name: str
    arguments_digest: str


@dataclass(frozen=True, slots=True)
class Passed:
    """Events that may go on once ``calls`` are recorded."""

    events: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()


def judge_answer(body: bytes, allowed: Judge | None) -> tuple[ToolCall, ...]:
    """The calls in a whole answer, all of them allowed; without a judge, only that it is JSON.

    Raises:
        ToolNotAllowed: one is not. UpstreamAnswerRefused: the answer cannot be read.
    """
    calls: dict[tuple[int, int], _Call] = {}
    answer = _parsed(body)
    if allowed is None:
        return ()
    for place, choice in enumerate(_choices(answer)):
        message = choice.get("message")
        if isinstance(message, dict):
            _collect(message, place, calls)
    return _judged(calls, allowed)


@dataclass(slots=True)
class _Call:
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    nameless: bool = False


class StreamFilter:
    """Judges the events of one stream."""

    __slots__ = ("_allowed", "_calls", "_finished", "_held", "_held_size")

    def __init__(self, allowed: Judge) -> None:
        self._allowed = allowed
        self._calls: dict[tuple[int, int], _Call] = {}
        self._finished: set[int] = set()
        self._held: list[bytes] = []
        self._held_size = 0

    def feed(self, event: bytes) -> Passed:
        """What may go on now that ``event`` has come; the terminal event is the caller's.

        Raises:
            ToolNotAllowed: a call is not allowed: none of what is held goes on.
            UpstreamAnswerRefused: an event cannot be read, a call never ends, or there are too many choices.
        """
        self._read(event)
        if not self._calls:
            return Passed((event,))
        self._held.append(event)
        self._held_size += len(event)
        if self._held_size > MAX_HELD:
            raise UpstreamAnswerRefused("a tool call is too large", expected=f"at most {MAX_HELD} bytes")
        complete = {choice for choice, _ in self._calls} <= self._finished
        return self.release() if complete else Passed()

    def release(self) -> Passed:
        """Judge what is held: the calls are complete, or the stream has ended."""
        calls = _judged(self._calls, self._allowed)
        events = tuple(self._held)
        self._calls, self._held, self._held_size = {}, [], 0
        return Passed(events, calls)

    def _read(self, event: bytes) -> None:
        """Take in what ``event`` says of tool calls, and which choices it finishes."""
        if not (self._calls or _may_call(event) or _may_finish(event)):
            return
        data = event_data(event)
        if data is None or is_terminal(data):
            return
        for place, choice in enumerate(_choices(_parsed(data))):
            index = choice.get("index")
            where = index if isinstance(index, int) else place
            found: dict[tuple[int, int], _Call] = {}
            for part in (choice.get("delta"), choice.get("message")):
                if isinstance(part, dict):
                    _collect(part, where, self._calls)
                    _collect(part, where, found)
            if found and where in self._finished:
                raise ToolNotAllowed("a tool call after its choice was finished")
            if choice.get("finish_reason") is not None:
                self._finished.add(where)
                if len(self._finished) > _MAX_CHOICES:
                    raise UpstreamAnswerRefused("too many choices", expected=f"at most {_MAX_CHOICES}")


def _may_call(event: bytes) -> bool:
    """Whether a JSON reader could find a tool call in ``event``; an escape could spell anything."""
    return b"tool_calls" in event or b"function_call" in event or b"\\u" in event


def _may_finish(event: bytes) -> bool:
    """Whether ``event`` may give a reason to finish; ``null``, in the two usual spellings, is none."""
    unfinished = event.count(b'"finish_reason":null') + event.count(b'"finish_reason": null')
    return event.count(b"finish_reason") != unfinished


def _parsed(data: bytes) -> Mapping[str, object]:
    try:
        value = parse_json(data)
    except RequestMalformed as error:
        raise UpstreamAnswerRefused("the upstream's answer is not strict JSON") from error
    if not isinstance(value, dict):
        raise UpstreamAnswerRefused("the upstream's answer is no object")
    return value


def _choices(value: Mapping[str, object]) -> list[dict[str, object]]:
    choices = value.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise UpstreamAnswerRefused("choices are no array of objects", where="choices")
    return choices


def _collect(part: Mapping[str, object], choice: int, calls: dict[tuple[int, int], _Call]) -> None:
    """Add what one message, or one delta of it, says of calls."""
    entries = part.get("tool_calls")
    if entries is not None and not isinstance(entries, list):
        raise UpstreamAnswerRefused("tool_calls are no array", where="tool_calls")
    for place, entry in enumerate(entries or ()):
        if not isinstance(entry, dict):
            raise UpstreamAnswerRefused("a tool call is no object", where="tool_calls")
        index = entry.get("index")
        _add(calls, (choice, index if isinstance(index, int) else place), entry)
    if part.get("function_call") is not None:  # the older form, one per message
        _add(calls, (choice, -1), {"type": "function", "function": part["function_call"]})
    if len(calls) > _MAX_CALLS:
        raise UpstreamAnswerRefused("too many tool calls", expected=f"at most {_MAX_CALLS}")


def _add(calls: dict[tuple[int, int], _Call], at: tuple[int, int], entry: Mapping[str, object]) -> None:
    call = calls.setdefault(at, _Call())
    kind = entry.get("type")
    if kind not in (None, "function", "custom"):
        call.nameless = True  # a call of the upstream's own tools: no name that a profile could list
    named = kind if kind in ("function", "custom") else ("custom" if "custom" in entry else "function")
    name = tool_name({"type": named, named: entry.get(named)})
    if name is not None:
        call.names.append(name)
    body = entry.get(named)
    if isinstance(body, dict):
        text = body.get("arguments", body.get("input"))
        if isinstance(text, str):
            call.arguments.append(text)


def _judged(calls: Mapping[tuple[int, int], _Call], allowed: Judge) -> tuple[ToolCall, ...]:
    passed = []
    for _, call in sorted(calls.items()):
        # clients join the pieces of a name or keep one of them: every reading must be allowed
        readings = {"".join(call.names), *(name for name in call.names if name)}
        refused = call.nameless or not all(map(allowed, readings))
        if refused:
            raise ToolNotAllowed("the model called a tool that the profile does not allow")
        digest = hashlib.sha256("".join(call.arguments).encode("utf-8", "surrogatepass")).hexdigest()
        passed.append(ToolCall("".join(call.names), f"sha256:{digest}"))
    return tuple(passed)
