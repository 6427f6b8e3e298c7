"""The index behind the journal: SQLite (WAL), written after the fact, rebuilt from the journal at any time.

It answers where things lie, and decides nothing. One thread owns the connection. Rows follow the commits of the
journal; :meth:`Index.caught_up` waits until all that was durable at the call is in it. A file that SQLite does
not accept is set aside and built anew from the segments.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from affiant.attestation.encoding import b64u
from affiant.gateway.entries import Entry, ObjectEntry, OpenEntry, PeerEntry, RecordEntry, decode_entry
from affiant.gateway.errors import IndexUnavailable, JournalMalformed
from affiant.gateway.journal import Note, Place, segment_path
from affiant.gateway.journal_format import scan

__all__ = ["Index", "RecordPlace"]

_T = TypeVar("_T")

_SCHEMA: Final = """
CREATE TABLE records (boot TEXT, seq INT, jti TEXT, ses TEXT, kind TEXT, segment INT, offset INT, length INT);
CREATE INDEX records_seq ON records (boot, seq);
CREATE INDEX records_jti ON records (jti);
CREATE INDEX records_ses ON records (ses, seq);
CREATE TABLE peers (ses TEXT, seq INT, segment INT, offset INT, length INT);
CREATE INDEX peers_ses ON peers (ses, seq);
CREATE TABLE objects (boot TEXT, ses TEXT, map TEXT, segment INT, offset INT, length INT);
CREATE INDEX objects_ses ON objects (ses);
CREATE TABLE opens (boot TEXT, jti TEXT, ses TEXT);
CREATE TABLE reached (segment INT, offset INT);
INSERT INTO reached VALUES (-1, 0);
PRAGMA user_version = 1;
"""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A record of the gateway's chain, and where it lies."""

    boot: str
    seq: int
    jti: str
    ses: str
    kind: str
    place: Place


_Job = tuple[Callable[[sqlite3.Connection], object], asyncio.Future[object] | None]


