"""Reads the event log of dstack's guest agent, a JSON array of all four registers -> :class:`MeasuredLog`.

Each entry is ``{"imr","event_type","digest","event","event_payload"}``. Entries of RTMR0 to 2 are TCG2 events; one
of RTMR3 is a *runtime event* of type 0x08000001, whose digest is SHA-384 of ``type (u32, little-endian) ":" name
":" payload``. Three mistakes of verifiers in the field are refused by construction: a digest is recomputed from the
very entry that is replayed; an entry of another type in RTMR3 has no business there; and a name with the delimiter
in it would let one digest stand for several events.

The agent's *lite* form says less, and is read too: an event of RTMR0 to 2 without payload, whose digest alone counts;
and a runtime event without digest, which is recomputed like every other. What is left out of an entry can only make
the replay fail: it never makes another log of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, parse_strict
from affiant.attestation.tdx.event_log.measured_log import (
    MAX_MEASURED_EVENTS,
    MAX_MEASURED_LOG_BYTES,
    Binding,
    MeasuredEvent,
    MeasuredLog,
)
from affiant.attestation.tdx.event_log.tcg_events import (
    EV_NO_ACTION,
    bind_content,
    name_of_event,
    name_of_type,
)
from affiant.errors import MalformedError, NotAuthenticError

__all__ = ["READY", "RUNTIME_EVENT", "SYSTEM_EVENTS", "parse_runtime_log"]

RUNTIME_EVENT: Final = 0x08000001
SYSTEM_EVENTS: Final = frozenset(
    (
        "system-preparing",
        "app-id",
        "compose-hash",
        "instance-id",
        "boot-mr-done",
        "mr-kms",
        "os-image-hash",
        "key-provider",
        "storage-fs",
        "system-ready",
    )
)
"""What dstack's own start-up emits, each at most once."""
READY: Final = "system-ready"
"""From here on the application writes whatever it likes, under whatever name."""

_MEMBERS: Final = frozenset(("imr", "event_type", "digest", "event", "event_payload"))
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*\Z")


def parse_runtime_log(data: bytes) -> MeasuredLog:
    """The log in ``data``, in linear time.

    Raises:
        ``eventlog.malformed``: another form, or beyond its bounds.
        ``eventlog.ambiguous``: a runtime event whose name holds the delimiter.
        ``eventlog.duplicate``: a system event that stands twice, or after the application took over.
        ``eventlog.preimage``: an event's content is not what its digest was made of.
    """
    try:
        entries = parse_strict(data, limit=MAX_MEASURED_LOG_BYTES)
    except JSONError as error:
        raise MalformedError(f"event log is not strict JSON: {error}", code="eventlog.malformed") from error
    if not isinstance(entries, list) or not entries or len(entries) > MAX_MEASURED_EVENTS:
        raise MalformedError(
            "event log is no array, is empty, or has too many events",
            expected=f"1 to {MAX_MEASURED_EVENTS}",
            code="eventlog.malformed",
        )
    events = tuple(_event(entry, where=f"[{index}]") for index, entry in enumerate(entries))
    _refuse_doubled(event for event in events if event.rtmr == 3)
    return MeasuredLog("dstack", events)


def _event(entry: object, *, where: str) -> MeasuredEvent:
    if not isinstance(entry, dict) or entry.keys() != _MEMBERS:
        raise MalformedError(
            "event of another form",
            where=where,
            expected=", ".join(sorted(_MEMBERS)),
            code="eventlog.malformed",
        )
    register, number, name = entry["imr"], entry["event_type"], entry["event"]
    if type(register) is not int or not 0 <= register <= 3:
        raise MalformedError("no such register", where=where, expected="0 to 3", code="eventlog.malformed")
    if type(number) is not int or not 0 <= number < 1 << 32:
        raise MalformedError("event_type is no 32-bit number", where=where, code="eventlog.malformed")
    if not isinstance(name, str):
        raise MalformedError("event is no text", where=where, code="eventlog.malformed")
    digest = _hexadecimal(entry["digest"], where)
    if len(digest) != 48 and not (register == 3 and not digest):
        raise MalformedError(
            "digest of another length",
            where=where,
            expected="48 bytes; none for a runtime event of the lite form",
            code="eventlog.malformed",
        )
    content = _hexadecimal(entry["event_payload"], where)
    if (register == 3) != (number == RUNTIME_EVENT):
        raise MalformedError(
            "RTMR3 holds runtime events, and no other register does",
            where=where,
            expected=f"type 0x{RUNTIME_EVENT:08x} in RTMR3 alone",
            found=f"type 0x{number:08x} in RTMR{register}",
            code="eventlog.malformed",
        )
    if register == 3:
        return _runtime_event(name, content, digest, where=where)
    extends = number != EV_NO_ACTION
    return MeasuredEvent(
        rtmr=register if extends else None,
        number=number,
        kind=name_of_type(number),
        name=name_of_event(number, content),  # the entry's own name is in no digest
        content=content,
        digest=digest,
        binding=_binding(number, content, digest, where=where) if extends else Binding.NONE,
    )


def _binding(number: int, content: bytes, digest: bytes, *, where: str) -> Binding:
    """As the event's type says; a payload that was left out shows nothing that could be held against the digest."""
    return bind_content(number, content, digest, where=where) if content else Binding.DIGEST


def _hexadecimal(value: object, where: str) -> bytes:
    if not isinstance(value, str) or _HEX.match(value) is None:
        raise MalformedError("not lower-case hexadecimal", where=where, code="eventlog.malformed")
    return bytes.fromhex(value)


def _runtime_event(name: str, payload: bytes, digest: bytes, *, where: str) -> MeasuredEvent:
    if not name or ":" in name:
        raise MalformedError(
            "a runtime event's name is empty or holds the delimiter ':'",
            where=where,
            found=repr(name[:40]),
            code="eventlog.ambiguous",
        )
    try:
        named = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MalformedError(
            "event holds a lone surrogate", where=where, code="eventlog.malformed"
        ) from error
    preimage = RUNTIME_EVENT.to_bytes(4, "little") + b":" + named + b":" + payload
    recomputed = hashlib.sha384(preimage).digest()
    if digest not in (b"", recomputed):
        raise NotAuthenticError(
            "a runtime event's name and payload are not what its digest was made of",
            where=where,
            found=repr(name[:40]),
            code="eventlog.preimage",
        )
    return MeasuredEvent(3, RUNTIME_EVENT, "runtime event", name, payload, recomputed, Binding.CONTENT)


def _refuse_doubled(events: Iterable[MeasuredEvent]) -> None:
    """44: one of each system event, all before the application took over: a later one is the application's."""
    seen: set[str] = set()
    for event in events:
        if event.name in SYSTEM_EVENTS and (event.name in seen or READY in seen):
            raise MalformedError(
                "a system event stands twice, or after the application took over",
                found=event.name,
                code="eventlog.duplicate",
            )
        seen.add(event.name)
