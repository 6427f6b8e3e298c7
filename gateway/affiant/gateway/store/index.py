"""The index behind the journal: SQLite (WAL), written after the fact, rebuilt from the journal at any time.

It answers where things lie, and decides nothing. One thread owns the connection. Rows follow the commits of the
journal, gathered for up to half a second; whatever is asked, all that was durable at the call is written first. What a
crash leaves unwritten is read from the segments at the next start. A file that SQLite does not accept is set aside and
built anew from them.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, TypeVar

from affiant.gateway.store.index_rows import SCHEMA, VERSION, catch_up, forget, insert, remove
from affiant.gateway.store.journal import Note, Place
from affiant.gateway.wire.errors import IndexUnavailable

__all__ = ["Extent", "Index", "PeerPlace", "RecordPlace", "WholeChain"]

_T = TypeVar("_T")
_BEHIND_S: Final = 0.5
"""Seconds for which rows are gathered while nothing is asked."""
_MOST_BEHIND: Final = 1024
"""Entries that are kept for it."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A record of the gateway's chain, and where it lies."""

    boot: str
    seq: int
    jti: str
    ses: str
    kind: str
    chn: str
    rh: str
    place: Place


@dataclass(frozen=True, slots=True)
class PeerPlace:
    """A record of a session's chain, and where it lies."""

    boot: str
    """Of the gateway that took it."""
    ses: str
    seq: int
    chn: str
    rh: str
    place: Place


@dataclass(frozen=True, slots=True)
class WholeChain:
    """One chain: the boot that wrote or took it, its session if it is one's, its last record that is here."""

    boot: str
    ses: str
    seq: int
    rh: str


@dataclass(frozen=True, slots=True)
class Extent:
    """What a session's bundle takes of the journal: how many records, and the bytes of all entries."""

    records: int
    size: int


_Job = tuple[Callable[[sqlite3.Connection], object], asyncio.Future[object]]


