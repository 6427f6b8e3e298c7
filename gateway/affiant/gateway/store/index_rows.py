"""What the index holds of the journal: its tables, and the rows that follow from each entry.

Rows name places, numbers, ids and hashes. Nothing of a record's content is here, and the rows of an erased entry
are removed with it, as they are missing from an index that is built anew.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import MAX_INTEGER, parse_object
from affiant.attestation.encoding.jws import MAX_PAYLOAD
from affiant.errors import AffiantError
from affiant.gateway.store.entries import (
    Entry,
    ErasedEntry,
    ObjectEntry,
    OpeningEntry,
    PeerEntry,
    RecordEntry,
    decode_entry,
)
from affiant.gateway.store.journal import Note, Place, segment_path
from affiant.gateway.store.journal_format import scan
from affiant.gateway.store.leaves import Logged, leaf_of
from affiant.gateway.wire.errors import JournalMalformed

__all__ = ["SCHEMA", "VERSION", "catch_up", "forget", "insert", "remove"]

_Row = tuple[str | int, ...]

VERSION: Final = 3
"""``user_version`` in the schema."""
SCHEMA: Final = """
CREATE TABLE records
    (boot TEXT, seq INT, jti TEXT, ses TEXT, kind TEXT, chn TEXT, rh TEXT, segment INT, offset INT, length INT);
