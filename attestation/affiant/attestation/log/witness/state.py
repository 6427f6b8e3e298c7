"""Stores what a witness has seen, in SQLite: one row for each log, compared and replaced in one transaction before
anything is signed.

The file is made once, with the key, and never again: a witness that starts empty would cosign a second history for a
log that it knows. So nothing here makes a file but :func:`create_state`, and a database is opened only under the id
that its key names. Readers of ``status`` and a second process may open it beside the server.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from affiant.attestation.log.witness.errors import (
    WitnessStateUnavailable,
)
from affiant.attestation.log.witness.protocol import Accepted, Refused, Stored
from affiant.errors import StateError
from affiant.files import sync_folder

__all__ = ["WitnessState", "create_state", "open_state"]

_SCHEMA: Final = """
CREATE TABLE witness (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL) STRICT;
CREATE TABLE latest (
    origin TEXT PRIMARY KEY,
    size INTEGER NOT NULL CHECK (size >= 0),
    root BLOB NOT NULL CHECK (length(root) = 32),
    note BLOB NOT NULL,
    seconds INTEGER NOT NULL,
    cosigned BLOB,
    cosigned_size INTEGER NOT NULL DEFAULT -1
) STRICT;
-- Whatever writes to this file: a log's tree only grows, and a size has one root.
CREATE TRIGGER only_forward BEFORE UPDATE ON latest
WHEN new.size < old.size OR (new.size = old.size AND new.root <> old.root) OR new.origin <> old.origin
BEGIN SELECT RAISE(ABORT, 'a step back'); END;
CREATE TRIGGER never_forgotten BEFORE DELETE ON latest
BEGIN SELECT RAISE(ABORT, 'a step back'); END;
"""
_UPSERT: Final = """
INSERT INTO latest (origin, size, root, note, seconds) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (origin) DO UPDATE
SET size = excluded.size, root = excluded.root, note = excluded.note, seconds = excluded.seconds
"""
_BUSY_S: Final = 10.0
_RETIRED: Final = (
    "A witness whose state is lost, or was restored from a copy, is retired: make another with `affiant witness init`, "
    "under another name, and inform those who name it in their policies."
)


def create_state(path: Path, identity: str) -> None:
    """Make the empty database of a new witness.

    Raises:
        ``witness.exists``: a file is there.
        WitnessStateUnavailable, OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise StateError(
            "the database exists already",
            where=str(path),
            hint="Nothing is overwritten: name another.",
            code="witness.exists",
        ) from error
    with _sqlite_errors(path), closing(_connect(path)) as connection:
        connection.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
        connection.execute("INSERT INTO witness VALUES (1, ?)", (identity,))
    sync_folder(path.parent)


@contextmanager
def open_state(path: Path, identity: str) -> Iterator[WitnessState]:
    """The database of the witness ``identity``.

    Raises:
        ``witness.state_lost``: it is missing, empty, or another's.
        WitnessStateUnavailable: it is damaged, or cannot be opened.
    """
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError as error:
        raise StateError(
            "the witness's database is missing", where=str(path), hint=_RETIRED, code="witness.state_lost"
        ) from error
    except OSError as error:
        raise WitnessStateUnavailable(
            "the database cannot be opened", where=str(path), found=error.strerror
        ) from error
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
        raise WitnessStateUnavailable(
            "other users can reach the database", where=str(path), expected="a regular file of mode 0600"
        )
    with _sqlite_errors(path):
        connection = _connect(path)
    try:
        with _sqlite_errors(path):
            found = _identity(connection, path)
        if found != identity:
            raise StateError(
                "the database is another witness's",
                where=str(path),
                expected=identity,
                found=found,
                hint=_RETIRED,
                code="witness.state_lost",
            )
        yield WitnessState(connection, path)
    finally:
        connection.close()


class WitnessState:
    """An open database. Made by :func:`open_state`; may be used from several threads."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()

    def advance(self, origin: str, step: Callable[[Stored | None], Accepted | Refused]) -> Accepted | Refused:
        """Take ``step`` from what is stored, and store what it gives, as one; durable before the return.

        Raises:
            WitnessStateUnavailable: it cannot be stored; nothing may be signed.
        """
        with self._lock, _sqlite_errors(self._path), self._transaction():
            outcome = step(self._stored(origin))
            if isinstance(outcome, Accepted):
                new = outcome.stored
                self._connection.execute(_UPSERT, (origin, new.size, new.root, new.note, new.seconds))
            return outcome

    def publish(self, origin: str, size: int, cosigned: bytes) -> None:
        """Keep the cosigned note for monitors, unless that of a larger tree is there."""
        with self._lock, _sqlite_errors(self._path):
            self._connection.execute(
                "UPDATE latest SET cosigned = ?, cosigned_size = ? WHERE origin = ? AND cosigned_size <= ?",
                (cosigned, size, origin, size),
            )

    def stored(self, origin: str) -> Stored | None:
        """The latest tree of one log."""
        with self._lock, _sqlite_errors(self._path):
            return self._stored(origin)

    def cosigned(self, origin: str) -> bytes | None:
        """The note of the largest tree whose cosignatures were made, with them."""
        with self._lock, _sqlite_errors(self._path):
            row = self._connection.execute(
                "SELECT cosigned FROM latest WHERE origin = ?", (origin,)
            ).fetchone()
        return None if row is None else row[0]

    def all(self) -> tuple[Stored, ...]:
        """Every log's, by origin."""
        with self._lock, _sqlite_errors(self._path):
            rows = self._connection.execute(
                "SELECT origin, size, root, note, seconds FROM latest ORDER BY origin"
            ).fetchall()
        return tuple(Stored(*row) for row in rows)

    def _stored(self, origin: str) -> Stored | None:
        row = self._connection.execute(
            "SELECT origin, size, root, note, seconds FROM latest WHERE origin = ?", (origin,)
        ).fetchone()
        return None if row is None else Stored(*row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """IMMEDIATE takes the write lock before anything is read: no other process reads what this replaces."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file that is there; none is made. Every commit reaches the disk before it returns."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_S,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _identity(connection: sqlite3.Connection, path: Path) -> str:
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise WitnessStateUnavailable("the database is damaged", where=str(path), found=damage, hint=_RETIRED)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name IN ('witness', 'latest')")
    row = connection.execute("SELECT id FROM witness").fetchone() if tables.fetchone()[0] == 2 else None
    if row is None:
        raise StateError("the database is empty", where=str(path), hint=_RETIRED, code="witness.state_lost")
    return str(row[0])


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise WitnessStateUnavailable(
            "the database cannot be read or written", where=str(path), found=str(error)[:200]
        ) from error
