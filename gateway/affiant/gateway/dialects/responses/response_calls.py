"""Calls in responses of the Responses API: none reaches the agent before it was judged and recorded.

A call is an item of ``response.output``. A stream announces it (``response.output_item.added``), gives what it is
called with in pieces and whole (``response.function_call_arguments.delta`` and ``.done``), repeats it
(``response.output_item.done``), and repeats it once more in the terminal event. Clients read any of these, so all of
them must say the same. From the first event that speaks of a call everything is held until the calls are complete; then
all are judged together.

Calls of tools that the provider runs by itself are over when the agent reads of them. They pass where the profile
allows that tool. Calls of tools that the provider defines and the agent runs (a shell, a patch, a computer) must be
allowed twice: as a tool of the provider's, and as a call of a tool of that name.

Sans I/O: :class:`ResponsesStream` takes events and says which may go on, and what to record before they do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

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
from affiant.gateway.dialects.responses.responses_members import AGENT_RUN, ENDING, PROVIDED, WITH_RESPONSE
from affiant.gateway.dialects.sse import event_names
from affiant.gateway.dialects.strict_json import (
    GIVEN,
    USAGE,
    CallPlaces,
    folded,
    object_in,
    read_event,
    require_calls_in_place,
    require_no_calls,
    text_in,
)
from affiant.gateway.dialects.unlisted import require_listed_response
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.policy.decision.decide import Effect

__all__ = ["RESPONSES_CALLS", "ResponsesStream", "judge_whole"]

_MAX_INDEX: Final = 1 << 31
_NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "function_call": ("arguments", "function"),
    "custom_tool_call": ("input", "custom"),
}
"""Type of a call of a tool of the agent's -> the member that holds what it is called with, and its form."""
_PIECES: Final[Mapping[str, str]] = {
    "response.function_call_arguments.": "function_call",
    "response.custom_tool_call_input.": "custom_tool_call",
}
"""Beginning of the types of events that hold what a call is made with -> the type of the call."""
_ACTS: Final = ("action", "actions", "arguments", "operation")
_NAMESPACE: Final = ("namespace",)
_ITEM_EVENTS: Final = ("response.output_item.added", "response.output_item.done")
_EXPECTED: Final = "calls in output[] or item only"
_HOLDING: Final = {"output": "item", "text": GIVEN, "tools": GIVEN, "usage": USAGE}
RESPONSES_CALLS: Final = CallPlaces(
    root="answer",
    names=folded(
        *(
            "action",
            "actions",
            "arguments",
            "call_id",
            "data",
            "delta",
            "id",
            "input",
            "item",
            "item_id",
            "name",
        ),
        *("namespace", "operation", "output", "output_index", "response", "type"),
    ),
    following={
        ("answer", "response"): "response",
        ("answer", "item"): "item",
        ("answer", "data"): "item",
        **{(place, name): held for place in ("answer", "response") for name, held in _HOLDING.items()},
        **{("item", name): GIVEN for name in ("tools",)},
    },
    calls=frozenset({"item"}),
    expected=_EXPECTED,
)


