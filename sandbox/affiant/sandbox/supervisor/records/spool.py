"""The session's own journal of records that the gateway may not hold yet: ``records.ndjson``.

One JSON line for each record, in chain order, made durable (fdatasync) before it counts; one line for each
acknowledgement, which need not be. What it holds without an acknowledgement is submitted again while the
session lives; of a session whose supervisor died, the launcher adds it to the gateway's bundle
(``with_spooled``). A torn last line is a record that never counted.
Once everything is acknowledged a large file starts again from nothing.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.records.receipt import receipt_hash

__all__ = ["Spool", "SpoolEntry", "read_unacknowledged"]

_COMPACT_ABOVE: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """One record: its JWS, and its disclosures as they are handed on (sealed, or None)."""

    jws: str
    openings: str | None

    @property
    def rh(self) -> str:
        """The receipt hash."""
        return receipt_hash(self.jws)


class Spool:
    """Appends to an open file. Calls block on the disk: use them from threads.

    Args:
        descriptor: open for appending; the spool owns it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._lock = threading.Lock()

    def append(self, entries: Sequence[SpoolEntry]) -> None:
        """Make ``entries`` durable, in order.

        Raises:
            OSError: some of them may be on the disk, but none counts; the spool is of no more use.
        """
        lines = [_line({"jws": entry.jws, "openings": entry.openings}) for entry in entries]
        with self._lock:
            self._write(b"".join(lines))
            os.fdatasync(self._descriptor)

    def acknowledge(self, rh: str, *, all_done: bool) -> None:
        """Note that the gateway holds the record ``rh``, and with ``all_done`` that it holds all."""
        with self._lock:
            if all_done and self._size > _COMPACT_ABOVE:
                os.ftruncate(self._descriptor, 0)
                self._size = 0
            else:
                self._write(_line({"ack": rh}))

    def close(self) -> None:
        """Close the file, once nothing writes; a later write fails (EBADF) and reaches no other file."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self._size += written
            view = view[written:]


def _line(members: dict[str, object]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode("ascii") + b"\n"


def read_unacknowledged(data: bytes) -> tuple[SpoolEntry, ...]:
    """The records in a spool's bytes that have no acknowledgement, in chain order; a torn end is left out."""
    entries, acknowledged = _read(data)
    return tuple(entry for rh, entry in entries.items() if rh not in acknowledged)


def read_signed(data: bytes) -> tuple[SpoolEntry, ...]:
    """All records in a spool's bytes, in chain order; a torn end is left out."""
    return tuple(_read(data)[0].values())


def _read(data: bytes) -> tuple[dict[str, SpoolEntry], set[str]]:
    """Records by receipt hash, and the hashes that were acknowledged."""
    entries: dict[str, SpoolEntry] = {}
    acknowledged: set[str] = set()
    for line in data.split(b"\n")[:-1]:
        try:
            members = json.loads(line)
        except ValueError:
            break  # torn by a crash in the middle of a write that never counted
        match members:
            case {"ack": str(rh)}:
                acknowledged.add(rh)
            case {"jws": str(jws), "openings": str() | None as openings}:
                entry = SpoolEntry(jws, openings)
                entries[entry.rh] = entry
            case _:
                break  # not a line of ours: what follows it is not in order
    return entries, acknowledged
