"""Calls of tools in a model's response: what is known of each, and whether all of them may go on. Sans I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from affiant.errors import MalformedError
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.policy.decision.decide import Decision, Effect

__all__ = [
    "MAX_CALLS",
    "MAX_HELD",
    "CallText",
    "HeldEvents",
    "Judge",
    "Passed",
    "ReadCall",
    "ToolCall",
    "judge_calls",
]

MAX_HELD: Final = 4 << 20
"""Bytes of events held while a call is incomplete."""
MAX_CALLS: Final = 128
"""Of one response."""


class Judge(Protocol):
    """Whether a tool of a name may be called with a text of arguments."""

    def __call__(self, name: str, arguments: str | None, *, provider: bool = False) -> Decision:
        """The decision.

        Args:
            arguments: None where they are text of a form of their own.
            provider: the model's provider runs the tool by itself; ``name`` is the one that profiles list.
        """
        ...


class HeldEvents:
    """Events that wait until the calls that they speak of are complete."""

    __slots__ = ("_events", "_size")

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._size = 0

    def add(self, event: bytes) -> None:
        """Hold ``event``, too.

        Raises:
            ``upstream.answer``: all of them are over 4 MiB.
        """
        self._events.append(event)
        self._size += len(event)
        if self._size > MAX_HELD:
            raise MalformedError(
                "a tool call is too large", expected=f"at most {MAX_HELD} bytes", code="upstream.answer"
            )

    def take(self) -> tuple[bytes, ...]:
        """All of them; none is held any more."""
        events = tuple(self._events)
        self._events, self._size = [], 0
        return events


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


class Passed(NamedTuple):
    """Events that may go on once ``calls`` are recorded."""

    events: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()


@dataclass(slots=True)
class ReadCall:
    """What was read of one call so far.

    Args:
        names: the pieces of its name, in order.
        others: names where a call has none; a reader who looks there must find the same.
        forms: ``function``, ``custom``: a call has one.
        arguments: the pieces of what it is called with.
        nameless: it is of the upstream's own tools, without a name that a profile could list.
    """

    names: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)
    arguments: list[str] = field(default_factory=list)
    nameless: bool = False


def judge_calls(calls: Mapping[tuple[int, int], ReadCall], allowed: Judge) -> tuple[ToolCall, ...]:
    """All of ``calls`` as allowed, in the order of their places.

    Args:
        calls: by their place: of the answer that they are in, and in it.

    Raises:
        ToolNotAllowedError: one is not. ``upstream.answer``: one has two names.
    """
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
