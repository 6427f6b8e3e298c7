"""The store: SQLite in one file. A bundle is one transaction; what was killed is not half there.

It is a cache of what verification found, and as trustworthy as those who can write to it: before a decision, verify the
bundle that it names again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Final
from urllib.parse import quote

from affiant.attestation.audit.receipts.errors import SettingsInvalid, StoreBusy
from affiant.attestation.audit.receipts.rows import PartyRow, Rows
from affiant.errors import StateError

__all__ = ["ReceiptStore", "open_store"]

_APPLICATION: Final = 0x41665253
"""``AfRS``: what is no store of ours is not written to."""
_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE bundles (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL, trust TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL,
    build TEXT NOT NULL, tier TEXT NOT NULL, level TEXT, simulated INTEGER NOT NULL, exit_code INTEGER NOT NULL,
    refused TEXT NOT NULL, receipts INTEGER NOT NULL, UNIQUE (digest, trust)
) STRICT;
CREATE TABLE parties (
    id INTEGER PRIMARY KEY, bundle INTEGER NOT NULL REFERENCES bundles, role TEXT NOT NULL, kid TEXT NOT NULL,
    keyset TEXT, evidence TEXT NOT NULL, refusal TEXT, tcb_status TEXT, mrseam TEXT, mrtd TEXT, fmspc TEXT, ppid TEXT
) STRICT;
CREATE TABLE advisories (
    advisory TEXT NOT NULL, party INTEGER NOT NULL REFERENCES parties, PRIMARY KEY (advisory, party)
) STRICT, WITHOUT ROWID;
CREATE INDEX advisories_of ON advisories (party);
CREATE TABLE receipts (
    id INTEGER PRIMARY KEY, bundle INTEGER NOT NULL REFERENCES bundles, receipt TEXT NOT NULL, rh TEXT NOT NULL,
    kind TEXT NOT NULL, role TEXT NOT NULL, at INTEGER NOT NULL, session TEXT, profile TEXT, profile_id TEXT,
    model TEXT, gateway INTEGER REFERENCES parties, session_party INTEGER REFERENCES parties
) STRICT;
CREATE INDEX receipts_gateway ON receipts (gateway);
CREATE INDEX receipts_session_party ON receipts (session_party);
CREATE INDEX receipts_session ON receipts (session);
CREATE INDEX receipts_profile ON receipts (profile);
CREATE INDEX receipts_model ON receipts (model);
CREATE INDEX receipts_at ON receipts (at);
"""
_BUSY_S: Final = 5.0


class ReceiptStore:
    """An open store. Made by :func:`open_store`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def has(self, digest: str, trust: str) -> bool:
        """Whether this bundle was indexed under this trust file."""
        return bool(self.read("SELECT 1 FROM bundles WHERE digest = ? AND trust = ?", (digest, trust)))

    def add(self, rows: Rows) -> bool:
        """Keep one bundle, durable before the return; False: it was there, and stays as it was.

        Raises:
            StoreBusy: another process writes.
        """
        with _sqlite_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            with _sqlite_errors(self._path):
                added = self._add(rows)
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return added

    def read(self, query: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """All rows of a query."""
        with _sqlite_errors(self._path):
            return self._connection.execute(query, values).fetchall()

    def stream(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[object, ...]]:
        """The same, one after the other."""
        with _sqlite_errors(self._path):
            yield from self._connection.execute(query, values)

    def _add(self, rows: Rows) -> bool:
        cursor = self._insert("bundles", (*astuple(rows.bundle), len(rows.receipts)), verb="INSERT OR IGNORE")
        if not cursor.rowcount:
            return False
        bundle = cursor.lastrowid
        numbers = {party.kid: self._add_party(bundle, party) for party in rows.parties}
        for row in rows.receipts:
            *own, gateway, session = astuple(row)
            self._insert("receipts", (bundle, *own, numbers.get(gateway), numbers.get(session)))
        return True

    def _add_party(self, bundle: int | None, party: PartyRow) -> int | None:
        facts = party.facts
        signer = (bundle, party.role, party.kid, party.keyset, facts.state, facts.refusal)
        platform = (facts.tcb_status, facts.mrseam, facts.mrtd, facts.fmspc, facts.ppid)
        number = self._insert("parties", (*signer, *platform)).lastrowid
        self._connection.executemany(
            "INSERT INTO advisories VALUES (?, ?)", ((name, number) for name in sorted(facts.advisories))
        )
        return number

    def _insert(self, table: str, values: Sequence[object], *, verb: str = "INSERT") -> sqlite3.Cursor:
        """One row after its id, its columns as the schema has them."""
        return self._connection.execute(f"{verb} INTO {table} VALUES (NULL{', ?' * len(values)})", values)


@contextmanager
def open_store(path: Path, *, make: bool) -> Iterator[ReceiptStore]:
    """The store in ``path``.

    Args:
        make: make it where there is none, readable by its owner alone; else that is an error.

    Raises:
        SettingsInvalid: there is none, or it cannot be made.
        ``receipt_store.unusable``: the file is no store of this version.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError as error:
        raise SettingsInvalid(
            "the store cannot be opened",
            where=str(path),
            found=error.strerror,
            hint=None if make else "`affiant receipts index` makes one.",
        ) from error
    with _sqlite_errors(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_S
        )
    try:
        with _sqlite_errors(path):
            _require_ours(connection, path, make=make)
        yield ReceiptStore(connection, path)
    finally:
        connection.close()


def _require_ours(connection: sqlite3.Connection, path: Path, *, make: bool) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE" if make else "BEGIN")
    try:
        found = tuple(
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if make and found == (0, 0) and not tables:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif found != (_APPLICATION, _VERSION):
            raise StateError(
                "no store of this version",
                where=str(path),
                expected=f"version {_VERSION}",
                found=found[1],
                code="receipt_store.unusable",
            )
    finally:
        connection.execute("COMMIT")


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreBusy("another process writes into the store", where=str(path)) from error
        raise StateError(
            "the store cannot be read or written",
            where=str(path),
            found=str(error)[:200],
            code="receipt_store.unusable",
        ) from error
