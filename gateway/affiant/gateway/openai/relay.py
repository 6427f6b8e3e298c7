"""One streamed answer on its way through: split, judged, counted, and held before its end. Sans I/O.

The digest, the event count and the events root cover exactly what the owner says it sends (:meth:`Relay.count`).
The terminal event is never handed out with the rest: the owner records first, then sends it. An event of the
API's own error form ends a stream that cannot be completed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.merkle import Accumulator
from affiant.errors import AffiantError, MalformedError
from affiant.gateway.openai.chat_members import DOCUMENTED, ChatMembers
from affiant.gateway.openai.sse import EventSplitter, event_data, is_terminal, require_fields
from affiant.gateway.openai.strict_json import folded, inexact
from affiant.gateway.openai.tool_filter import Judge, StreamFilter, ToolCall, read_answer
from affiant.gateway.wire.errors import RequestMalformed, UpstreamCut
from affiant.gateway.wire.errors_http import error_body
from affiant.policy.canonical.tool_messages import parse_json

__all__ = ["AnsweredModels", "Relay", "Step", "Usage", "usage_in", "usage_of"]

_MODEL: Final = folded("model")
_LONGEST_NAME: Final = 256
"""Characters of a model's name that a record holds; no request names one as long."""
_UNREADABLE: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the upstream states them; None where it does not.

    ``beside_choices``: stated in an event of a stream that holds a choice, and so perhaps of that choice alone.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    beside_choices: bool = False

    def tokens(self, *, answers: int) -> int | None:
        """All of them: the sum, or the stated total where that is more; None where they are not stated.

        No request has a prompt of no tokens: servers that do not count say 0. Of several answers, what is stated
        beside one says nothing of the others (``continuous_usage_stats``, which an agent can ask for).

        Args:
            answers: how many the request asked for.
        """
        if not self.prompt or self.completion is None or (self.beside_choices and answers > 1):
            return None
        return max(self.prompt + self.completion, self.total or 0)


@dataclass(frozen=True, slots=True)
class Step:
    """What may be sent once ``calls`` are recorded; ``terminal`` only after the stream's own record."""

    events: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    terminal: bytes = b""

    @property
    def asks(self) -> bool:
        """Whether one of the calls needs approval."""
        return any(call.waiting is not None for call in self.calls)


class AnsweredModels:
    """Which models one answer says it is from, a whole one or a stream.

    Args:
        require: called with each name once, before anything that names it goes on; raises of one that may not answer.
        listed: whether the profile lists models. Every event is then read, strictly; else those up to the first name.
    """

    __slots__ = ("_listed", "_names", "_require")

    def __init__(self, require: Callable[[str], None], *, listed: bool) -> None:
        self._require = require
        self._listed = listed
        self._names: set[str] = set()

    def take(self, value: object) -> None:
        """Take in a whole answer, or an event's value.

        Raises:
            ``upstream.answer``: models are listed, and a member is almost named ``model``.
            AffiantError: as ``require``.
        """
        if not isinstance(value, dict):
            return
        if self._listed and inexact(value, _MODEL) is not None:
            raise MalformedError(
                "a member's name differs from a known one only in case or separators",
                expected="model",
                where="model",
                hint="Readers would differ",
                code="upstream.answer",
            )
        found = value.get("model")
        if found is None or found == "":
            return
        name = _as_recorded(found)
        if name not in self._names and (self._listed or not self._names):
            self._names.add(name)
            self._require(name)

    def take_event(self, event: bytes) -> None:
        """Take in an event of a stream that nothing else reads.

        Raises:
            As :meth:`take`. ``upstream.answer``: models are listed, and readers could read the event differently.
        """
        if not self._listed and self._names:
            return
        if self._listed:
            require_fields(event)
        data = event_data(event)
        if data is None or not data.strip():
            return
        try:
            self.take(read_answer(data))
        except MalformedError:
            if self._listed:
                raise