CREATE INDEX records_seq ON records (boot, seq);
CREATE INDEX records_jti ON records (jti);
CREATE INDEX records_ses ON records (ses, seq);
CREATE INDEX records_chn ON records (chn, seq);
CREATE INDEX records_kind ON records (kind);
CREATE TABLE peers (boot TEXT, ses TEXT, seq INT, chn TEXT, rh TEXT, segment INT, offset INT, length INT);
CREATE INDEX peers_ses ON peers (ses, seq);
CREATE INDEX peers_chn ON peers (chn, seq);
CREATE TABLE openings (ses TEXT, rh TEXT, segment INT, offset INT, length INT);
CREATE INDEX openings_ses ON openings (ses);
CREATE INDEX openings_rh ON openings (rh);
CREATE TABLE ordered (jti TEXT, chn TEXT, seq INT);
CREATE INDEX ordered_chn ON ordered (chn, seq);
CREATE TABLE held (jti TEXT, tgt TEXT);
CREATE INDEX held_tgt ON held (tgt);
CREATE TABLE carried_out (jti TEXT);
CREATE TABLE objects (boot TEXT, ses TEXT, map TEXT, segment INT, offset INT, length INT);
CREATE INDEX objects_ses ON objects (ses);
CREATE TABLE reached (segment INT, offset INT);
INSERT INTO reached VALUES (-1, 0);
PRAGMA user_version = 3;
"""

_ROWS_AT_ONCE: Final = 64
"""Rows of one statement: SQLite lets other threads of Python run once for each, not once for each row."""
_PLACED: Final = ("records", "peers", "openings", "objects")


def catch_up(connection: sqlite3.Connection, folder: Path, boot: str) -> None:
    """Insert what the segments of earlier boots hold beyond what was reached."""
    segment_number, offset = connection.execute("SELECT segment, offset FROM reached").fetchone()
    numbers = sorted(int(path.stem) for path in folder.glob("[0-9]" * 8 + ".seg"))
    if segment_number >= 0 and (
        segment_number not in numbers or segment_path(folder, segment_number).stat().st_size < offset
    ):
        raise sqlite3.DatabaseError("the index is ahead of the journal")
    for number in numbers:
        if number >= segment_number:
            after = offset if number == segment_number else 0
            for boot_of_segment, rows in _rows_of(folder, number, after):
                if boot_of_segment != boot:
                    insert(connection, boot_of_segment, rows)


def _rows_of(folder: Path, number: int, after: int) -> Iterator[tuple[str, list[tuple[Note, Place]]]]:
    try:
        segment = scan(segment_path(folder, number).read_bytes())
    except JournalMalformed:  # set aside by recovery
        return
    rows: list[tuple[Note, Place]] = []
    for entry in segment.entries:
        if entry.offset >= after:
            with suppress(JournalMalformed):
                rows.append((decode_entry(entry.payload), Place(number, entry.offset, entry.size)))
    yield b64u(segment.boot), rows


def insert(connection: sqlite3.Connection, boot: str, entries: Iterable[tuple[Note, Place]]) -> None:
    """Insert the rows of ``entries``, all or none."""
    reached: Place | None = None
    rows: dict[str, list[_Row]] = defaultdict(list)
    for entry, place in entries:
        for table, row in _rows_for(boot, entry, place):
            rows[table].append(row)
        reached = place
    connection.execute("BEGIN")
    try:
        for table, found in rows.items():
            _insert_rows(connection, table, found)
        if reached is not None:
            connection.execute(
                "UPDATE reached SET segment = ?, offset = ?",
                (reached.segment, reached.offset + reached.length),
            )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _insert_rows(connection: sqlite3.Connection, table: str, rows: Sequence[_Row]) -> None:
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[first : first + _ROWS_AT_ONCE]
        places = ", ".join([f"({', '.join('?' * len(part[0]))})"] * len(part))
        connection.execute(f"INSERT INTO {table} VALUES {places}", [*chain.from_iterable(part)])  # noqa: S608 - a constant


def _rows_for(boot: str, note: Note | Entry, place: Place) -> Iterator[tuple[str, _Row]]:
    at = (place.segment, place.offset, place.length)
    match note:
        case Logged(entry, leaf):
            yield from _record_rows(boot, entry, (b64u(leaf.chn), b64u(leaf.rh)), at)
        case RecordEntry() | PeerEntry():
            yield from _record_rows(boot, note, _named(note.jws), at)
        case OpeningEntry():
            yield "openings", (note.ses, note.rh, *at)
        case ErasedEntry():
            yield "carried_out", (note.jti,)
        case ObjectEntry():
            yield "objects", (boot, note.ses, note.map, *at)
        case _:
            pass


def _record_rows(
    boot: str, entry: RecordEntry | PeerEntry, named: tuple[str, str], at: tuple[int, int, int]
) -> Iterator[tuple[str, _Row]]:
    """Args: named: its chain and hash. at: where it lies."""
    if isinstance(entry, PeerEntry):
        yield "peers", (boot, entry.ses, entry.seq, *named, *at)
        return
    yield "records", (boot, entry.seq, entry.jti, entry.ses, entry.kind, *named, *at)
    yield from _order_rows(entry)


def remove(connection: sqlite3.Connection, places: Iterable[Place]) -> None:
    """Remove the rows of erased entries, from the pages and the write-ahead log too."""
    connection.execute("BEGIN")
    for place in places:
        for table in _PLACED:
            query = f"DELETE FROM {table} WHERE segment = ? AND offset = ?"  # noqa: S608 - constants of this file
            connection.execute(query, (place.segment, place.offset))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def forget(connection: sqlite3.Connection, boot: str, segments: Iterable[int]) -> None:
    """Remove every row of a boot whose segments are deleted, from the pages and the write-ahead log too."""
    connection.execute("BEGIN")
    named = (boot,)
    for table in ("ordered", "held", "carried_out"):
        query = f"DELETE FROM {table} WHERE jti IN (SELECT jti FROM records WHERE boot = ?)"  # noqa: S608 - constants
        connection.execute(query, named)
    for table in ("records", "peers", "objects"):
        connection.execute(f"DELETE FROM {table} WHERE boot = ?", named)  # noqa: S608 - constants
    connection.executemany("DELETE FROM openings WHERE segment = ?", ((number,) for number in segments))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _named(jws: str) -> tuple[str, str]:
    """Chain and hash of a record; empty where a store holds something else."""
    try:
        leaf = leaf_of(jws)
    except (AffiantError, msgspec.MsgspecError, ValueError, LookupError):
        return "", ""
    return b64u(leaf.chn), b64u(leaf.rh)


def _order_rows(entry: RecordEntry) -> Iterator[tuple[str, _Row]]:
    if entry.kind not in ("erasure", "hold"):
        return
    payload = _payload(entry.jws)
    if entry.kind == "hold":
        yield "held", (entry.jti, _ascii(payload.get("tgt")))
        return
    items = payload.get("del")
    for item in items if isinstance(items, list) else ():
        seq = item.get("seq") if isinstance(item, Mapping) else None
        if isinstance(seq, int) and 0 <= seq <= MAX_INTEGER:
            yield "ordered", (entry.jti, _ascii(item.get("chn")), seq)


def _ascii(value: object) -> str:
    """Text that SQLite takes, whatever a store holds."""
    return value if isinstance(value, str) and value.isascii() else ""


def _payload(jws: str) -> Mapping[str, object]:
    """The claims of a record of ours; none where a store holds something else."""
    try:
        return parse_object(from_b64u(jws.split(".", 2)[1]), limit=MAX_PAYLOAD)
    except (AffiantError, LookupError):
        return {}
