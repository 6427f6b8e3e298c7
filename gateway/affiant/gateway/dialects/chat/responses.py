"""Tool calls in chat completions: none reaches the agent before it was judged and recorded.

A whole answer is judged before a byte of it leaves. In a stream every event is read; the first that speaks of a
tool call is held, and everything after it, until the calls are complete; then all are judged together. Reading is
a second pair of eyes only: what goes on are the exact events that came. What another reader could read otherwise
is refused (``strict_json``, ``require_fields``), so that no reader finds a call that was not judged.

Sans I/O: :class:`ChatStream` takes events and says which may go on, and what to record before they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

from affiant.errors import MalformedError
from affiant.gateway.dialects.judged_calls import (
    MAX_CALLS,
    HeldEvents,
    Judge,
    Passed,
    ReadCall,
    ToolCall,
    judge_calls,
)
from affiant.gateway.dialects.member_lists import Table
from affiant.gateway.dialects.sse import (
    EventShapes,
    require_done,
    varying_texts,
)
from affiant.gateway.dialects.strict_json import (
    USAGE,
    CallPlaces,
    folded,
    object_in,
    read_event,
    require_calls_in_place,
    text_in,
)
from affiant.gateway.dialects.unlisted import require_listed_response
from affiant.gateway.wire.errors import ToolNotAllowedError

__all__ = ["CHAT_CALLS", "ChatStream", "judge_chat_response"]

_MAX_CHOICES: Final = 128
_MAX_INDEX: Final = 1 << 31
_TEXT: Final = {"function": "arguments", "custom": "input"}
"""Form of a call -> the member that holds what it is called with."""
_TEXTS: Final = varying_texts("content", "obfuscation", "reasoning", "reasoning_content", "refusal")
"""Members of whose text nothing here depends: it is neither called nor named like a call."""
CHAT_CALLS: Final = CallPlaces(
    root="answer",
    names=folded(
        *(
            "arguments",
            "choices",
            "custom",
            "delta",
            "finish_reason",
            "function",
            "function_call",
            "id",
            "index",
        ),
        *("input", "message", "name", "tool_calls", "type"),
    ),
    following={
        ("answer", "choices"): "choice",
        ("answer", "usage"): USAGE,
        ("choice", "message"): "message",
        ("choice", "delta"): "message",
        ("message", "tool_calls"): "call",
        ("message", "function_call"): "called",
        ("call", "function"): "called",
        ("call", "custom"): "called",
    },
    calls=frozenset({"call"}),
    expected="calls in choices[].message or .delta only",
)


def judge_chat_response(answer: object, allowed: Judge | None, table: Table) -> tuple[ToolCall, ...]:
    """The calls in a whole answer, as it was read, all of them allowed; without a judge, only that it is an object.

    Raises:
        ToolNotAllowedError: one is not, or something in it is not in the lists (``upstream.unlisted``).
        ``upstream.answer``: the answer cannot be read.
    """
    calls: dict[tuple[int, int], ReadCall] = {}
    if not isinstance(answer, dict):
        raise MalformedError("the upstream's answer is no object", code="upstream.answer")
    if allowed is None:
        return ()
    require_listed_response(answer, table)
    require_calls_in_place(answer, CHAT_CALLS)
    for place, choice in enumerate(_choices(answer)):
        for part in _parts(choice):
            _collect(part, place, calls, streamed=False)
    return judge_calls(calls, allowed)


class ChatStream:
    """Judges the events of one stream.

    Args:
        seen: called with the value of each event before anything else in it is judged; may raise.
        table: what an event may hold.
    """

    __slots__ = (
        "_allowed",
        "_calls",
        "_finished",
        "_held",
        "_seen",
        "_shapes",
        "_table",
        "read",
    )

    def __init__(self, allowed: Judge, seen: Callable[[object], None], table: Table) -> None:
        self._table = table
        self._allowed = allowed
        self._seen = seen
        self._shapes = EventShapes(_TEXTS)
        self._calls: dict[tuple[int, int], ReadCall] = {}
        self._finished: set[int] = set()
        self._held = HeldEvents()
        self.read: tuple[bytes, Mapping[str, object]] | None = None
        """The last event that says something, and its value."""

    def feed(self, event: bytes) -> Passed:
        """What may go on now that ``event`` has come; the terminal event is the caller's.

        Raises:
            ToolNotAllowedError: a call is not allowed, or something is not listed: none of what is held goes on.
            ``upstream.answer``: an event cannot be read, a call never ends, or there are too many choices.
        """
        if not self._calls and event in self._shapes:
            return Passed((event,))
        self._read(event)
        if not self._calls:
            self._shapes.add(event)
            return Passed((event,))
        self._held.add(event)
        complete = {choice for choice, _ in self._calls} <= self._finished
        return self.release() if complete else Passed()

    def release(self) -> Passed:
        """Judge what is held: the calls are complete, or the stream has ended."""
        calls = judge_calls(self._calls, self._allowed)
        events = self._held.take()
        self._calls = {}
        return Passed(events, calls)

    def end(self, event: bytes) -> Passed:
        """As :meth:`release`, if ``event``, the terminal one, says nothing else.

        Raises:
            ``upstream.answer``: it does.
        """
        require_done(event)
        return self.release()

    def _read(self, event: bytes) -> None:
        """Take in what ``event`` says of tool calls, and which choices it finishes."""
        value = read_event(event)
        if value is None:
            return
        self.read = event, value
        self._seen(value)
        require_listed_response(value, self._table)
        require_calls_in_place(value, CHAT_CALLS)
        for place, choice in enumerate(_choices(value)):
            where = _index(choice, place)
            calls = sum([_collect(part, where, self._calls, streamed=True) for part in _parts(choice)])
            if calls and where in self._finished:
                raise ToolNotAllowedError("a tool call after its choice was finished")
            if choice.get("finish_reason") not in (None, ""):
                self._finished.add(where)
                if len(self._finished) > _MAX_CHOICES:
                    raise MalformedError(
                        "too many choices", expected=f"at most {_MAX_CHOICES}", code="upstream.answer"
                    )


def _choices(value: Mapping[str, object]) -> list[dict[str, object]]:
    choices = value.get("choices")
    if choices is None:
        return []
    for choice in choices if isinstance(choices, list) else (None,):
        if not isinstance(choice, dict):
            raise MalformedError("choices are no array of objects", where="choices", code="upstream.answer")
    return cast("list[dict[str, object]]", choices)


def _parts(choice: Mapping[str, object]) -> list[dict[str, object]]:
    """The message and the delta of a choice, those that are there and hold something."""
    return list(filter(None, (object_in(choice, "delta"), object_in(choice, "message"))))


def _index(value: Mapping[str, object], place: int) -> int:
    """The index that ``value`` names, or its place if it names none."""
    found = value.get("index")
    if found is None:
        return place
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _MAX_INDEX:
        raise MalformedError("not an index", where="index", code="upstream.answer")
    return found


def _collect(
    part: Mapping[str, object], choice: int, calls: dict[tuple[int, int], ReadCall], *, streamed: bool
) -> int:
    """Add what one message, or one delta of it, says of calls; returns how many entries spoke of one."""
    entries = part.get("tool_calls")
    if entries is not None and not isinstance(entries, list):
        raise MalformedError("tool_calls are no array", where="tool_calls", code="upstream.answer")
    found = len(entries or ())
    for place, entry in enumerate(entries or ()):
        if not isinstance(entry, dict):
            raise MalformedError("a tool call is no object", where="tool_calls", code="upstream.answer")
        index = _index(entry, place)
        _add(calls, (choice, index if streamed else place), entry)
    if part.get("function_call") is not None:  # the older form, one per message
        _add(calls, (choice, -1), {"type": "function", "function": object_in(part, "function_call")})
        found += 1
    if len(calls) > MAX_CALLS:
        raise MalformedError("too many tool calls", expected=f"at most {MAX_CALLS}", code="upstream.answer")
    return found


def _add(calls: dict[tuple[int, int], ReadCall], at: tuple[int, int], entry: Mapping[str, object]) -> None:
    call = calls.setdefault(at, ReadCall())
    kind = entry.get("type")
    if kind not in (None, "", "function", "custom"):
        call.nameless = True  # a call of the upstream's own tools: no name that a profile could list
    if kind in ("function", "custom"):
        call.forms.add(str(kind))
    if other := text_in(entry, "name"):
        call.others.add(other)
    for form, member in _TEXT.items():
        body = object_in(entry, form)
        if body is not None:
            call.forms.add(form)
            call.names.append(text_in(body, "name"))
            call.arguments.append(text_in(body, member))
    if len(call.forms) > 1:
        raise MalformedError(
            "a tool call in two forms", expected="function or custom", code="upstream.answer"
        )
