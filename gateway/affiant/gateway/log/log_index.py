"""Finds each record in the log: receipt hash -> index, in SQLite beside the log, rebuilt from its bundles.

It answers questions and decides nothing: a proof that is made from a wrong answer does not verify.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.gateway.wire.errors import IndexUnavailable

__all__ = ["LogIndex"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS leaves (rh BLOB PRIMARY KEY, idx INT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (origin TEXT NOT NULL, size INT NOT NULL);
"""


class LogIndex:
    """The index of one log. Thread-safe.

    Args:
        path: the file; one that SQLite does not accept, or of another log, is begun anew.
        origin: the log's.
    """

    def __init__(self, path: Path, *, origin: str) -> None:
        self._path, self._origin = path, origin
        self._lock = threading.Lock()
        try:
            self._connection, self.size = self._open()
        except sqlite3.Error:
            self._discard()
            try:
                self._connection, self.size = self._open()
            except sqlite3.Error as error:
                raise IndexUnavailable("the log's index cannot be made", found=str(error)[:80]) from error

    def add(self, first: int, hashes: Sequence[bytes]) -> None:
        """The leaves from index ``first`` on, 32 bytes each. A hash that is there already keeps its first index.

        Raises:
            IndexUnavailable: it cannot be written, or was not before: what is missing is read from the log again.
        """
        if first != self.size:
            raise IndexUnavailable("the log's index is behind", expected=self.size, found=first)
        rows = [(rh, first + offset) for offset, rh in enumerate(hashes)]
        try:
            with self._lock, self._connection:
                self._connection.executemany("INSERT OR IGNORE INTO leaves VALUES (?, ?)", rows)
                self._connection.execute("UPDATE state SET size = ?", (first + len(rows),))
        except sqlite3.Error as error:
            raise IndexUnavailable("the log's index cannot be written", found=str(error)[:80]) from error
        self.size = first + len(rows)

    def find(self, hashes: Iterable[bytes]) -> list[int | None]:
        """The index of each of ``hashes``; None for one that is not there.

        Raises:
            IndexUnavailable: it cannot be read.
        """
        try:
            with self._lock:
                rows = [
                    self._connection.execute("SELECT idx FROM leaves WHERE rh = ?", (rh,)).fetchone()
                    for rh in hashes
                ]
        except sqlite3.Error as error:
            raise IndexUnavailable("the log's index cannot be read", found=str(error)[:80]) from error
        return [None if row is None else int(row[0]) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _open(self) -> tuple[sqlite3.Connection, int]:
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")  # rebuilt from the log where it is behind
            connection.executescript(_SCHEMA)
            row = connection.execute("SELECT origin, size FROM state").fetchone()
            if row is None or row[0] != self._origin:
                connection.executescript("DELETE FROM leaves; DELETE FROM state;")
                with connection:
                    connection.execute("INSERT INTO state VALUES (?, 0)", (self._origin,))
                row = (self._origin, 0)
        except sqlite3.Error:
            connection.close()
            raise
        return connection, int(row[1])

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()