class _Turn(Enum):
    """What the thread is woken for beside questions."""

    WRITE = auto()
    END = auto()


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
        self._jobs: queue.SimpleQueue[_Job | _Turn] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._behind: list[tuple[Note, Place]] = []
        self._failure: sqlite3.Error | None = None
        self._thread = threading.Thread(target=self._run, name="affiant-index", daemon=True)
        self._thread.start()

    @property
    def boot(self) -> str:
        """The boot that runs, base64url."""
        return self._boot

    def on_durable(self, entries: Sequence[tuple[Note, Place]]) -> None:
        """Take the rows of one commit; called in the journal's thread."""
        with self._lock:
            before = len(self._behind)
            self._behind += entries
            count = len(self._behind)
        if not before or before < _MOST_BEHIND <= count:
            self._jobs.put(_Turn.WRITE)

    async def caught_up(self) -> None:
        """Wait until everything durable so far can be found."""
        await self._ask(lambda _: None)

    async def record(self, jti: str) -> RecordPlace | None:
        """The record with this id."""
        found = await self._records("jti = ?", (jti,))
        return found[0] if found else None

    async def session_ends(self, ses: str) -> tuple[RecordPlace, ...]:
        """The gateway's records of the start of a session and, once it has ended, of its close, in chain order."""
        return await self._records(
            "ses = ? AND kind IN ('session-start', 'session-close') ORDER BY boot, seq", (ses,)
        )

    async def extent(self, boot: str, ses: str, first: int, last: int) -> Extent:
        """Of a session's own records, its openings and objects, and of record 0 and those from ``first`` to ``last`` of
        a boot's chain with the checkpoints that they name."""
        query = (
            "SELECT count(*), sum(length) FROM records WHERE boot = ?1 AND (seq = 0 OR seq BETWEEN ?3 AND ?4) "
            "UNION ALL SELECT count(*), sum(length) FROM peers WHERE ses = ?2 "
            "UNION ALL SELECT 0, sum(length) FROM openings WHERE ses = ?2 "
            "UNION ALL SELECT 0, sum(length) FROM objects WHERE boot = ?1 AND ses IN ('', ?2) "
            "UNION ALL SELECT 0, sum(objects.length) FROM records "
            "JOIN objects ON objects.ses = records.jti AND objects.boot = records.boot "
            "WHERE records.boot = ?1 AND records.seq BETWEEN ?3 AND ?4 AND records.kind = 'epoch'"
        )
        arguments = (boot, ses, first, last)
        rows = await self._ask(lambda connection: connection.execute(query, arguments).fetchall())
        return Extent(sum(count for count, _ in rows), sum(size or 0 for _, size in rows))

    async def chain(self, boot: str, first: int, last: int) -> tuple[RecordPlace, ...]:
        """Record 0 of a boot's chain and those from ``first`` to ``last``, in order."""
        return await self._records(
            "boot = ? AND (seq = 0 OR seq BETWEEN ? AND ?) ORDER BY seq", (boot, first, last)
        )

    async def peers(self, ses: str) -> tuple[PeerPlace, ...]:
        """A session's own records, in order."""
        return await self._peers("ses = ? ORDER BY seq", (ses,))

    async def record_at(self, chn: str, seq: int) -> RecordPlace | PeerPlace | None:
        """The record of this number in a gateway's or a session's chain."""
        own = await self._records("chn = ? AND seq = ?", (chn, seq))
        found = own or await self._peers("chn = ? AND seq = ?", (chn, seq))
        return found[0] if found else None

    async def whole_chain(self, chn: str) -> WholeChain | None:
        """A chain as far as it is here; None: nothing of it is."""
        own = await self._records("chn = ? ORDER BY seq DESC LIMIT 1", (chn,))
        if own:
            return WholeChain(own[0].boot, "", own[0].seq, own[0].rh)
        peers = await self._peers("chn = ? ORDER BY seq DESC LIMIT 1", (chn,))
        return WholeChain(peers[0].boot, peers[0].ses, peers[0].seq, peers[0].rh) if peers else None

    async def chains_of(self, boot: str) -> Mapping[str, int]:
        """The chains of a boot, its own and its sessions' -> the number of the last record that is here."""
        query = (
            "SELECT chn, max(seq) FROM records WHERE boot = ?1 GROUP BY chn "
            "UNION ALL SELECT chn, max(seq) FROM peers WHERE boot = ?1 GROUP BY chn"
        )
        return dict(await self._ask(lambda connection: connection.execute(query, (boot,)).fetchall()))

    async def reaches(self, boot: str, ses: str, target: str) -> bool:
        """Whether a session or record (id, receipt hash) is of a boot; of its session ``ses``, if one is named."""
        where = "boot = ? AND ? IN ('', ses) AND ? IN (ses, rh) LIMIT 1"
        arguments = (boot, ses, target)
        return bool(await self._records(where, arguments) or await self._peers(where, arguments))

    async def has_orders(self, boot: str) -> bool:
        """Whether a boot's chain holds erasures or holds."""
        return bool(await self._records("boot = ? AND kind IN ('erasure', 'hold') LIMIT 1", (boot,)))

    async def beside_orders(self, boot: str, segments: Sequence[int]) -> tuple[Place, ...]:
        """Everything of a boot but its orders and what introduces them: its boot record and its own objects."""
        at = "SELECT segment, offset, length FROM"
        of_boot = (
            f"{at} records WHERE boot = ?1 AND kind NOT IN ('boot', 'erasure', 'hold') "
            f"UNION ALL {at} peers WHERE boot = ?1 "
            f"UNION ALL {at} objects WHERE boot = ?1 AND ses != ''"
        )
        rows = await self._ask(lambda connection: connection.execute(of_boot, (boot,)).fetchall())
        return tuple(Place(*row) for row in rows) + await self._openings_in(segments)

    async def _openings_in(self, segments: Sequence[int]) -> tuple[Place, ...]:
        query = "SELECT segment, offset, length FROM openings WHERE segment BETWEEN ? AND ?"
        between = (min(segments), max(segments)) if segments else (0, -1)
        rows = await self._ask(lambda connection: connection.execute(query, between).fetchall())
        return tuple(place for row in rows if (place := Place(*row)).segment in segments)

    async def forget(self, boot: str, segments: Sequence[int]) -> None:
        """Remove every row of a boot whose segments are deleted."""
        await self._ask(lambda connection: forget(connection, boot, segments))

    async def orders(self) -> tuple[RecordPlace, ...]:
        """Every erasure and hold, in the order of the journal."""
        return await self._records("kind IN ('erasure', 'hold') ORDER BY segment, offset", ())

    async def gaps(self) -> tuple[RecordPlace, ...]:
        """Every disclosure of a chain that was not ended, in the order of the journal."""
        return await self._records("kind = 'gap' ORDER BY segment, offset", ())

    async def pending_orders(self) -> tuple[str, ...]:
        """Ids of erasures that no entry says were carried out."""
        query = "SELECT jti FROM records WHERE kind = 'erasure' AND jti NOT IN (SELECT jti FROM carried_out)"
        rows = await self._ask(lambda connection: connection.execute(query).fetchall())
        return tuple(jti for (jti,) in rows)

    async def ordered_in(self, chn: str, first: int, last: int) -> frozenset[str]:
        """Ids of the erasures that name records of a chain from ``first`` to ``last``."""
        query = "SELECT DISTINCT jti FROM ordered WHERE chn = ? AND seq BETWEEN ? AND ?"
        rows = await self._ask(lambda connection: connection.execute(query, (chn, first, last)).fetchall())
        return frozenset(jti for (jti,) in rows)

    async def held(self) -> Sequence[tuple[str, str]]:
        """Id and target of every hold, and of every end of one."""
        rows = await self._ask(lambda connection: connection.execute("SELECT jti, tgt FROM held").fetchall())
        return tuple((jti, tgt) for jti, tgt in rows)

    async def opening_of(self, rh: str) -> tuple[Place, ...]:
        """The sealed opening of one record."""
        query = "SELECT segment, offset, length FROM openings WHERE rh = ?"
        rows = await self._ask(lambda connection: connection.execute(query, (rh,)).fetchall())
        return tuple(Place(*row) for row in rows)

    async def remove(self, places: Sequence[Place]) -> None:
        """Remove the rows of erased entries."""
        await self._ask(lambda connection: remove(connection, places))

    async def openings(self, ses: str) -> tuple[Place, ...]:
        """The sealed openings of one session's records."""
        query = "SELECT segment, offset, length FROM openings WHERE ses = ?"
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
        self._jobs.put(_Turn.END)
        await asyncio.to_thread(self._thread.join)

    async def _records(self, where: str, arguments: tuple[object, ...]) -> tuple[RecordPlace, ...]:
        columns = "boot, seq, jti, ses, kind, chn, rh, segment, offset, length"
        query = f"SELECT {columns} FROM records WHERE {where}"  # noqa: S608 - constants of this class
        rows = await self._ask(lambda connection: connection.execute(query, arguments).fetchall())
        return tuple(_record_place(*row) for row in rows)

    async def _peers(self, where: str, arguments: tuple[object, ...]) -> tuple[PeerPlace, ...]:
        columns = "boot, ses, seq, chn, rh, segment, offset, length"
        query = f"SELECT {columns} FROM peers WHERE {where}"  # noqa: S608 - constants of this class
        rows = await self._ask(lambda connection: connection.execute(query, arguments).fetchall())
        return tuple(_peer_place(*row) for row in rows)

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
        job: _Job | _Turn = _Turn.WRITE
        while job is not _Turn.END:
            job = self._jobs.get()
            if job is _Turn.WRITE:
                with suppress(queue.Empty):  # until something is asked, or enough is behind
                    job = self._jobs.get(timeout=_BEHIND_S)
            self._write(connection)
            if isinstance(job, tuple):
                self._answer(connection, *job)
        if connection is not None:
            connection.close()

    def _write(self, connection: sqlite3.Connection | None) -> None:
        with self._lock:
            entries, self._behind = self._behind, []
        if entries:
            self._do(connection, lambda usable: insert(usable, self._boot, entries))

    def _answer(
        self,
        connection: sqlite3.Connection | None,
        question: Callable[[sqlite3.Connection], object],
        answer: asyncio.Future[object],
    ) -> None:
        result = self._do(connection, question)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(_answer, answer, result, self._failure)

    def _do(
        self, connection: sqlite3.Connection | None, work: Callable[[sqlite3.Connection], object]
    ) -> object:
        if connection is not None and self._failure is None:
            try:
                return work(connection)
            except sqlite3.Error as error:
                self._failure = error
        return None


def _record_place(boot: str, seq: int, *more: Any) -> RecordPlace:
    jti, ses, kind, chn, rh, *at = more
    return RecordPlace(boot, seq, jti, ses, kind, chn, rh, Place(*at))


def _peer_place(boot: str, ses: str, seq: int, chn: str, rh: str, *at: int) -> PeerPlace:
    return PeerPlace(boot, ses, seq, chn, rh, Place(*at))


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
        connection.execute("PRAGMA secure_delete = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(SCHEMA)
        elif version != VERSION:
            raise sqlite3.DatabaseError("the index is another build's")
        catch_up(connection, folder, boot)
    except BaseException:
        connection.close()
        raise
    return connection
