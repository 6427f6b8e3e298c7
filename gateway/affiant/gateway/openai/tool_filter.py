"""Tool calls in answers: none reaches the agent before it was judged and recorded.

A whole answer is judged before a byte of it leaves. In a stream every event is read; the first that speaks of a
tool call is held, and everything after it, until the calls are complete; then all are judged together. Reading is
a second pair of eyes only: what goes on are the exact events that came. What another reader could read otherwise
is refused (``strict_json``, ``require_fields``), so that no reader finds a call that was not judged.

Sans I/O: :class:`StreamFilter` takes events and says which may go on, and what to record before they do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.errors import MalformedError
from affiant.gateway.openai.chat_members import DOCUMENTED, ChatMembers
from affiant.gateway.openai.sse import event_data, require_fields
from affiant.gateway.openai.strict_json import require_calls_in_place, require_no_calls
from affiant.gateway.openai.unlisted import require_listed_response
from affiant.gateway.wire.errors import RequestMalformed, ToolNotAllowedError
from affiant.policy.canonical.tool_messages import parse_json
from affiant.policy.decision.decide import Decision, Effect

__all__ = [
    "CallText",
    "Judge",
    "Passed",
    "StreamFilter",
    "ToolCall",
    "judge_answer",
    "judge_error",
    "read_answer",
]

MAX_HELD: Final = 4 << 20
"""Bytes of events held while a call is incomplete."""
_MAX_CALLS: Final = 128
_MAX_CHOICES: Final = 128
_MAX_INDEX: Final = 1 << 31
_TEXT: Final = {"function": "arguments", "custom": "input"}
"""Form of a call -> the member that holds what it is called with."""

Judge = Callable[[str, str | None], Decision]
"""Whether a tool of a name may be called with a text of arguments; the arguments are None where they are text of a form
of their own."""


@dataclass(frozen=True, slots=True)
class CallText:
    """What a call is made with, exactly; ``is_json``: text of one JSON object, not of a form of its own."""

    text: str = field(repr=False)
    is_json: bool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that is let through: its name, ``sha256:`` of its arguments' text, and the rules that allow it."""

    name: str
    arguments_digest: str
    rules: tuple[str, ...]
    waiting: CallText | None = None
    """What approvers must be shown before it is made; None: no approval is needed."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Events that may go on once ``calls`` are recorded."""

    events: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()


def judge_answer(
    answer: object, allowed: Judge | None, members: ChatMembers = DOCUMENTED
) -> tuple[ToolCall, ...]:
    """The calls in a whole answer, as it was read, all of them allowed; without a judge, only that it is an object.

    Raises:
        ToolNotAllowedError: one is not, or something in it is not in the lists (``upstream.unlisted``).
        ``upstream.answer``: the answer cannot be read.
    """
    calls: dict[tuple[int, int], _Call] = {}
    if not isinstance(answer, dict):
        raise MalformedError("the upstream's answer is no object", code="upstream.answer")
    if allowed is None:
        return ()
    require_listed_response(answer, members)
    require_calls_in_place(answer)
    for place, choice in enumerate(_choices(answer)):
        for part in _parts(choice):
            _collect(part, place, calls, streamed=False)
    return _judged(calls, allowed)


def judge_error(answer: object) -> None:
    """Return if ``answer``, which reports an error, holds no call that some reader could find.

    Raises:
        ``upstream.answer``: it does.
    """
    require_no_calls(answer)  # an object, or an array of them


@dataclass(slots=True)
class _Call:
    names: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """Names where a call has none; a reader who looks there must find the same."""
    forms: set[str] = field(default_factory=set)
    arguments: list[str] = field(default_factory=list)
    nameless: bool = False


class StreamFilter:
    """Judges the events of one stream.

    Args:
        seen: called with the value of each event before anything else in it is judged; may raise.
        members: what an event may hold.
    """

    __slots__ = ("_allowed", "_calls", "_finished", "_held", "_held_size", "_members", "_seen", "read")

    def __init__(
        self,
        allowed: Judge,
        seen: Callable[[object], None] = lambda _: None,
        members: ChatMembers = DOCUMENTED,
    ) -> None:
        self._members = members
        self._allowed = allowed
        self._seen = seen
        self._calls: dict[tuple[int, int], _Call] = {}
        self._finished: set[int] = set()
        self._held: list[bytes] = []
        self._held_size = 0
        self.read: tuple[bytes, Mapping[str, object]] | None = None
        """The last event that says something, and its value."""

    def feed(self, event: bytes) -> Passed:
        """What may go on now that ``event`` has come; the terminal event is the caller's.

        Raises:
            ToolNotAllowedError: a call is not allowed, or something is not listed: none of what is held goes on.
            ``upstream.answer``: an event cannot be read, a call never ends, or there are too many choices.
        """
        self._read(event)
        if not self._calls:
            return Passed((event,))
        self._held.append(event)
        self._held_size += len(event)
        if self._held_size > MAX_HELD:
            raise MalformedError(
                "a tool call is too large", expected=f"at most {MAX_HELD} bytes", code="upstream.answer"
            )
        complete = {choice for choice, _ in self._calls} <= self._finished
        return self.release() if complete else Passed()

    def release(self) -> Passed:
        """Judge what is held: the calls are complete, or the stream has ended."""
        calls = _judged(self._calls, self._allowed)
        events = tuple(self._held)
        self._calls, self._held, self._held_size = {}, [], 0
        return Passed(events, calls)

    def end(self, event: bytes) -> Passed:
        """As :meth:`release`, if ``event``, the terminal one, says nothing else.

        Raises:
            ``upstream.answer``: it does.
        """
        require_fields(event)
        if (event_data(event) or b"").strip() != b"[DONE]":
            raise MalformedError("the terminal event says more", expected="[DONE]", code="upstream.answer")
        return self.release()

    def _read(self, event: bytes) -> None:
        """Take in what ``event`` says of tool calls, and which choices it finishes."""
        require_fields(event)
        data = event_data(event)
        if data is None or not data.strip():
            return
        value = read_answer(data)
        if not isinstance(value, dict):
            raise MalformedError("the upstream's answer is no object", code="upstream.answer")
        self.read = event, value
        self._seen(value)
        require_listed_response(value, self._members)
        require_calls_in_place(value)
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


