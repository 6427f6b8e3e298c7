"""Describes a measured log of any form: which event extended which register, and what that proves (point 44).

Replay proves the order of *digests*. An event's content is proven only where its digest is recomputed from it;
where it is not in the log (a kernel's Authenticode hash, say), the digest alone counts and the content shown is
the writer's word. MRTD is extended by the TDX module before any log, so that no log replays to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from affiant.attestation.tdx.event_log.eventlog import EMPTY_REGISTER, EventLog, event_digest
from affiant.attestation.tdx.quote.quote import TDReport
from affiant.errors import NotAuthenticError

__all__ = [
    "MAX_MEASURED_EVENTS",
    "MAX_MEASURED_LOG_BYTES",
    "Binding",
    "MeasuredEvent",
    "MeasuredLog",
    "measured",
    "verify_replay",
]

MAX_MEASURED_EVENTS: Final = 250_000
MAX_MEASURED_LOG_BYTES: Final = 64 << 20


class Binding(StrEnum):
    """What ties an event's content to its register."""

    CONTENT = "content"
    """The digest was recomputed from all of the content in the log, its name included."""
    DATA = "data"
    """The digest was recomputed from the data in it; what it calls itself is not covered."""
    DIGEST = "digest"
    """The digest counts; the content is not what was hashed, or not all of it."""
    NONE = "none"
    """The event extends nothing."""


@dataclass(frozen=True, slots=True)
class MeasuredEvent:
    """One event."""

    rtmr: int | None
    """0 to 3; None: MRTD's, or an event that extends nothing."""
    number: int
    """The event's type, as its format numbers it."""
    kind: str
    """The type by name."""
    name: str
    """What the event calls itself; hostile text."""
    content: bytes = field(repr=False)
    digest: bytes
    """48 bytes that extended the register."""
    binding: Binding


@dataclass(frozen=True, slots=True)
class MeasuredLog:
    """A log as parsed, in order. A claim until its replay equals a quote's registers."""

    form: str
    events: tuple[MeasuredEvent, ...]

    def of(self, rtmr: int) -> tuple[MeasuredEvent, ...]:
        """The events that extended one register, in order."""
        return tuple(event for event in self.events if event.rtmr == rtmr)

    def replay(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The four registers after all events, 48 bytes each; one pass."""
        registers = [EMPTY_REGISTER] * 4
        for event in self.events:
            if event.rtmr is not None:
                registers[event.rtmr] = hashlib.sha384(registers[event.rtmr] + event.digest).digest()
        return registers[0], registers[1], registers[2], registers[3]

    @property
    def is_runtime_only(self) -> bool:
        """Whether it speaks of RTMR3 alone: a log that says nothing of the boot, rather than part of it."""
        return all(event.rtmr in (None, 3) for event in self.events)


def measured(log: EventLog) -> MeasuredLog:
    """The project's own log in the common form; its digests are always recomputed."""
    return MeasuredLog(
        "affiant-eventlog/1",
        tuple(
            MeasuredEvent(
                rtmr=entry.rtmr,
                number=0,
                kind="affiant-event/1",
                name=entry.event.name,
                content=b"",
                digest=event_digest(entry.event),
                binding=Binding.CONTENT,
            )
            for entry in log.entries
        ),
    )


def verify_replay(log: MeasuredLog, body: TDReport) -> tuple[int, ...]:
    """The registers that ``log`` replays to: all four, or RTMR3 alone for a log of run time.

    A log that speaks of the boot must speak of all of it: a register that holds something while the log has
    nothing for it is a log that was cut.

    Raises:
        ``eventlog.replay``: a register holds something else.
    """
    registers = (3,) if log.is_runtime_only else (0, 1, 2, 3)
    _compare(log, body, registers)
    return registers


def _compare(log: MeasuredLog, body: TDReport, registers: Iterable[int]) -> None:
    replayed = log.replay()
    for rtmr in registers:
        if replayed[rtmr] != body.rtmrs[rtmr]:
            raise NotAuthenticError(
                f"the event log does not replay to RTMR{rtmr}",
                expected=body.rtmrs[rtmr].hex(),
                found=f"{replayed[rtmr].hex()} after {len(log.of(rtmr))} events",
                code="eventlog.replay",
            )
