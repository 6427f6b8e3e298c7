"""One streamed answer on its way through: split, judged, counted, and held before its end. Sans I/O.

The digest, the event count and the events root cover exactly what the owner says it sends (:meth:`Relay.count`).
The terminal event is never handed out with the rest: the owner records first, then sends it. An event of the
dialect's own error form ends a stream that cannot be completed.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.merkle import Accumulator
from affiant.attestation.statements.gateway_config import EVENT_MAX
from affiant.gateway.dialects.answered_models import AnsweredModels
from affiant.gateway.dialects.dialect import Dialect
from affiant.gateway.dialects.judged_calls import Judge, Passed, ToolCall
from affiant.gateway.dialects.sse import EventSplitter, event_data
from affiant.gateway.dialects.strict_json import parse_json
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.wire.errors import RequestMalformed, UpstreamCut

__all__ = ["Relay", "Step", "usage_of"]


class Step(NamedTuple):
    """What may be sent once ``calls`` are recorded; ``terminal`` only after the stream's own record.

    ``ended``: nothing follows. Then ``terminal`` is empty where the framed body alone ended the stream.
    """

    events: tuple[bytes, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    terminal: bytes = b""
    ended: bool = False

    @property
    def asks(self) -> bool:
        """Whether one of the calls needs approval."""
        return any(call.waiting is not None for call in self.calls)


class Relay:
    """The state of one stream.

    Args:
        judge: decides about tools; None: the profile restricts none.
        models: takes in which models its events name; None: their names are not judged, and not recorded.
        answers: how many the request asked for. event_max: bytes of one event.
    """

    def __init__(
        self,
        dialect: Dialect,
        judge: Judge | None,
        models: AnsweredModels | None = None,
        *,
        answers: int = 1,
        event_max: int = EVENT_MAX,
    ) -> None:
        self._end = dialect.stream_end(answers)
        self._dialect = dialect
        self._models = models or AnsweredModels(dialect, lambda _: None, listed=False)
        self._splitter = EventSplitter(event_max=event_max)
        self._filter = None if judge is None else dialect.stream_filter(judge, self._models.take)
        self._hash = hashlib.sha256()
        self._tree = Accumulator()
        self._usage_events = b"", b""
        """The first and the last event that may state usage."""
        self.size = 0

    def feed(self, chunk: bytes) -> Step:
        """Take bytes as they come from the upstream.

        Raises:
            ToolNotAllowedError, ``upstream.answer``, ``upstream.event_too_large``: nothing more of this stream goes on.
        """
        return self._take(self._splitter.feed(chunk))

    def finish(self) -> Step:
        """The upstream's framed body is complete.

        Raises:
            UpstreamCut: amid an event, or without the terminal event and before the dialect's end was reached.
        """
        last = self._splitter.finish()
        step = self._take((last,) if last else ())
        if step.ended:
            return step
        if self._splitter.pending or not self._end.reached:
            raise UpstreamCut("the upstream's stream ended without its terminal event")
        held = Passed() if self._filter is None else self._filter.release()
        return Step((*step.events, *held.events), (*step.calls, *held.calls), ended=True)

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
        first, last = self._usage_events
        if not self._dialect.usage_begins or first is last:
            return self._usage_of(last)
        return self._usage_of(first).followed_by(self._usage_of(last))

    def _usage_of(self, event: bytes) -> Usage:
        if self._filter is not None and self._filter.read is not None:
            read, value = self._filter.read
            if read is event:
                return self._dialect.usage_in(value, streamed=True)
        data = event_data(event) if event else None
        return Usage() if data is None else usage_of(data, self._dialect, streamed=True)

    def _take(self, events: tuple[bytes, ...]) -> Step:
        passed: list[bytes] = []
        calls: list[ToolCall] = []
        terminal = b""
        for event in events:
            if self._dialect.is_terminal(event):
                terminal = event  # what an upstream sends beyond it belongs to no request
                break
            self._note_usage(event)
            if self._filter is None:
                self._models.take_event(event)
                passed.append(event)
            else:
                step = self._filter.feed(event)
                passed += step.events
                calls += step.calls
            self._end.take(event)
        if terminal and self._dialect.terminal_has_value:
            self._note_usage(terminal)
            if self._filter is None:
                self._models.take_event(terminal)
        if terminal and self._filter is not None:
            step = self._filter.end(terminal)
            passed += step.events
            calls += step.calls
        return Step(tuple(passed), tuple(calls), terminal, ended=bool(terminal))

    def _note_usage(self, event: bytes) -> None:
        if b'"usage"' in event:
            self._usage_events = self._usage_events[0] or event, event


def usage_of(data: bytes, dialect: Dialect, *, streamed: bool = False) -> Usage:
    """``usage`` of an answer that was not read yet, or of an event; unstated where it cannot be read."""
    try:
        return dialect.usage_in(parse_json(data), streamed=streamed)
    except RequestMalformed:  # counts are a courtesy of the upstream: unreadable ones are left out
        return Usage()