class Index:
    """The index of one store. Made and used in the event loop's thread.

    Args:
        folder: the journal's folder; the index lies beside it as ``index.sqlite``.
        boot: this boot's id, base64url; rows of earlier boots keep theirs.
    """

    def __init__(self, folder: Path, *, boot: str) -> None:
        self._folder = folder
        self._boot = boot
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._failure: sqlite3.Error | None = None
        self._thread = threading.Thread(target=self._run, name="affiant-index", daemon=True)
        self._thread.start()

    def on_durable(self, entries: Sequence[tuple[Note, Place]]) -> None:
        """Take the rows of one commit; called in the journal's thread."""
        self._jobs.put((lambda connection: _insert(connection, self._boot, entries), None))

    async def caught_up(self) -> None:
        """Wait until everything durable so far can be found."""
        await self._ask(lambda _: None)

    async def record(self, jti: str) -> RecordPlace | None:
        """The record with this id."""
        found = await self._records("jti = ?", (jti,))
        return found[0] if found else None

    async def session_records(self, ses: str) -> tuple[RecordPlace, ...]:
        """The gateway's own records of one session, in chain order."""
        return await self._records("ses = ? ORDER BY boot, seq", (ses,))

    async def chain(self, boot: str, first: int, last: int) -> tuple[RecordPlace, ...]:
        """Record 0 of a boot's chain and those from ``first`` to ``last``, in order."""
        return await self._records(
            "boot = ? AND (seq = 0 OR seq BETWEEN ? AND ?) ORDER BY seq", (boot, first, last)
        )

    async def peers(self, ses: str) -> tuple[Place, ...]:
        """A session's own records, in order."""
        query = "SELECT segment, offset, length FROM peers WHERE ses = ? ORDER BY seq"
        rows = await self._ask(lambda connection: connection.execute(query, (ses,)).fetchall())
        return tuple(Place(*row) for row in rows)

    async def objects(self, boot: str, ses: str) -> tuple[Place, ...]:
        """The objects of one session and those of the gateway's boot."""
        query = "SELECT segment, offset, length FROM objects WHERE boot = ? AND ses IN ('', ?)"
        rows = await self._ask(lambda connection: connection.execute(query, (boot, ses)).fetchall())
        return tuple(Place(*row) for row in rows)

    async def checkpoints(self, boot: str, first: int, last: int) -> Mapping[int, Place]:
        """Number of each epoch record from ``first`` to ``last`` that names a checkpoint -> where that lies."""
        query = (
            "SELECT records.seq, objects.segment, objects.offset, objects.length FROM records "
            "JOIN objects ON objects.ses = records.jti AND objects.boot = records.boot "
            "WHERE records.boot = ? AND records.seq BETWEEN ? AND ? AND records.kind = 'epoch' ORDER BY records.seq"
        )
        rows = await self._ask(lambda connection: connection.execute(query, (boot, first, last)).fetchall())
        return {seq: Place(*place) for seq, *place in rows}

    async def close(self) -> None:
        """Write what is queued, then end."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _records(self, where: str, arguments: tuple[object, ...]) -> tuple[RecordPlace, ...]:
        query = f"SELECT boot, seq, jti, ses, kind, segment, offset, length FROM records WHERE {where}"  # noqa: S608 - constants of this class
        rows = await self._ask(lambda connection: connection.execute(query, arguments).fetchall())
        return tuple(_record_place(*row) for row in rows)

    async def _ask(self, question: Callable[[sqlite3.Connection], _T]) -> _T:
        answer: asyncio.Future[_T] = self._loop.create_future()
        self._jobs.put((question, answer))  # type: ignore[arg-type]
        return await answer

    # -- the index's thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            connection = _open(self._folder, self._boot)
        except (sqlite3.Error, OSError) as error:
            self._failure = error if isinstance(error, sqlite3.Error) else sqlite3.Error(str(error))
        while (job := self._jobs.get()) is not None:
            self._work(connection, *job)
        if connection is not None:
            connection.close()

    def _work(
        self,
        connection: sqlite3.Connection | None,
        question: Callable[[sqlite3.Connection], object],
        answer: asyncio.Future[object] | None,
    ) -> None:
        result: object = None
        if connection is not None and self._failure is None:
            try:
                result = question(connection)
            except sqlite3.Error as error:
                self._failure = error
        if answer is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_answer, answer, result, self._failure)


def _record_place(boot: str, seq: int, jti: str, ses: str, kind: str, *at: int) -> RecordPlace:
    return RecordPlace(boot=boot, seq=seq, jti=jti, ses=ses, kind=kind, place=Place(*at))


def _answer(answer: asyncio.Future[object], result: object, failure: sqlite3.Error | None) -> None:
    if answer.done():
        return
    if failure is None:
        answer.set_result(result)
    else:
        error = IndexUnavailable("the index cannot be read", found=type(failure).__name__)
        error.__cause__ = failure
        answer.set_exception(error)


def _open(folder: Path, boot: str) -> sqlite3.Connection:
    """The index of ``folder``, brought up to all segments of earlier boots."""
    path = folder / "index.sqlite"
    try:
        return _opened(path, folder, boot)
    except sqlite3.DatabaseError:
        for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
            (folder / name).unlink(missing_ok=True)
        return _opened(path, folder, boot)


def _opened(path: Path, folder: Path, boot: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        path.chmod(0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # rebuilt from the journal, never relied on
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(_SCHEMA)
        _catch_up(connection, folder, boot)
    except BaseException:
        connection.close()
        raise
    return connection


def _catch_up(connection: sqlite3.Connection, folder: Path, boot: str) -> None:
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
                    _insert(connection, boot_of_segment, rows)


def _rows_of(folder: Path, number: int, after: int) -> Iterator[tuple[str, list[tuple[Note, Place]]]]:
    try:
        segment = scan(segment_path(folder, number).read_bytes())
    except JournalMalformed:  # set aside by recovery
        return
    ends = [*(entry.offset for entry in segment.entries), segment.size][1:]
    rows: list[tuple[Note, Place]] = []
    for entry, end in zip(segment.entries, ends, strict=True):
        if entry.offset >= after:
            with suppress(JournalMalformed):
                rows.append((decode_entry(entry.payload), Place(number, entry.offset, end - entry.offset)))
    yield b64u(segment.boot), rows


def _insert(connection: sqlite3.Connection, boot: str, entries: Iterable[tuple[Note, Place]]) -> None:
    reached: Place | None = None
    connection.execute("BEGIN")
    try:
        for entry, place in entries:
            _insert_one(connection, boot, entry, place)
            reached = place
        if reached is not None:
            connection.execute(
                "UPDATE reached SET segment = ?, offset = ?",
                (reached.segment, reached.offset + reached.length),
            )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _insert_one(connection: sqlite3.Connection, boot: str, entry: Note | Entry, place: Place) -> None:
    at = (place.segment, place.offset, place.length)
    match entry:
        case RecordEntry():
            row = (boot, entry.seq, entry.jti, entry.ses, entry.kind, *at)
            connection.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("DELETE FROM opens WHERE jti = ?", (entry.jti,))
        case PeerEntry():
            connection.execute("INSERT INTO peers VALUES (?, ?, ?, ?, ?)", (entry.ses, entry.seq, *at))
        case ObjectEntry():
            connection.execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?)", (boot, entry.ses, entry.map, *at)
            )
        case OpenEntry():
            connection.execute("INSERT INTO opens VALUES (?, ?, ?)", (boot, entry.jti, entry.ses))
        case _:
            pass
