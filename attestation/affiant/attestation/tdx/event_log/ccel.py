"""Reads CCEL, the TCG2 crypto-agile event log of a TD's boot -> :class:`MeasuredLog`.

Source: TCG PC Client Platform Firmware Profile, "Event Logging"; UEFI 2.10, 38.4 (CC measurement registers);
ACPI table CCEL. The first event has the old SHA-1 layout and says which algorithms follow; each event after it
has a register index (0 MRTD, 1 to 4 RTMR0 to 3), a type, one digest for each algorithm, and its data. The table
is padded to its size with 0x00 or 0xFF; anything else after the last event is a cut or forged log.
"""

from __future__ import annotations

from typing import Final

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
from affiant.errors import MalformedError

__all__ = ["is_ccel", "parse_ccel"]

SPEC_ID: Final = b"Spec ID Event03\0"
_SHA384: Final = 0x000C
_DIGEST_SIZES: Final = {0x0004: 20, 0x000B: 32, _SHA384: 48, 0x000D: 64}
"""TPM_ALG_ID -> bytes: SHA-1, SHA-256, SHA-384, SHA-512."""
_EVENT_HEADER: Final = 12


def is_ccel(data: bytes) -> bool:
    """Whether ``data`` begins as such a log does."""
    return data[32:48] == SPEC_ID


def parse_ccel(data: bytes) -> MeasuredLog:
    """The log in ``data``, in linear time.

    Raises:
        ``eventlog.malformed``: cut, of other algorithms, beyond its bounds, or with something after its end.
        ``eventlog.preimage``: an event's content is not what its digest was made of.
    """
    if len(data) > MAX_MEASURED_LOG_BYTES:
        raise MalformedError(
            "event log too large",
            expected=f"at most {MAX_MEASURED_LOG_BYTES} bytes",
            code="eventlog.malformed",
        )
    algorithms, offset = _parse_spec_id(data)
    events: list[MeasuredEvent] = []
    while not _is_end(data, offset):
        if len(events) >= MAX_MEASURED_EVENTS:
            raise MalformedError(
                "event log of too many events",
                expected=f"at most {MAX_MEASURED_EVENTS}",
                code="eventlog.malformed",
            )
        event, offset = _parse_event(data, offset, algorithms, where=f"event {len(events) + 1}")
        events.append(event)
    return MeasuredLog("CCEL", tuple(events))


def _number(data: bytes, offset: int, size: int) -> int:
    """A little-endian number, which must be there as a whole."""
    if offset + size > len(data):
        raise MalformedError("event log is cut", found=f"{len(data)} bytes", code="eventlog.malformed")
    return int.from_bytes(data[offset : offset + size], "little")


def _parse_spec_id(data: bytes) -> tuple[dict[int, int], int]:
    """Algorithm -> digest size, and where the first event begins (TCG_EfiSpecIdEvent)."""
    if not is_ccel(data) or _number(data, 4, 4) != EV_NO_ACTION or any(data[8:28]):
        raise MalformedError(
            "not a TCG2 event log", expected="an event 'Spec ID Event03' first", code="eventlog.malformed"
        )
    end = 32 + _number(data, 28, 4)
    count = _number(data, 56, 4)
    if not 1 <= count <= len(_DIGEST_SIZES):
        raise MalformedError(
            "event log of no, or too many, algorithms", found=count, code="eventlog.malformed"
        )
    algorithms = {_number(data, 60 + 4 * n, 2): _number(data, 62 + 4 * n, 2) for n in range(count)}
    vendor = 60 + 4 * count
    if vendor + 1 + _number(data, vendor, 1) != end or end > len(data):
        raise MalformedError("the first event does not end where it says", code="eventlog.malformed")
    if len(algorithms) != count or any(_DIGEST_SIZES.get(each) != size for each, size in algorithms.items()):
        raise MalformedError(
            "an algorithm is unknown, stands twice, or has another size", code="eventlog.malformed"
        )
    if _SHA384 not in algorithms:
        raise MalformedError(
            "event log without SHA-384, which is what registers are extended with", code="eventlog.malformed"
        )
    return algorithms, end


def _is_end(data: bytes, offset: int) -> bool:
    """Whether the padding begins at ``offset``. No event begins with such a header, so that the rest of the
    log is looked at once."""
    header = data[offset : offset + _EVENT_HEADER]
    if header.strip(b"\0") and header.strip(b"\xff"):
        return False
    rest = data[offset:]
    if rest.strip(b"\0") and rest.strip(b"\xff"):
        raise MalformedError(
            "something stands after the end of the event log",
            where=f"byte {offset}",
            code="eventlog.malformed",
        )
    return True


def _parse_event(
    data: bytes, offset: int, algorithms: dict[int, int], *, where: str
) -> tuple[MeasuredEvent, int]:
    """TCG_PCR_EVENT2: every algorithm's digest exactly once."""
    index, number, count = (_number(data, offset + 4 * n, 4) for n in range(3))
    if index > 4:
        raise MalformedError(
            "no such register", where=where, expected="0 to 4", found=index, code="eventlog.malformed"
        )
    if count != len(algorithms):
        raise MalformedError(
            "an event without one digest for each algorithm",
            where=where,
            found=count,
            code="eventlog.malformed",
        )
    offset += _EVENT_HEADER
    digests: dict[int, bytes] = {}
    for _ in range(count):
        algorithm = _number(data, offset, 2)
        size = algorithms.get(algorithm)
        if size is None or algorithm in digests:
            raise MalformedError(
                "a digest of another algorithm, or one twice",
                where=where,
                found=algorithm,
                code="eventlog.malformed",
            )
        digests[algorithm] = data[offset + 2 : offset + 2 + size]
        offset += 2 + size
    length = _number(data, offset, 4)
    offset += 4
    if length > len(data) - offset:
        raise MalformedError(
            "an event reaches beyond the log", where=where, found=f"{length} bytes", code="eventlog.malformed"
        )
    content = data[offset : offset + length]
    return _event(index, number, digests[_SHA384], content, where=where), offset + length


def _event(index: int, number: int, digest: bytes, content: bytes, *, where: str) -> MeasuredEvent:
    extends = number != EV_NO_ACTION
    return MeasuredEvent(
        rtmr=index - 1 if index and extends else None,
        number=number,
        kind=name_of_type(number),
        name=name_of_event(number, content),
        content=content,
        digest=digest,
        binding=bind_content(number, content, digest, where=where) if extends else Binding.NONE,
    )
