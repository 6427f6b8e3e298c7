"""Calls of tools in Anthropic's messages: none reaches the agent before it was judged and recorded.

A whole message is judged before a byte of it leaves. In a stream every event is read. A block that is a call is held
from its first event, and everything after it, until the call is complete; then it is judged. What goes on are the exact
events that came. What readers could read otherwise is rejected: an event whose name is not its data's ``type``, an
index that is not the next one, arguments in two places, a block where no event of that type has one. A call that the
provider made by itself, and what came of it, go on where the profile allows that tool.

A call's arguments are an object. What is judged, shown to approvers and digested is its JSON text, sorted, as at the
tool gate; so a whole response and a stream have the same digest. A text that is no object has itself.

Source: Anthropic's API reference, "Streaming messages". Sans I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from affiant.gateway.dialects.messages.messages_lists import PROVIDER_RESULTS, PROVIDER_TOOLS
from affiant.gateway.dialects.sse import event_data, event_names
from affiant.gateway.dialects.strict_json import (
    GIVEN,
    USAGE,
    CallPlaces,
    folded,
    object_in,
    parse_json,
    read_event,
    require_calls_in_place,
    text_in,
)
from affiant.gateway.dialects.unlisted import require_listed_response
from affiant.gateway.wire.errors import RequestMalformed, ToolNotAllowedError
from affiant.policy.canonical.tool_messages import arguments_text
from affiant.policy.decision.decide import Decision, Effect

__all__ = ["MessageStream", "is_message_stop", "judge_message"]

_STOP: Final = "message_stop"
_CALL: Final = "tool_use"
_PROVIDERS: Final = ("mcp_tool_use", "server_tool_use")
_INPUT: Final = "input_json_delta"
_HOLDS: Final[Mapping[str, str]] = {
    "content_block_delta": "delta",
    "content_block_start": "content_block",
    "message_delta": "delta",
    "message_start": "message",
}
"""``type`` of an event -> the one member that holds a message or a part of one; others have none."""
_HOLDING: Final = ("content", "content_block", "delta", "message")
_MAX_OPEN: Final = 128
"""Blocks that have begun and not ended; Anthropic's servers have one, llama.cpp's all of a message."""
_CALLS: Final = CallPlaces(
    root="answer",
    names=folded(
        *("content", "content_block", "delta", "id", "index", "input", "message", "name", "partial_json"),
        *("stop_reason", "toolset_name", "type"),
    ),
    following={
        **{("answer", name): name for name in ("delta", "message")},
        **{(place, "content"): "block" for place in ("answer", "message")},
        **{(place, "usage"): USAGE for place in ("answer", "message")},
        ("answer", "content_block"): "block",
        ("block", "input"): GIVEN,
    },
    calls=frozenset({"block"}),
    expected="calls as content blocks only",
)


def judge_message(answer: object, allowed: Judge | None, table: Table) -> tuple[ToolCall, ...]:
    """The calls in a whole message, as it was read, all of them allowed; without a judge, only that it is an object.

    Raises:
        ToolNotAllowedError: one is not, or something in it is not in the lists (``upstream.unlisted``).
        ``upstream.answer``: the message cannot be read, or readers could read it differently.
    """
    if not isinstance(answer, dict):
        raise MalformedError("the upstream's answer is no object", code="upstream.answer")
    if allowed is None:
        return ()
    _require_read_alike(answer, table, holding="content")
    blocks = answer.get("content")
    if blocks is not None and not isinstance(blocks, list):
        _reject("the content is no array", "content")
    calls: dict[tuple[int, int], ReadCall] = {}
    for at, block in enumerate(blocks or ()):
        if not isinstance(block, dict):
            _reject("a content block is no object", "content")
        if block.get("type") == _CALL:
            calls[0, at] = _Call(block).read()
        else:
            _require_provided(block, allowed)
    if len(calls) > MAX_CALLS:
        _too_many(MAX_CALLS)
    return judge_calls(calls, allowed)


def is_message_stop(event: bytes) -> bool:
    """Whether an event ends a stream for some client: by its name, or by its data's ``type``."""
    if b"message_stop" not in event:
        return False
    if b"message_stop" in event_names(event):
        return True
    try:
        value = parse_json(event_data(event) or b"")
    except RequestMalformed:
        return False
    return isinstance(value, dict) and value.get("type") == _STOP