def _as_recorded(name: object) -> str:
    """A model's name of an answer as text that a record can hold; what was changed in it is like no name asked for."""
    if not isinstance(name, str):
        return _UNREADABLE
    if len(name) <= _LONGEST_NAME and name.isprintable():
        return name
    return "".join(char if char.isprintable() else _UNREADABLE for char in name[:_LONGEST_NAME])


class Relay:
    """The state of one stream.

    Args:
        judge: decides about tools; None: the profile restricts none.
        models: takes in which models its events name; None: their names are not judged, and not recorded.
        members: what events may hold where there is a judge.
    """

    def __init__(
        self, judge: Judge | None, models: AnsweredModels | None = None, members: ChatMembers = DOCUMENTED
    ) -> None:
        self._models = models or AnsweredModels(lambda _: None, listed=False)
        self._splitter = EventSplitter()
        self._filter = None if judge is None else StreamFilter(judge, self._models.take, members)
        self._hash = hashlib.sha256()
        self._tree = Accumulator()
        self._usage_event = b""
        self.size = 0

    def feed(self, chunk: bytes) -> Step:
        """Take bytes as they come from the upstream.

        Raises:
            ToolNotAllowedError, ``upstream.answer``: nothing more of this stream goes on.
        """
        return self._take(self._splitter.feed(chunk))

    def finish(self) -> Step:
        """The upstream's body is complete.

        Raises:
            UpstreamCut: without the terminal event, or amid an event.
        """
        last = self._splitter.finish()
        step = self._take((last,) if last else ())
        if not step.terminal:
            raise UpstreamCut("the upstream's stream ended without its terminal event")
        return step

    @staticmethod
    def error_event(error: AffiantError) -> bytes:
        """The event that ends the stream instead."""
        return b"data: " + error_body(error) + b"\n\n"

    def count(self, *events: bytes) -> None:
        """Count events as sent."""
        for event in events:
            self._hash.update(event)
            self._tree.add(event)
            self.size += len(event)

    @property
    def hidden(self) -> dict[str, object]:
        """The hidden members of ``res`` for all that was counted."""
        return {
            "dig": f"sha256:{self._hash.hexdigest()}",
            "len": self.size,
            "evs": self._tree.size,
            "evr": b64u(self._tree.root()),
        }

    def forget(self) -> None:
        """Drop what was parsed: nothing more comes, and what is held may be held for long."""
        if self._filter is not None:
            self._filter.read = None

    @property
    def usage(self) -> Usage:
        """What the upstream said of tokens in the stream."""
        if self._filter is not None and self._filter.read is not None:
            event, value = self._filter.read
            if event is self._usage_event:
                return usage_in(value, streamed=True)
        data = event_data(self._usage_event) if self._usage_event else None
        return Usage() if data is None else usage_of(data, streamed=True)

    def _take(self, events: tuple[bytes, ...]) -> Step:
        passed: list[bytes] = []
        calls: list[ToolCall] = []
        terminal = b""
        for event in events:
            data = event_data(event) if b"[DONE]" in event else None
            if data is not None and is_terminal(data):
                terminal = event  # what an upstream sends beyond it belongs to no request
                break
            if b'"usage"' in event:
                self._usage_event = event
            if self._filter is None:
                self._models.take_event(event)
                passed.append(event)
            else:
                step = self._filter.feed(event)
                passed += step.events
                calls += step.calls
        if terminal and self._filter is not None:
            step = self._filter.end(terminal)
            passed += step.events
            calls += step.calls
        return Step(tuple(passed), tuple(calls), terminal)


def usage_of(data: bytes, *, streamed: bool = False) -> Usage:
    """``usage`` of an answer that was not read yet, or of an event; unstated where it cannot be read."""
    try:
        return usage_in(parse_json(data), streamed=streamed)
    except RequestMalformed:  # counts are a courtesy of the upstream: unreadable ones are left out
        return Usage()


def usage_in(value: object, *, streamed: bool = False) -> Usage:
    """``usage`` of an answer as it was read, or of an event of a stream."""
    if not isinstance(value, dict) or not isinstance(usage := value.get("usage"), dict):
        return Usage()
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(usage.get("total_tokens")),
        beside_choices=streamed and bool(value.get("choices")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None
