"""Stores what a monitor has verified, in SQLite: the newest checkpoint, one small row for each chain, the
contradictions.

A round is one transaction: what it has read is kept whole once all of it is verified, or not at all. Chains stay for
good, so that an id which is used again is noticed; only those that a round touches are in memory, a bounded number.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from affiant.attestation.log.monitor.errors import MonitorBusy
from affiant.attestation.log.monitor.findings import Finding
from affiant.attestation.log.monitor.signer_chains import Chain
from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed
from affiant.attestation.tlog.note import Note, parse_note
from affiant.errors import ConfigurationError, StateError
from affiant.folders import make_private

__all__ = ["MonitorState", "open_monitor_state"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS seen (
    one INTEGER PRIMARY KEY CHECK (one = 1), note BLOB NOT NULL, newest INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS chains (
    chn BLOB PRIMARY KEY, seq INTEGER NOT NULL, leaf INTEGER NOT NULL, iat INTEGER NOT NULL, epoch INTEGER NOT NULL,
    ended INTEGER NOT NULL, late INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_chains ON chains (iat) WHERE ended = 0;
CREATE TABLE IF NOT EXISTS contradictions (
    id TEXT PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL, seen INTEGER NOT NULL
) STRICT;
"""
_HOT: Final = 8192
"""Chains in memory: about 3 MiB."""
_MAX_CONTRADICTIONS: Final = 10_000
_BUSY_S: Final = 2.0


@contextmanager
def open_monitor_state(folder: Path) -> Iterator[MonitorState]:
    """The state in ``folder``, made where it is missing.

    Raises:
        ``monitor.settings``: the folder cannot be made.
        ``monitor.state``: what is there is no monitor's state.
    """
    try:
        make_private(folder)
        path = folder / "monitor.sqlite"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise ConfigurationError(
            "the state's folder cannot be used",
            where=str(folder),
            found=error.strerror,
            code="monitor.settings",
        ) from error
    with _sqlite_errors(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_S
        )
    try:
        with _sqlite_errors(path):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_SCHEMA)
        yield MonitorState(connection, path)
    finally:
        connection.close()


class MonitorState:
    """An open state. Made by :func:`open_monitor_state`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._hot: dict[bytes, Chain] = {}

    @contextmanager
    def round(self) -> Iterator[None]:
        """One round: kept if the block ends, and undone as a whole if it raises.

        Raises:
            MonitorBusy: another monitor is in a round.
        """
        with self._undone("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"):
            yield

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Chains that are taken back if the block raises, within a round that goes on."""
        with self._undone("SAVEPOINT attempt", "RELEASE attempt", "ROLLBACK TO attempt; RELEASE attempt"):
            yield

    @contextmanager
    def _undone(self, begin: str, keep: str, undo: str) -> Iterator[None]:
        with _sqlite_errors(self._path):
            self._flush()
            self._connection.execute(begin)
        try:
            yield
            with _sqlite_errors(self._path):
                self._flush()
                self._connection.execute(keep)
        except BaseException:
            self._hot.clear()
            for statement in undo.split("; "):
                self._connection.execute(statement)
            raise

    def seen(self) -> tuple[Note, int | None] | None:
        """The newest verified checkpoint, and its time.

        Raises:
            ``monitor.state``: the file is none.
        """
        with _sqlite_errors(self._path):
            row = self._connection.execute("SELECT note, newest FROM seen").fetchone()
        if row is None:
            return None
        try:
            return parse_note(row[0]), row[1]
        except (NoteMalformed, CheckpointMalformed) as error:
            raise StateError(
                "the stored checkpoint is none", where=str(self._path), code="monitor.state"
            ) from error

    def remember(self, note: Note, newest: int | None) -> None:
        """``note`` is the newest verified checkpoint now."""
        with _sqlite_errors(self._path):
            self._connection.execute(
                "INSERT OR REPLACE INTO seen VALUES (1, ?, ?)", (note.to_bytes(), newest)
            )

    def chain(self, chn: bytes) -> Chain | None:
        """What is known of the chain ``chn``."""
        if (hot := self._hot.get(chn)) is not None:
            return hot
        with _sqlite_errors(self._path):
            row = self._connection.execute(
                "SELECT seq, leaf, iat, epoch, ended, late FROM chains WHERE chn = ?", (chn,)
            ).fetchone()
        return None if row is None else _chain(row)

    def keep(self, chn: bytes, chain: Chain) -> None:
        """``chain`` is what is known now."""
        if len(self._hot) >= _HOT and chn not in self._hot:
            with _sqlite_errors(self._path):
                self._flush()
        self._hot[chn] = chain

    def newly_silent(self, before: int, limit: int) -> list[tuple[bytes, Chain]]:
        """Open chains whose last record is older than ``before``, each reported once; at most ``limit``."""
        with _sqlite_errors(self._path):
            self._flush()
            rows = self._connection.execute(
                "SELECT seq, leaf, iat, epoch, ended, 1, chn FROM chains "
                "WHERE ended = 0 AND late = 0 AND iat < ? ORDER BY iat LIMIT ?",
                (before, limit),
            ).fetchall()
            self._connection.executemany(
                "UPDATE chains SET late = 1 WHERE chn = ?", [row[-1:] for row in rows]
            )
        return [(row[-1], _chain(row)) for row in rows]

    def counts(self) -> tuple[int, int]:
        """Chains that are open, and that have ended."""
        with _sqlite_errors(self._path):
            self._flush()
            row = self._connection.execute("SELECT count(*), coalesce(sum(ended), 0) FROM chains").fetchone()
        return row[0] - row[1], row[1]

    def open_tails(self, limit: int) -> list[tuple[bytes, int, int]]:
        """Id, last place and last time of open chains, the latest first."""
        with _sqlite_errors(self._path):
            self._flush()
            return self._connection.execute(
                "SELECT chn, seq, iat FROM chains WHERE ended = 0 ORDER BY iat DESC LIMIT ?", (limit,)
            ).fetchall()

    def record(self, finding: Finding, now: int) -> None:
        """Keep a contradiction for good."""
        with _sqlite_errors(self._path):
            self._connection.execute(
                "INSERT OR IGNORE INTO contradictions SELECT ?, ?, ?, ? "
                "WHERE (SELECT count(*) FROM contradictions) < ?",
                (finding.identity, finding.code, finding.message, now, _MAX_CONTRADICTIONS),
            )

    def contradictions(self) -> int:
        """How many are kept."""
        with _sqlite_errors(self._path):
            return int(self._connection.execute("SELECT count(*) FROM contradictions").fetchone()[0])

    def _flush(self) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO chains VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (chn, each.seq, each.index, each.iat, each.epoch, int(each.ended), int(each.late))
                for chn, each in self._hot.items()
            ],
        )
        self._hot.clear()


def _chain(row: Sequence[int]) -> Chain:
    seq, index, iat, epoch, ended, late = row[:6]
    return Chain(seq, index, iat, epoch, bool(ended), bool(late))


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise MonitorBusy("another monitor works with this state", where=str(path)) from error
        raise StateError(
            "the state cannot be read or written",
            where=str(path),
            found=str(error)[:200],
            code="monitor.state",
        ) from error
