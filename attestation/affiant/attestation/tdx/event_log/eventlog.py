"""Reads the event log, what was extended into the RTMRs in order, and replays it (point 44).

One event's digest is SHA-384 of RFC 8785 ``{"typ":"affiant-event/1","name":...,"payload":{...}}``; a register
is extended by ``R = SHA-384(R || digest)``, from 48 zero bytes. The log document is RFC 8785
``{"typ":"affiant-eventlog/1","events":[{"rtmr":3,"name":...,"payload":{...}}, ...]}``.

Digests are recomputed, never carried: a log cannot claim one payload and replay another (a mistake that two
verifiers in the field made). Name and payload are members of one canonical document, so no delimiter can be
moved between them. What is not replayed against a quote proves nothing.

>>> event_digest(Event("a", {})) == event_digest(Event("a", {"b": 1}))
False
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.errors import MalformedError

__all__ = [
    "EMPTY_REGISTER",
    "LATER_EVENTS",
    "SESSION_EVENT_ORDER",
    "Event",
    "EventLog",
    "LoggedEvent",
    "event_digest",
    "extend",
    "parse_event_log",
    "replay",
]

EVENT_TYPE: Final = "affiant-event/1"
EVENT_LOG_TYPE: Final = "affiant-eventlog/1"
EMPTY_REGISTER: Final = bytes(48)
"""An RTMR that nothing was extended into."""
MAX_EVENTS: Final = 10_000
MAX_LOG_BYTES: Final = 8 * 1024 * 1024

SESSION_EVENT_ORDER: Final = (
    "affiant-manifest",
    "affiant-profile",
    "affiant-images",
    "affiant-activate",
    "affiant-ready",
)
"""What a session's RTMR3 holds, exactly once each, up to and including the barrier."""
LATER_EVENTS: Final = frozenset(("affiant-policy", "affiant-fork"))
"""What alone may follow the barrier: a restriction of the policy, and a child inside the same TD."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Event:
    """One named fact with its payload.

    Raises:
        ``eventlog.malformed``: a name other than ``[a-z0-9][a-z0-9.-]{0,63}``.
    """

    name: str
    payload: Mapping[str, object]

    def __post_init__(self) -> None:
        if _NAME.match(self.name) is None:
            raise MalformedError(
                "event name of another form", expected="[a-z0-9][a-z0-9.-]{0,63}", code="eventlog.malformed"
            )


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event and the register (0 to 3) that it was extended into."""

    rtmr: int
    event: Event

    def __post_init__(self) -> None:
        if type(self.rtmr) is not int or not 0 <= self.rtmr <= 3:
            raise MalformedError(
                "no such register", expected="0 to 3", where=self.event.name, code="eventlog.malformed"
            )


@dataclass(frozen=True, slots=True)
class EventLog:
    """A parsed log, in order. A claim until its replay equals a quote's registers."""

    entries: tuple[LoggedEvent, ...]

    def events(self, rtmr: int) -> tuple[Event, ...]:
        """The events of one register, in order."""
        return tuple(entry.event for entry in self.entries if entry.rtmr == rtmr)

    def to_bytes(self) -> bytes:
        """The log document.

        Raises:
            ``eventlog.malformed``: a payload has no canonical form, or the document would not be read again.
        """
        if len(self.entries) > MAX_EVENTS:
            raise MalformedError(
                "event log of too many events", expected=f"at most {MAX_EVENTS}", code="eventlog.malformed"
            )
        events = [
            {"rtmr": entry.rtmr, "name": entry.event.name, "payload": entry.event.payload}
            for entry in self.entries
        ]
        data = _canonical({"typ": EVENT_LOG_TYPE, "events": events})
        if len(data) > MAX_LOG_BYTES:
            raise MalformedError(
                "event log too large", expected=f"at most {MAX_LOG_BYTES} bytes", code="eventlog.malformed"
            )
        return data


def event_digest(event: Event) -> bytes:
    """The 48 bytes that are extended for ``event``.

    Raises:
        ``eventlog.malformed``: the payload has no canonical form.
    """
    return hashlib.sha384(
        _canonical({"typ": EVENT_TYPE, "name": event.name, "payload": event.payload})
    ).digest()


def _canonical(value: object) -> bytes:
    try:
        return canonical(value)
    except JSONError as error:
        raise MalformedError("an event payload has no canonical form", code="eventlog.malformed") from error


def extend(register: bytes, digest: bytes) -> bytes:
    """The register's next value; both are 48 bytes.

    Raises:
        ``eventlog.malformed``: another length.
    """
    if len(register) != 48 or len(digest) != 48:
        raise MalformedError("a register is extended by exactly 48 bytes", code="eventlog.malformed")
    return hashlib.sha384(register + digest).digest()


def replay(events: EventLog | Iterable[Event], rtmr: int | None = None) -> bytes:
    """The 48 bytes that a register holds after ``events``; of a whole log, those of ``rtmr``. Linear time.

    Raises:
        ``eventlog.malformed``: a log without saying which register, or a payload without canonical form.
    """
    if isinstance(events, EventLog):
        if rtmr is None:
            raise MalformedError(
                "replay of a whole log needs to know the register", code="eventlog.malformed"
            )
        events = events.events(rtmr)
    register = EMPTY_REGISTER
    for event in events:
        register = extend(register, event_digest(event))
    return register


def parse_event_log(data: bytes) -> EventLog:
    """The log in ``data``.

    Raises:
        ``eventlog.malformed``: not the canonical form of an ``affiant-eventlog/1`` document, or beyond its bounds
            (10,000 events, 8 MiB).
    """
    try:
        document = parse_object(data, limit=MAX_LOG_BYTES)
    except JSONError as error:
        raise MalformedError("event log is not canonical JSON", code="eventlog.malformed") from error
    events = document.get("events")
    if document.get("typ") != EVENT_LOG_TYPE or document.keys() != {"typ", "events"}:
        raise MalformedError(
            "event log of another form",
            expected=f"typ {EVENT_LOG_TYPE} and events",
            code="eventlog.malformed",
        )
    if not isinstance(events, list) or len(events) > MAX_EVENTS:
        raise MalformedError(
            "events are no array, or too many", expected=f"at most {MAX_EVENTS}", code="eventlog.malformed"
        )
    return EventLog(tuple(_parse_entry(entry, index) for index, entry in enumerate(events)))


def _parse_entry(entry: object, index: int) -> LoggedEvent:
    if not isinstance(entry, dict) or entry.keys() != {"rtmr", "name", "payload"}:
        raise MalformedError(
            "event of another form",
            where=f"events[{index}]",
            expected="rtmr, name, payload",
            code="eventlog.malformed",
        )
    if not isinstance(entry["name"], str) or not isinstance(entry["payload"], dict):
        raise MalformedError(
            "name is no text, or payload no object", where=f"events[{index}]", code="eventlog.malformed"
        )
    return LoggedEvent(entry["rtmr"], Event(entry["name"], entry["payload"]))
