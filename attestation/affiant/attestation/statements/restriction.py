"""Reads the permission restrictions of a running session: the events after the barrier in its RTMR3, one for each.

Epoch 0 is the profile that the session was admitted with. The k-th restriction is the k-th event after the barrier,
``affiant-policy``, with the payload ``{"dig", "epoch", "fil", "old"}``: the new profile's digest, k, the digest of the
file that it is from, and the digest of the profile that it replaces. From then on the session's evidence has k such
events, over a nonce of its own, and its records name that evidence, ``pol.epoch`` k and, since MRCONFIGID binds epoch 0
alone, ``pol.bind`` ``rtmr3`` (TDX specification, "Bindings"; receipts specification, kind ``policy``).

What stands here is the order of the events, not that each profile is narrower: the measured supervisor and the measured
gateway compare profiles, each for itself, and do not go on with a wider one. What order alone can show is shown: a
profile that the session had before does not come back.

>>> first, second = (f"sha384:{digit * 96}" for digit in "01")
>>> change = Narrowing(1, second, "sha256:" + "2" * 64, old=first)
>>> parse_narrowings((change.event,), first=first) == (change,)
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.schema.shapes import Int, Obj, Pattern, ShapeMismatch
from affiant.attestation.tdx.event_log.eventlog import SESSION_EVENT_ORDER, Event, EventLog
from affiant.errors import AffiantError, MalformedError, NotAllowedError

__all__ = [
    "MAX_NARROWINGS",
    "NARROWING_EVENT",
    "Narrowing",
    "binding_of",
    "demand_next",
    "logged_narrowings",
    "parse_narrowings",
]

NARROWING_EVENT: Final = "affiant-policy"
MAX_NARROWINGS: Final = 64
"""Of one session. Each costs its readers a quote: a bound keeps a session from being made too dear to verify."""

_SHA384: Final = Pattern("sha384:[0-9a-f]{96}", "a SHA-384 name")
_PAYLOAD: Final = Obj(
    {
        "dig": _SHA384,
        "epoch": Int(1, MAX_NARROWINGS),
        "fil": Pattern("sha256:[0-9a-f]{64}", "a SHA-256 name"),
        "old": _SHA384,
    }
)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """One change of a session's profile."""

    epoch: int
    """Which change since the start, from 1; ``pol.epoch`` of the records after it."""
    profile_digest: str
    """``sha384:`` name of the profile in force from here on."""
    file_digest: str
    """``sha256:`` name of the file that it is from."""
    old: str
    """``sha384:`` name of the profile that was in force until here."""

    @property
    def payload(self) -> Mapping[str, object]:
        """The event's payload: exactly these members."""
        return {"dig": self.profile_digest, "epoch": self.epoch, "fil": self.file_digest, "old": self.old}

    @property
    def event(self) -> Event:
        """What is extended into RTMR3."""
        return Event(NARROWING_EVENT, self.payload)


def binding_of(epoch: int) -> str:
    """Where the profile of an epoch is bound: ``pol.bind`` of the records of that epoch."""
    return "mrconfigid" if epoch == 0 else "rtmr3"


def parse_narrowings(events: tuple[Event, ...], *, first: str) -> tuple[Narrowing, ...]:
    """The restrictions that ``events`` are, in order.

    Args:
        events: RTMR3 after the barrier. What is not replayed against a quote proves nothing.
        first: ``sha384:`` name of the profile of epoch 0, which the manifest binds.

    Raises:
        ``narrowing.event``: an event of another name (a child inside the same TD as well), or more than 64.
        ``narrowing.malformed``: another payload.
        ``narrowing.order``: as of :func:`demand_next`.
    """
    if len(events) > MAX_NARROWINGS:
        raise _too_many(len(events))
    narrowings: list[Narrowing] = []
    for epoch, event in enumerate(events, 1):
        try:
            narrowing = _parse(event)
            demand_next(narrowing, narrowings, first=first)
        except AffiantError as error:
            error.where = f"narrowings[{epoch}]"
            raise
        narrowings.append(narrowing)
    return tuple(narrowings)


def logged_narrowings(log: EventLog, *, first: str) -> tuple[Narrowing, ...]:
    """The restrictions that a session's event log claims: as :func:`parse_narrowings`, of what follows the barrier.

    A claim until the log is replayed against the quote and its events up to the barrier are the expected ones.
    """
    return parse_narrowings(log.events(3)[len(SESSION_EVENT_ORDER) :], first=first)


def demand_next(narrowing: Narrowing, before: Sequence[Narrowing], *, first: str) -> None:
    """Return if ``narrowing`` may follow those ``before`` it.

    Raises:
        ``narrowing.event``: a session may have no more.
        ``narrowing.order``: another epoch than the next, a profile replaced that is not in force, or one that comes
            back.
    """
    if len(before) == MAX_NARROWINGS:
        raise _too_many(MAX_NARROWINGS + 1)
    had = [first, *(each.profile_digest for each in before)]
    if narrowing.epoch != len(had):
        raise NotAllowedError(
            "not the next epoch", expected=len(had), found=narrowing.epoch, code="narrowing.order"
        )
    if narrowing.old != had[-1]:
        raise NotAllowedError(
            "replaces another profile than the one in force",
            expected=had[-1],
            found=narrowing.old,
            code="narrowing.order",
        )
    if narrowing.profile_digest in had:
        raise NotAllowedError(
            "a profile that the session had before; a session's profile can only be restricted",
            found=narrowing.profile_digest,
            code="narrowing.order",
        )


def _too_many(count: int) -> NotAllowedError:
    text = "more permission restrictions than a session may have"
    return NotAllowedError(text, expected=f"at most {MAX_NARROWINGS}", found=count, code="narrowing.event")


def _parse(event: Event) -> Narrowing:
    if event.name != NARROWING_EVENT:
        raise NotAllowedError(
            "an event after the barrier that is not a permission restriction",
            expected=NARROWING_EVENT,
            found=event.name,
            code="narrowing.event",
        )
    try:
        _PAYLOAD.check(dict(event.payload), "payload")
    except ShapeMismatch as error:
        raise MalformedError(
            f"{error.where}: {error.message}",
            expected=error.expected,
            found=error.found,
            code="narrowing.malformed",
        ) from error
    match event.payload:
        case {"epoch": int(epoch), "dig": str(profile), "fil": str(file), "old": str(old)}:
            return Narrowing(epoch, profile, file, old)
    raise AssertionError("the shape has said so")  # pragma: no cover