def read_answer(data: bytes) -> object:
    """The value of a whole answer, or of one event's data.

    Raises:
        ``upstream.answer``: it is not strict JSON.
    """
    try:
        return parse_json(data)
    except RequestMalformed as error:
        raise MalformedError("the upstream's answer is not strict JSON", code="upstream.answer") from error


def _choices(value: Mapping[str, object]) -> list[dict[str, object]]:
    choices = value.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise MalformedError("choices are no array of objects", where="choices", code="upstream.answer")
    return choices


def _parts(choice: Mapping[str, object]) -> list[dict[str, object]]:
    """The message and the delta of a choice, those that are there."""
    return [part for name in ("delta", "message") if (part := _object(choice, name)) is not None]


def _object(value: Mapping[str, object], name: str) -> dict[str, object] | None:
    found = value.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise MalformedError("not an object", where=name, code="upstream.answer")


def _index(value: Mapping[str, object], place: int) -> int:
    """The index that ``value`` names, or its place if it names none."""
    found = value.get("index")
    if found is None:
        return place
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _MAX_INDEX:
        raise MalformedError("not an index", where="index", code="upstream.answer")
    return found


def _collect(
    part: Mapping[str, object], choice: int, calls: dict[tuple[int, int], _Call], *, streamed: bool
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
        _add(calls, (choice, -1), {"type": "function", "function": _object(part, "function_call")})
        found += 1
    if len(calls) > _MAX_CALLS:
        raise MalformedError("too many tool calls", expected=f"at most {_MAX_CALLS}", code="upstream.answer")
    return found


def _add(calls: dict[tuple[int, int], _Call], at: tuple[int, int], entry: Mapping[str, object]) -> None:
    call = calls.setdefault(at, _Call())
    kind = entry.get("type")
    if kind not in (None, "", "function", "custom"):
        call.nameless = True  # a call of the upstream's own tools: no name that a profile could list
    if kind in ("function", "custom"):
        call.forms.add(str(kind))
    if other := _text(entry, "name"):
        call.others.add(other)
    for form, member in _TEXT.items():
        body = _object(entry, form)
        if body is not None:
            call.forms.add(form)
            call.names.append(_text(body, "name"))
            call.arguments.append(_text(body, member))
    if len(call.forms) > 1:
        raise MalformedError(
            "a tool call in two forms", expected="function or custom", code="upstream.answer"
        )


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    if found is None or isinstance(found, str):
        return found or ""
    raise MalformedError("not a string", where=name, code="upstream.answer")


def _judged(calls: Mapping[tuple[int, int], _Call], allowed: Judge) -> tuple[ToolCall, ...]:
    passed = []
    for _, call in sorted(calls.items()):
        # clients join the pieces of a name or keep one of them: every reading must be allowed
        name, text = "".join(call.names), "".join(call.arguments)
        readings = dict.fromkeys((name, *(part for part in call.names if part), *sorted(call.others)))
        is_json = "custom" not in call.forms
        found = [allowed(reading, text if is_json else None) for reading in readings]
        digest = "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        denied = next((decision for decision in found if decision.effect is Effect.DENY), None)
        if call.nameless or denied is not None:
            raise ToolNotAllowedError(
                "the model called a tool, or with arguments, that the profile does not allow",
                reason="" if denied is None else denied.reason,
                rules=() if denied is None else denied.rules,
                tool=name,
                arguments=digest,
            )
        if call.others - {name}:
            raise MalformedError("a tool call with two names", where="name", code="upstream.answer")
        asks = any(decision.effect is Effect.ASK for decision in found)
        passed.append(ToolCall(name, digest, found[0].rules, CallText(text, is_json) if asks else None))
    return tuple(passed)
