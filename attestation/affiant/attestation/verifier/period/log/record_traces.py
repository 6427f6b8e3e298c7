"""What a period leaves behind to hold other bundles against, record by record on disk: memory stays small.

A file without a name, as ``spill``; it is gone when nobody can read it any more. Of a record it holds what
``TracedRecord`` has, some 400 bytes, and nothing that is disclosed.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Iterator

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.tlog.entry import LogEntry
from affiant.attestation.verifier.period.log.seen import Seen
from affiant.attestation.verifier.trace import TracedRecord

__all__ = ["TracedRecords"]


class TracedRecords:
    """Records as they come; read in that order, from their beginning, once all are there.

    Args:
        origin: of the log that their places are in; None: they have none.
    """

    __slots__ = ("__weakref__", "_file", "_origin")

    def __init__(self, origin: str | None) -> None:
        self._origin = origin
        self._file = tempfile.TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 - closed with its last reader
        weakref.finalize(self, self._file.close)

    def put(self, seen: Seen, entry: LogEntry, *, role: str, index: int | None) -> None:
        """Keep what is traced of one authentic record; ``index``: of its leaf, None where that is not here."""
        placed = None if index is None or self._origin is None else (self._origin, index)
        record = TracedRecord(
            rh=seen.rh,
            prev=seen.prev,
            key=seen.kid,
            chn=b64u(entry.chn),
            seq=entry.seq,
            jti=seen.jti,
            kind=entry.kind,
            role=role,
            session=seen.ses or None,
            close=seen.close or None,
            gap=seen.lost or None,
            place=placed,
        )
        self._file.write(json.dumps(record) + "\n")

    def __iter__(self) -> Iterator[TracedRecord]:
        """Every record that was put here."""
        self._file.seek(0)
        for line in self._file:
            record = TracedRecord(*json.loads(line))
            yield (
                record if record.place is None else record._replace(place=(record.place[0], record.place[1]))
            )