@dataclass(slots=True)
class _Call:
    """What was read of one call so far.

    Args:
        begun: what it is called with as its announcement says. pieces: as the pieces say. whole: as a whole; None:
            no event said so. digest: ``sha256:`` of that, once it was judged.
    """

    kind: str
    name: str = ""
    item_id: str = ""
    call_id: str = ""
    begun: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: str | None = None
    complete: bool = False
    digest: str = ""

    @property
    def text(self) -> str:
        return self.whole if self.whole is not None else "".join(self.pieces) or self.begun

    def is_like(self, other: _Call) -> bool:
        """Whether both are the same call, made with the same."""
        return (self.kind, self.name) == (other.kind, other.name) and self.shown == other.shown

    @property
    def shown(self) -> str:
        return (
            self.digest or "sha256:" + hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        )

    def passed_on(self, digest: str) -> None:
        """It was judged: what it is called with is not kept."""
        self.digest, self.begun, self.pieces, self.whole = digest, "", [], None

    def named(self, item: Mapping[str, object], *, identity: str = "id") -> None:
        """Take in its names as an item, or an event about it, says them."""
        for member, own in (("name", "name"), (identity, "item_id"), ("call_id", "call_id")):
            said = text_in(item, member)
            if said and getattr(self, own) not in ("", said):
                _differ(member)
            setattr(self, own, said or getattr(self, own))

    def settle(self, text: str) -> None:
        """Take in what it is called with, as a whole."""
        if self.kind in _NAMED:
            said = (self.whole, "".join(self.pieces) or None, self.begun or None)
            if any(each not in (None, text) for each in said):
                _differ(_NAMED[self.kind][0])
        elif self.whole not in (None, text):
            _differ("action")
        self.whole = text

    def read(self) -> ReadCall:
        form = _NAMED[self.kind][1] if self.kind in _NAMED else "function"
        return ReadCall(names=[self.name], forms={form}, arguments=[self.text])


def judge_whole(value: object, judge: Judge | None, table: Table) -> tuple[ToolCall, ...]:
    """The calls in a whole response, or in a list of items, all of them allowed; without a judge: it is an object.

    Raises:
        ToolNotAllowedError: one is not, or something in it is not in the lists (``upstream.unlisted``).
        ``upstream.answer``: the response cannot be read.
    """
    if not isinstance(value, dict):
        raise MalformedError("the upstream's answer is no object", code="upstream.answer")
    if judge is None:
        return ()
    if value.get("type") is not None:
        raise MalformedError("a response has a type", where="type", code="upstream.answer")
    require_listed_response(value, table)
    require_calls_in_place(value, RESPONSES_CALLS)
    provided = _ProviderTools(judge)
    found = [call for name in ("output", "data") for _, call in _calls_in(value, name, provided)]
    return _judged(dict(enumerate(found)), judge)