class MessageStream:
    """As :class:`~..dialect.StreamFilter`.

    Args:
        seen: called with the value of each event before anything else in it is judged; may raise.
        table: what an event may hold.
    """

    __slots__ = (
        "_allowed",
        "_begun",
        "_calls",
        "_held",
        "_open",
        "_seen",
        "_table",
        "read",
    )

    def __init__(self, allowed: Judge, seen: Callable[[object], None], table: Table) -> None:
        self._allowed = allowed
        self._seen = seen
        self._table = table
        self._begun = 0
        """Blocks that have begun: the index of the next one."""
        self._open: dict[int, object] = {}
        """Blocks that have not ended: index -> type."""
        self._calls: dict[int, _Call] = {}
        self._held = HeldEvents()
        self.read: tuple[bytes, Mapping[str, object]] | None = None

    def feed(self, event: bytes) -> Passed:
        """As :meth:`~..dialect.StreamFilter.feed`."""
        if self._take(event) == _STOP:
            _reject("the terminal event under another encoding", "type")
        if not self._calls:
            return Passed((event,))
        self._held.add(event)
        return Passed() if self._calls.keys() & self._open.keys() else self.release()

    def release(self) -> Passed:
        """As :meth:`~..dialect.StreamFilter.release`: the calls are complete, or the stream has ended."""
        calls = judge_calls({(0, at): call.read() for at, call in self._calls.items()}, self._allowed)
        events = self._held.take()
        self._calls = {}
        return Passed(events, calls)

    def end(self, event: bytes) -> Passed:
        """As :meth:`~..dialect.StreamFilter.end`."""
        if self._take(event) != _STOP:
            _reject("the terminal event says something else", "type")
        return self.release()

    def _take(self, event: bytes) -> str | None:
        """Take in what ``event`` says; its ``type``, None where it says nothing."""
        value = read_event(event)
        if value is None:
            return None
        self.read = event, value
        self._seen(value)
        kind = text_in(value, "type")
        if event_names(event) - {kind.encode("utf-8", "replace")}:
            _reject("an event whose name is not its type", "type")
        _require_read_alike(value, self._table, holding=_HOLDS.get(kind))
        match kind:
            case "message_start":
                if (object_in(value, "message") or {}).get("content"):
                    _reject("a message that begins with content", "message")
            case "content_block_start":
                self._begin(value)
            case "content_block_delta":
                self._add(value)
            case "content_block_stop":
                self._open.pop(self._opened(value))
        return kind

    def _begin(self, value: Mapping[str, object]) -> None:
        if value.get("index") != self._begun or isinstance(value.get("index"), bool):
            _reject("a content block that is not the next one", "index")
        block = object_in(value, "content_block") or {}
        self._open[self._begun] = block.get("type")
        if block.get("type") == _CALL:
            self._calls[self._begun] = _Call(block)
        else:
            _require_provided(block, self._allowed)
        self._begun += 1
        if max(len(self._open), len(self._calls)) > _MAX_OPEN:
            _too_many(_MAX_OPEN)

    def _add(self, value: Mapping[str, object]) -> None:
        index, delta = self._opened(value), object_in(value, "delta") or {}
        kind, piece = self._open[index], text_in(delta, "partial_json")
        if (kind in (_CALL, *_PROVIDERS)) != (delta.get("type") == _INPUT):
            _reject("a part of another block's type", "delta")
        if kind == _CALL:
            self._calls[index].pieces.append(piece)

    def _opened(self, value: Mapping[str, object]) -> int:
        """The index that ``value`` names, of a block that has begun and not ended."""
        index = value.get("index")
        if not isinstance(index, int) or isinstance(index, bool) or index not in self._open:
            _reject("no content block that is open", "index")
        return index


@dataclass(frozen=True, slots=True)
class _Call:
    """A block that is a call, and the parts of its input that came after it."""

    block: Mapping[str, object]
    pieces: list[str] = field(default_factory=list)

    def read(self) -> ReadCall:
        """What every reader reads of it.

        Raises:
            ``upstream.answer``: its input is in two places, or no object.
        """
        begun, later = object_in(self.block, "input") or {}, "".join(self.pieces)
        if begun and later:
            _reject("a tool call with two inputs", "input")
        return ReadCall(
            names=[text_in(self.block, "name")],
            arguments=[_text_of(later) if later else _written(begun)],
            nameless=self.block.get("toolset_name") is not None,
        )


def _text_of(text: str) -> str:
    try:
        value = parse_json(text)
    except RequestMalformed:  # no profile allows arguments that are none
        return text
    return _written(value) if isinstance(value, dict) else text


def _written(arguments: Mapping[str, object]) -> str:
    try:
        return arguments_text(arguments)
    except (ValueError, RecursionError) as error:
        raise MalformedError(
            "a tool call's input is not JSON", where="input", code="upstream.answer"
        ) from error


def _require_read_alike(value: Mapping[str, object], table: Table, *, holding: str | None) -> None:
    """Return if ``value`` holds what is listed alone, in ``holding`` and nowhere else, under exact names."""
    require_listed_response(value, table)
    require_calls_in_place(value, _CALLS)
    for name in _HOLDING:
        if name != holding and value.get(name) is not None:
            _reject("a part of a message out of its place", name)


def _require_provided(block: Mapping[str, object], judge: Judge) -> None:
    """Return if ``block`` is of no tool of the provider's, or of one that the profile allows under some name.

    Raises:
        ToolNotAllowedError: the profile does not allow it.
    """
    kind = block.get("type")
    name = "mcp" if kind == "mcp_tool_use" else text_in(block, "name")
    names = PROVIDER_TOOLS.get(name, (name,)) if kind in _PROVIDERS else PROVIDER_RESULTS.get(str(kind), ())
    found: Decision | None = None
    for each in names:
        decision = judge(each, None, provider=True)
        if decision.effect is Effect.ALLOW:
            return
        found = found or decision
    if found is not None:
        raise ToolNotAllowedError(
            "the model's provider ran a tool that the profile does not allow",
            reason=found.reason,
            rules=found.rules,
            tool=names[0],
        )


def _too_many(most: int) -> NoReturn:
    raise MalformedError("too many content blocks", expected=f"at most {most}", code="upstream.answer")


def _reject(problem: str, where: str) -> NoReturn:
    raise MalformedError(problem, where=where, hint="Readers would differ", code="upstream.answer")
