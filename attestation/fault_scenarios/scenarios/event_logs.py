"""Event logs: the project's own and that of dstack's guest agent, against registers that hold something else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.release.boot import BootEvent, boot_events
from fault_scenarios.bench import IMAGE
from fault_scenarios.changes import bench, each
from fault_scenarios.evidence import Asked
from fault_scenarios.scenario import Accepted, Change, Refused, Scenario

__all__ = ["SCENARIOS"]

_RUNTIME: Final = 0x08000001
"""The type of dstack's runtime events."""
_MALFORMED: Final = Refused("eventlog.malformed", Stage.APPRAISAL, Accepted())
_REPLAY: Final = Refused("eventlog.replay", Stage.APPRAISAL, Accepted())
_PREIMAGE: Final = Refused("eventlog.preimage", Stage.APPRAISAL, Accepted())
_AMBIGUOUS: Final = Refused("eventlog.ambiguous", Stage.APPRAISAL, Accepted())
_DUPLICATE: Final = Refused("eventlog.duplicate", Stage.APPRAISAL, Accepted())
_ASKED: Final = bench(asked=Asked(event_log=True))


# -- the project's own ------------------------------------------------------------------------------------------------

_OWN: Final = (
    BootEvent(3, "affiant-sim-first", {"number": 1}),
    BootEvent(3, "affiant-sim-second", {"number": 2}),
)


def _own_log(events: tuple[BootEvent, ...]) -> bytes:
    entries = [{"rtmr": event.rtmr, "name": event.name, "payload": event.payload} for event in events]
    return canonical({"typ": "affiant-eventlog/1", "events": entries})


def _own(edit: Callable[[tuple[BootEvent, ...]], tuple[BootEvent, ...]]) -> Change:
    """Two events were extended into RTMR3; the log says what ``edit`` makes of boot and both."""
    log = _own_log(edit((*boot_events(IMAGE), *_OWN)))
    return each(_ASKED, bench(extensions=tuple(event.digest() for event in _OWN), event_log=log))


def _file(content: bytes) -> Change:
    return each(_ASKED, bench(event_log=content))


# -- dstack's ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Runtime:
    """One runtime event: its digest is of type, name and payload, joined by colons."""

    name: str
    payload: bytes = b"SIMULATED"
    kind: int = _RUNTIME

    def digest(self) -> bytes:
        preimage = self.kind.to_bytes(4, "little") + b":" + self.name.encode() + b":" + self.payload
        return hashlib.sha384(preimage).digest()

    def to_json(self) -> dict[str, Any]:
        return {
            "imr": 3,
            "event_type": self.kind,
            "digest": self.digest().hex(),
            "event": self.name,
            "event_payload": self.payload.hex(),
        }


_SYSTEM: Final = (_Runtime("app-id"), _Runtime("compose-hash"), _Runtime("system-ready"))


def _entries(events: tuple[_Runtime, ...]) -> list[dict[str, Any]]:
    return [event.to_json() for event in events]


def _dstack(*events: _Runtime, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list) -> Change:
    """``events`` were extended into RTMR3; the log says what ``edit`` makes of them."""
    log = json.dumps(edit(_entries(events))).encode("ascii")
    return each(_ASKED, bench(extensions=tuple(event.digest() for event in events), event_log=log))


def _other_payload(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entries[0] | {"event_payload": b"another".hex()}, *entries[1:]]


def _other_type(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entries[0] | {"event_type": 1}, *entries[1:]]


def _short_digest(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entries[0] | {"digest": entries[0]["digest"][:-2]}, *entries[1:]]