class ResponsesStream:
    """Judges the events of one stream.

    Args:
        seen: called with the value of each event before anything else in it is judged; may raise.
        table: what an event may hold.
    """

    __slots__ = ("_calls", "_held", "_judge", "_judged", "_provided", "_seen", "_table", "read")

    def __init__(self, judge: Judge, seen: Callable[[object], None], table: Table) -> None:
        self._judge = judge
        self._provided = _ProviderTools(judge)
        self._seen = seen
        self._table = table
        self._calls: dict[int, _Call] = {}
        """By their place: those that are held."""
        self._judged: dict[int, _Call] = {}
        """Those that went on."""
        self._held = HeldEvents()
        self.read: tuple[bytes, Mapping[str, object]] | None = None
        """The last event that says something, and its value."""

    def feed(self, event: bytes) -> Passed:
        """As :meth:`~..dialect.StreamFilter.feed`."""
        value = self._value(event)
        if value is not None:
            kind = text_in(value, "type")
            if kind in ENDING:
                raise MalformedError(
                    "a terminal event is not written as one", where="type", code="upstream.answer"
                )
            self._take(value, kind)
        if not self._calls:
            return Passed((event,))
        self._held.add(event)
        return self.release() if all(call.complete for call in self._calls.values()) else Passed()

    def end(self, event: bytes) -> Passed:
        """As :meth:`~..dialect.StreamFilter.end`."""
        value = self._value(event)
        assert value is not None
        self._take(value, text_in(value, "type"))
        return self.release()

    def release(self) -> Passed:
        """As :meth:`~..dialect.StreamFilter.release`."""
        calls = _judged(self._calls, self._judge)
        for (_, call), judged in zip(sorted(self._calls.items()), calls, strict=True):
            call.passed_on(judged.arguments_digest)
        events = self._held.take()
        self._judged |= self._calls
        self._calls = {}
        return Passed(events, calls)

    def _value(self, event: bytes) -> Mapping[str, object] | None:
        """What ``event`` says, listed and with its calls in their places; None: nothing."""
        value = read_event(event)
        if value is None:
            return None
        if event_names(event) - {(text_in(value, "type") or "error").encode("utf-8", "surrogatepass")}:
            raise MalformedError(
                "an event has two types", where="type", hint="Readers would differ", code="upstream.answer"
            )
        self.read = event, value
        self._seen(value)
        require_listed_response(value, self._table)
        require_calls_in_place(value, RESPONSES_CALLS)
        return value

    def _take(self, value: Mapping[str, object], kind: str) -> None:
        pieces = next((name for start, name in _PIECES.items() if kind.startswith(start)), None)
        if pieces is not None:
            self._take_piece(value, pieces, whole=kind.endswith(".done"))
        elif kind in _ITEM_EVENTS:
            self._take_item(value, complete=kind.endswith(".done"))
        elif kind in WITH_RESPONSE:
            response = object_in(value, "response")
            if response is None:
                raise MalformedError("not an object", where="response", code="upstream.answer")
            self._take_repeated(response)
        elif kind in ("", "response"):
            require_no_calls(value)
            if value.get("error") is None:
                raise MalformedError("an event has no type", where="type", code="upstream.answer")
        else:
            self._provided.require_event(kind)
        if len(self._calls) + len(self._judged) > MAX_CALLS:
            raise MalformedError(
                "too many tool calls", expected=f"at most {MAX_CALLS}", code="upstream.answer"
            )

    def _take_piece(self, event: Mapping[str, object], kind: str, *, whole: bool) -> None:
        call = self._call_at(event, kind)
        call.named(event, identity="item_id")
        if whole:
            call.settle(text_in(event, _NAMED[kind][0]))
        elif piece := text_in(event, "delta"):
            if call.begun or call.whole is not None:
                _differ("delta")
            call.pieces.append(piece)

    def _take_item(self, event: Mapping[str, object], *, complete: bool) -> None:
        item = object_in(event, "item")
        if item is None:
            raise MalformedError("not an object", where="item", code="upstream.answer")
        kind = _call_kind(item, self._provided)
        at = _index(event)
        if kind is None:
            if at in self._calls or at in self._judged:
                _differ("type")
            return
        known = at in self._calls
        call = self._call_at(event, kind)
        if known and not complete:
            _differ("output_index")
        call.named(_with_name(item, kind))
        text = _text_of(item, kind)
        if complete:
            if call.name and not text_in(_with_name(item, kind), "name"):
                _differ("name")
            call.settle(text)
            call.complete = True
        else:
            call.begun = text

    def _take_repeated(self, response: Mapping[str, object]) -> None:
        """Compare the calls of a whole response with those that events spoke of; another one is taken in."""
        left = {**self._judged, **self._calls}
        for place, found in _calls_in(response, "output", self._provided):
            earlier = _taken_from(left, found, place)
            if earlier is None:
                free = max((*self._calls, *self._judged, -1)) + 1
                found.complete = True
                self._calls[place if place not in self._calls and place not in self._judged else free] = found
            elif earlier.complete:
                if not earlier.is_like(found):
                    _differ("output")
            else:
                if earlier.kind != found.kind or (earlier.name and not found.name):
                    _differ("type")
                earlier.named({"name": found.name, "id": found.item_id, "call_id": found.call_id})
                earlier.settle(found.text)
                earlier.complete = True

    def _call_at(self, event: Mapping[str, object], kind: str) -> _Call:
        """The call that an event speaks of."""
        at = _index(event)
        if at in self._judged or (at in self._calls and self._calls[at].complete):
            raise ToolNotAllowedError("an event speaks of a tool call that was complete")
        call = self._calls.setdefault(at, _Call(kind))
        if call.kind != kind:
            _differ("type")
        return call


def _judged(calls: Mapping[int, _Call], judge: Judge) -> tuple[ToolCall, ...]:
    """All of ``calls``, allowed in each of their readings."""
    others = (
        call for call in calls.values() if call.kind not in _NAMED and call.begun not in ("", call.text)
    )
    judge_calls(
        {
            (0, at): ReadCall(names=[call.name], forms={"function"}, arguments=[call.begun])
            for at, call in enumerate(others)
        },
        judge,
    )
    return judge_calls({(0, at): call.read() for at, call in calls.items()}, judge)


