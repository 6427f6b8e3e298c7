"""What an export will hold, on disk in its draft: leaves of the range and where their records lie. Survives a stop.

SQLite, one transaction for each segment of the journal, so that a run that continues begins with the segment after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.gateway.store.journal import Place

__all__ = ["Plan", "Record"]

_SCHEMA: Final = """
CREATE TABLE leaves (rh BLOB PRIMARY KEY, idx INT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (idx INT PRIMARY KEY, rh BLOB, kind TEXT, jti TEXT, ses TEXT, boot BLOB, segment INT, offset INT,
  length INT);
CREATE TABLE extras (rh BLOB PRIMARY KEY, kind TEXT, jti TEXT, ses TEXT, boot BLOB, segment INT, offset INT,
  length INT);
CREATE TABLE notes (size INT, jti TEXT, boot BLOB, segment INT, offset INT, length INT);
CREATE TABLE openings (rh BLOB PRIMARY KEY, segment INT, offset INT, length INT) WITHOUT ROWID;
CREATE TABLE erased (rh BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE opened (outcome TEXT NOT NULL, count INT NOT NULL);
CREATE TABLE done (step TEXT PRIMARY KEY, reached INT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the journal. ``rh``: 32 bytes."""

    rh: bytes
    kind: str
    jti: str
    ses: str
    boot: bytes
    place: Place

    def row(self) -> tuple[object, ...]:
        """Its columns."""
        at = (self.place.segment, self.place.offset, self.place.length)
        return (self.rh, self.kind, self.jti, self.ses, self.boot, *at)


class Plan:
    """One export's plan. Close it."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def reached(self, step: str) -> int:
        """How far a step is: -1 before it began."""
        row = self._connection.execute("SELECT reached FROM done WHERE step = ?", (step,)).fetchone()
        return -1 if row is None else int(row[0])

    def reach(self, step: str, number: int) -> None:
        """Keep everything so far, and that ``step`` is at ``number``."""
        self._connection.execute("INSERT OR REPLACE INTO done VALUES (?, ?)", (step, number))
        self._connection.commit()

    def add_leaves(self, leaves: Iterable[tuple[bytes, int]]) -> None:
        """Leaves of the range: hash of the record, index."""
        self._connection.executemany("INSERT OR IGNORE INTO leaves VALUES (?, ?)", leaves)

    def find_records(self, records: Sequence[Record]) -> None:
        """Keep those of ``records`` whose leaf is in the range."""
        self._connection.executemany(
            "INSERT OR IGNORE INTO records SELECT idx, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM leaves WHERE rh = ?1",
            (record.row() for record in records),
        )

    def sessions(self) -> set[str]:
        """The sessions that have a record in the range."""
        rows = self._connection.execute("SELECT DISTINCT ses FROM records WHERE ses != ''")
        return {row[0] for row in rows}

    def boots(self) -> set[bytes]:
        """The boots that wrote a record in the range, or one beside it that was found so far."""
        query = "SELECT boot FROM records UNION SELECT boot FROM extras"
        return {row[0] for row in self._connection.execute(query)}

    def missing(self) -> set[int]:
        """Leaves of the range whose records were not found."""
        query = "SELECT l.idx FROM leaves l LEFT JOIN records r ON r.idx = l.idx WHERE r.idx IS NULL"
        return {row[0] for row in self._connection.execute(query)}

    def drop_sessions_but(self, sessions: Iterable[str], kinds: Iterable[str]) -> None:
        """Forget records of other sessions, and of none unless they are of ``kinds``."""
        self._connection.execute("CREATE TEMP TABLE wanted (ses TEXT PRIMARY KEY)")
        self._connection.executemany("INSERT INTO wanted VALUES (?)", ((each,) for each in set(sessions)))
        self._connection.execute(
            "DELETE FROM records WHERE ses != '' AND ses NOT IN (SELECT ses FROM wanted)"
        )
        named = tuple(kinds)
        marks = ", ".join("?" * len(named))
        self._connection.execute(f"DELETE FROM records WHERE ses = '' AND kind NOT IN ({marks})", named)  # noqa: S608 - question marks

    def add_extras(self, records: Iterable[Record]) -> None:
        """Records beside the range that it needs; those in it are not added."""
        self._connection.executemany(
            "INSERT OR IGNORE INTO extras SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 "
            "WHERE NOT EXISTS (SELECT 1 FROM leaves WHERE rh = ?1)",
            (record.row() for record in records),
        )

    def extra_kinds(self) -> dict[bytes, str]:
        """Their hashes and kinds; the kind is empty for a supervisor's."""
        return dict(self._connection.execute("SELECT rh, kind FROM extras"))

    def place_extras(self, found: Iterable[tuple[bytes, int]]) -> None:
        """Make them records of their index."""
        self._connection.executemany(
            "INSERT OR IGNORE INTO records SELECT ?2, rh, kind, jti, ses, boot, segment, offset, length "
            "FROM extras WHERE rh = ?1",
            found,
        )

    def add_note(self, size: int, jti: str, boot: bytes, place: Place) -> None:
        """A cosigned checkpoint that the epoch record ``jti`` names."""
        row = (size, jti, boot, place.segment, place.offset, place.length)
        self._connection.execute("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?)", row)

    def notes_over(self, size: int) -> Iterator[Place]:
        """Checkpoints of at least ``size`` leaves, the smallest first."""
        query = "SELECT segment, offset, length FROM notes WHERE size >= ? ORDER BY size, segment, offset"
        yield from (Place(*row) for row in self._connection.execute(query, (size,)))

    def notes_of_records(self) -> Iterator[Place]:
        """Checkpoints that exported epochs name."""
        query = (
            "SELECT n.segment, n.offset, n.length FROM notes n JOIN records r ON r.jti = n.jti ORDER BY r.idx"
        )
        yield from (Place(*row) for row in self._connection.execute(query))

    def count(self) -> int:
        """Records that will be exported."""
        return int(self._connection.execute("SELECT count(*) FROM records").fetchone()[0])

    def last_index(self) -> int:
        """The highest index of a record."""
        return int(self._connection.execute("SELECT max(idx) FROM records").fetchone()[0])

    def indices(self) -> Iterator[int]:
        """Their indices, ascending."""
        yield from (row[0] for row in self._connection.execute("SELECT idx FROM records ORDER BY idx"))

    def places(self, first: int, most: int) -> list[tuple[str, Place]]:
        """Kind and place of ``most`` records from the ``first`` on, in log order."""
        query = "SELECT kind, segment, offset, length FROM records ORDER BY idx LIMIT ? OFFSET ?"
        return [(row[0], Place(*row[1:])) for row in self._connection.execute(query, (most, first))]

    def add_openings(self, found: Iterable[tuple[bytes, Place, bool]]) -> None:
        """Sealed disclosures by what they are kept under, a record's hash or a key's name; the first of each counts.

        Args:
            found: each with its place, and whether it is a key: of others only those of records of the range and beside
                it are kept.
        """
        self._connection.executemany(
            "INSERT OR IGNORE INTO openings SELECT ?1, ?2, ?3, ?4 "
            "WHERE ?5 OR EXISTS (SELECT 1 FROM leaves WHERE rh = ?1) "
            "OR EXISTS (SELECT 1 FROM extras WHERE rh = ?1)",
            ((name, place.segment, place.offset, place.length, is_key) for name, place, is_key in found),
        )

    def add_erased(self, found: Iterable[bytes]) -> None:
        """Hashes of records whose content was ordered to be erased."""
        self._connection.executemany("INSERT OR IGNORE INTO erased VALUES (?)", ((rh,) for rh in found))

    def opening_of(self, rh: bytes) -> Place | None:
        """Where what is kept under ``rh``, a record's hash or the name of a key, lies."""
        row = self._connection.execute(
            "SELECT segment, offset, length FROM openings WHERE rh = ?", (rh,)
        ).fetchone()
        return None if row is None else Place(*row)

    def is_erased(self, rh: bytes) -> bool:
        """Whether an order names the content of a record."""
        return self._connection.execute("SELECT 1 FROM erased WHERE rh = ?", (rh,)).fetchone() is not None

    def forget_openings(self) -> None:
        """Begin anew with them."""
        for table in ("openings", "erased", "opened"):
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        self._connection.execute("DELETE FROM done WHERE step IN ('openings', 'openings until')")
        self._connection.commit()

    def keep_opened(self, counts: Mapping[str, int]) -> None:
        """What became of the openings of one more file of receipts."""
        self._connection.executemany("INSERT INTO opened VALUES (?, ?)", counts.items())

    def opened(self) -> dict[str, int]:
        """The same, of all files."""
        return dict(self._connection.execute("SELECT outcome, sum(count) FROM opened GROUP BY outcome"))

    def of_kind(self, kind: str) -> list[Place]:
        """Places of the records of one kind, in log order."""
        query = "SELECT segment, offset, length FROM records WHERE kind = ? ORDER BY idx"
        return [Place(*row) for row in self._connection.execute(query, (kind,))]