SCENARIOS: Final = (
    Scenario(
        "log-replays",
        "The event log replays to all four registers.",
        (44,),
        Accepted(),
        _own(lambda events: events),
    ),
    Scenario(
        "log-lacks-the-last-event",
        "An event was extended into RTMR3 that the log does not show.",
        (44,),
        _REPLAY,
        _own(lambda events: events[:-1]),
    ),
    Scenario(
        "log-has-one-more-event",
        "The log shows an event that was never extended.",
        (44,),
        _REPLAY,
        _own(lambda events: (*events, BootEvent(3, "affiant-sim-third", {}))),
    ),
    Scenario(
        "log-in-another-order",
        "Two events stand in the other order.",
        (44,),
        _REPLAY,
        _own(lambda events: (*events[:-2], events[-1], events[-2])),
    ),
    Scenario(
        "log-with-another-payload",
        "An event's payload is another than what was extended.",
        (44,),
        _REPLAY,
        _own(lambda events: (*events[:-1], replace(events[-1], payload={"number": 3}))),
    ),
    Scenario(
        "log-without-the-kernel",
        "The log shows part of the boot, and not the kernel.",
        (44,),
        _REPLAY,
        _own(lambda events: tuple(event for event in events if event.rtmr != 1)),
    ),
    Scenario("log-of-garbage", "The event log is of no known form.", (44,), _MALFORMED, _file(b"SIMULATED")),
    Scenario("log-empty", "The event log is empty.", (44,), _MALFORMED, _file(b"")),
    Scenario(
        "log-cut",
        "The event log ends in the middle.",
        (44,),
        _MALFORMED,
        lambda it: _file(it.event_log[: len(it.event_log) // 2])(it),
    ),
    Scenario(
        "log-of-register-4",
        "The event log speaks of a register that there is not.",
        (44,),
        _MALFORMED,
        _file(_own_log((BootEvent(4, "affiant-sim-first", {}),))),
    ),
    Scenario(
        "log-of-another-kind",
        "The event log is a document of another type.",
        (44,),
        _MALFORMED,
        _file(canonical({"typ": "affiant-eventlog/2", "events": []})),
    ),
    Scenario(
        "log-with-an-odd-name",
        "An event's name has characters that no name has.",
        (44,),
        _MALFORMED,
        _file(_own_log((BootEvent(3, "Affiant: first", {}),))),
    ),
    Scenario(
        "dstack-log-with-another-member",
        "An event of dstack's form has a member more.",
        (44,),
        _MALFORMED,
        _dstack(*_SYSTEM, edit=lambda entries: [entries[0] | {"more": 1}, *entries[1:]]),
    ),
    Scenario(
        "dstack-log-replays", "A log of dstack's form replays to RTMR3.", (44,), Accepted(), _dstack(*_SYSTEM)
    ),
    Scenario(
        "dstack-log-with-another-payload",
        "An event's payload was changed, its digest kept: the replay alone would hold.",
        (44,),
        _PREIMAGE,
        _dstack(*_SYSTEM, edit=_other_payload),
    ),
    Scenario(
        "dstack-log-with-another-type",
        "An event of RTMR3 has another type, so that nobody would hash it again.",
        (44,),
        _MALFORMED,
        _dstack(*_SYSTEM, edit=_other_type),
    ),
    Scenario(
        "dstack-log-with-a-short-digest",
        "A digest has 47 bytes.",
        (44,),
        _MALFORMED,
        _dstack(*_SYSTEM, edit=_short_digest),
    ),
    Scenario(
        "dstack-log-with-a-delimiter",
        "An event's name holds the delimiter, so that its digest stands for several events.",
        (44,),
        _AMBIGUOUS,
        _dstack(_Runtime("app-id:evil"), *_SYSTEM[1:]),
    ),
    Scenario(
        "dstack-log-with-a-doubled-event",
        "An event that counts once stands twice.",
        (44,),
        _DUPLICATE,
        _dstack(_SYSTEM[0], *_SYSTEM),
    ),
    Scenario(
        "dstack-log-with-a-late-event",
        "A system event stands behind the one after which the application writes what it likes.",
        (44,),
        _DUPLICATE,
        _dstack(_SYSTEM[0], _SYSTEM[2], _SYSTEM[1]),
    ),
    Scenario(
        "dstack-log-lacks-an-event",
        "A runtime event was extended into RTMR3 that the log does not show.",
        (44,),
        _REPLAY,
        _dstack(*_SYSTEM, edit=lambda entries: entries[:-1]),
    ),
)