def _calls_in(
    holder: Mapping[str, object], name: str, provided: _ProviderTools
) -> Iterable[tuple[int, _Call]]:
    """The calls in a list of items, each with its place there."""
    items = holder.get(name)
    if items is None:
        return
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise MalformedError("no array of objects", where=name, code="upstream.answer")
    count = 0
    for place, item in enumerate(items):
        kind = _call_kind(item, provided)
        if kind is None:
            continue
        count += 1
        if count > MAX_CALLS:
            raise MalformedError(
                "too many tool calls", expected=f"at most {MAX_CALLS}", code="upstream.answer"
            )
        call = _Call(kind, whole=_text_of(item, kind))
        call.named(_with_name(item, kind))
        yield place, call


def _call_kind(item: Mapping[str, object], provided: _ProviderTools) -> str | None:
    """The type of an item that is a call of a tool which the agent runs; None: it is none.

    Raises:
        ToolNotAllowedError: it is of a tool of the provider's that the profile does not allow.
    """
    kind = text_in(item, "type")
    if kind in PROVIDED:
        provided.require(PROVIDED[kind])
    if text_in(item, "namespace"):
        provided.require(_NAMESPACE)
    if kind in _NAMED:
        return kind
    if kind not in AGENT_RUN or (kind == "tool_search_call" and item.get("execution") in (None, "server")):
        return None
    environment = object_in(item, "environment")
    elsewhere = environment is not None and environment.get("type") == "container_reference"
    return None if elsewhere else kind


def _taken_from(left: dict[int, _Call], found: _Call, place: int) -> _Call | None:
    """What of ``left`` ``found`` repeats: the call of its id, else the one at its place. It is left no more."""
    at = next((at for at, call in left.items() if found.call_id and call.call_id == found.call_id), place)
    call = left.get(at)
    if call is None or ("" not in (call.call_id, found.call_id) and call.call_id != found.call_id):
        return None
    return left.pop(at)


def _with_name(item: Mapping[str, object], kind: str) -> Mapping[str, object]:
    return item if kind in _NAMED else {**item, "name": AGENT_RUN[kind][0]}


def _text_of(item: Mapping[str, object], kind: str) -> str:
    """What a call is made with: the text itself, or the JSON of what it is to do, sorted and without white space."""
    if kind in _NAMED:
        return text_in(item, _NAMED[kind][0])
    acts = {name: item[name] for name in _ACTS if item.get(name) is not None}
    if not acts:
        return ""
    only = next(iter(acts.values()))
    shown = only if len(acts) == 1 and isinstance(only, dict) else acts
    return json.dumps(shown, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class _ProviderTools:
    """Which tools of the provider's a response may be of; each is judged once."""

    __slots__ = ("_allowed", "_judge")

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._allowed: set[tuple[str, ...]] = set()

    def require(self, names: tuple[str, ...]) -> None:
        """Return if the profile allows a tool that requests call by one of these names."""
        if names in self._allowed:
            return
        found = []
        for name in names:
            found.append(self._judge(name, None, provider=True))
            if found[-1].effect is Effect.ALLOW:
                self._allowed.add(names)
                return
        raise ToolNotAllowedError(
            "the model's provider ran a tool that the profile does not allow",
            reason=found[0].reason,
            rules=found[0].rules,
            tool=names[0],
        )

    def require_event(self, kind: str) -> None:
        """The same for an event of this type."""
        subject = kind.removeprefix("response.")
        for item, names in PROVIDED.items():
            if subject.startswith(item):
                self.require(names)


def _index(event: Mapping[str, object]) -> int:
    found = event.get("output_index")
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _MAX_INDEX:
        raise MalformedError("not an index", where="output_index", code="upstream.answer")
    return found


def _differ(where: str) -> NoReturn:
    raise MalformedError(
        "a tool call is said in two ways", where=where, hint="Readers would differ", code="upstream.answer"
    )
