"""The gateway's transparency log: what is durable in the journal gets its leaf, in the journal's order.

One thread. Whatever was handed in when it wakes is one batch: tiles, then a checkpoint over them, each durable before
the next. No request waits for it; a caller that needs a proof now (:meth:`TransparencyLog.include`) wakes it early. A
log that cannot be written, or that falls behind its bound, stops admission: a receipt whose leaf never comes would
look, later, like one that was withheld.

The log outlives its gateway. It is gone on with only from the last checkpoint that its own key has signed, and only if
the files lead to that root; anything else is refused, because a second tree under one origin is a fork. Records of an
earlier boot that had no leaf yet never get one: a store must not be able to have leaves made (trust rules, 2); the gap
record says where that boot's chain stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.entry import LogEntry, parse_entry
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.growth import Grown, Growth
from affiant.attestation.tlog.note import Note, parse_note, signed, verify_note
from affiant.attestation.tlog.note_keys import LogKey
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tiles import (
    TILE_HEIGHT,
    TILE_WIDTH,
    EntryBundle,
    Tile,
    TileNodes,
    bundles_of,
    decode_bundle,
    parse_path,
)
from affiant.attestation.tlog.tree import EMPTY_ROOT
from affiant.attestation.tlog.tree_paths import consistency_path, inclusion_path
from affiant.errors import AffiantError, MalformedError, NotAuthenticError
from affiant.gateway.log.log_files import CHECKPOINT, LogFiles
from affiant.gateway.log.log_index import LogIndex
from affiant.gateway.store.journal import Note as JournalNote
from affiant.gateway.store.journal import Place
from affiant.gateway.store.leaves import Logged
from affiant.gateway.wire.errors import IndexUnavailable, LogDamaged, LogUnavailable

__all__ = ["LogBounds", "LogHead", "TransparencyLog", "log_folder"]

_BATCH: Final = 4096
_HASH: Final = 32


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How far the log may fall behind.

    Args:
        interval_s: seconds in which leaves are gathered into one checkpoint, while no caller waits.
        backlog: leaves that may wait. late_s: seconds that the oldest of them may wait: the merge delay.
    """

    interval_s: float = 1.0
    backlog: int = 20_000
    late_s: float = 60.0


@dataclass(frozen=True, slots=True)
class LogHead:
    """The last checkpoint, as signed."""

    checkpoint: Checkpoint
    note: Note


def log_folder(store: Path, origin: str) -> Path:
    """Where the log ``origin`` lies in a gateway's store."""
    return store / "log" / hashlib.sha256(origin.encode("utf-8")).hexdigest()[:32]


class TransparencyLog:
    """One origin's log. Made, used and closed in the event loop's thread; it owns the folder while it is open.

    Args:
        folder: of its files; the caller holds the store's lock.
        signer: the log's key; its name is the origin.
        seconds: a clock that never goes back.

    Raises:
        LogDamaged: the folder holds another log, or not what the last checkpoint says.
        LogUnavailable: the folder cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        signer: LogSigner,
        *,
        seconds: Callable[[], float],
        bounds: LogBounds = LogBounds(),
    ) -> None:
        self._signer, self._seconds, self._bounds = signer, seconds, bounds
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._waiting: deque[tuple[float, LogEntry]] = deque()
        self._added = self._logged = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: str | None = None
        self._closed = False
        try:
            self._files = LogFiles(folder)
            self._growth, self._head = self._resume()
            self._index = LogIndex(folder / "index.sqlite", origin=signer.name)
            self._catch_up()
        except OSError as error:
            raise LogUnavailable(
                "the log cannot be opened", where=str(folder), found=error.strerror
            ) from error
        self._thread = threading.Thread(target=self._run, name="affiant-log", daemon=True)
        self._thread.start()

    # -- in the loop -------------------------------------------------------------------------------------------

    @property
    def origin(self) -> str:
        """The log's name."""
        return self._signer.name

    @property
    def key(self) -> LogKey:
        """The log's public key."""
        return self._signer.verifier

    @property
    def head(self) -> LogHead:
        """The last checkpoint."""
        return self._head

    @property
    def backlog(self) -> int:
        """Leaves that wait for a checkpoint."""
        return self._added - self._logged

    @property
    def keeps_up(self) -> bool:
        """Whether :meth:`require` would return."""
        try:
            self.require()
        except LogUnavailable:
            return False
        return True

    def require(self) -> None:
        """Return if what is recorded now will have its leaf in time.

        Raises:
            LogUnavailable: the log cannot be written, is closed, or is behind its bound.
        """
        if self._failure is not None or self._closed:
            raise LogUnavailable(
                "the transparency log does not grow any more",
                found=self._failure or "a closed log",
                hint="Free space on the disk, then start the gateway again" if self._failure else None,
            )
        with self._lock:
            count, oldest = len(self._waiting), self._waiting[0][0] if self._waiting else None
        late = 0.0 if oldest is None else self._seconds() - oldest
        if count > self._bounds.backlog or late > self._bounds.late_s:
            raise LogUnavailable(
                "the transparency log is behind",
                expected=f"at most {self._bounds.backlog} leaves and {self._bounds.late_s:g} s",
                found=f"{count} leaves, the oldest {late:.0f} s",
            )

    async def include(self) -> LogHead:
        """Wait until everything handed in so far is under a checkpoint; that checkpoint.

        Raises:
            LogUnavailable: it will not be.
        """
        with self._lock:
            target = self._added
            done = self._logged >= target
            waiter: asyncio.Future[None] = self._loop.create_future()
            if not done and self._failure is None:
                self._waiters.append((target, waiter))
        if not done:
            if self._failure is not None:
                raise LogUnavailable("the transparency log does not grow any more", found=self._failure)
            self._hurry.set()
            self._wake.set()
            await waiter
        return self._head

    async def prove(self, hashes: Sequence[bytes], head: LogHead) -> list[LogProof | None]:
        """Proofs under ``head`` for the records with these hashes; None for one without a leaf under it.

        Args:
            head: the last checkpoint or an earlier one of this log, with any signatures.

        Raises:
            LogUnavailable: the log's files cannot be read.
        """
        return await asyncio.to_thread(self._prove, head, hashes)

    def consistency(self, old: int, new: int) -> Sequence[bytes]:
        """The hashes that show that the tree of ``new`` leaves begins with that of ``old``. Blocks for a few files.

        Raises:
            ProofMalformed: ``old`` is the larger. LogUnavailable: the log's files cannot be read.
        """
        try:
            return consistency_path(TileNodes(new, self._demand), old, new)
        except (OSError, TileMalformed) as error:
            raise LogUnavailable("the log's files cannot be read") from error

    def read(self, path: str) -> bytes | None:
        """The file at ``path``, if the last checkpoint implies it. Blocks.

        Raises:
            TileMalformed: the path names nothing of a log. LogUnavailable: it cannot be read.
        """
        if path == CHECKPOINT:
            return self._head.note.to_bytes()
        resource = parse_path(path)
        if not _implied(resource, self._head.checkpoint.size):
            return None
        try:
            return self._files.read(path)
        except OSError as error:
            raise LogUnavailable("a file of the log cannot be read", found=error.strerror) from error

    async def close(self) -> None:
        """Log what was handed in, then end the thread."""
        if not self._closed:
            self._closed = True
            self._hurry.set()
            self._wake.set()
        await asyncio.to_thread(self._thread.join)
        self._files.close()
        self._index.close()

    # -- in the journal's thread ---------------------------------------------------------------------------------

    def on_durable(self, entries: Sequence[tuple[JournalNote, Place]]) -> None:
        """Take the leaves of the records among ``entries``, which are durable now, in their order."""
        now = self._seconds()
        leaves = [(now, note.leaf) for note, _ in entries if isinstance(note, Logged)]
        if leaves:
            with self._lock:
                self._waiting.extend(leaves)
                self._added += len(leaves)
            self._wake.set()

    # -- in the log's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.wait()
            if not self._closed:
                self._hurry.wait(self._bounds.interval_s)
            self._wake.clear()
            self._hurry.clear()
            while batch := self._peek():
                try:
                    self._commit([leaf for _, leaf in batch])
                except (OSError, AffiantError) as error:
                    self._fail(error)
                    return
                self._settle(len(batch))
            if self._closed:
                return

    def _peek(self) -> list[tuple[float, LogEntry]]:
        """The next batch, which still counts as waiting."""
        with self._lock:
            return list(islice(self._waiting, _BATCH))

    def _commit(self, leaves: Sequence[LogEntry]) -> None:
        grown = self._growth.grow([leaf.to_bytes() for leaf in leaves])
        for path, data in grown.objects:
            self._files.write(path, data)
        self._files.settle()
        head = _signed(self._signer, grown.size, grown.root)
        self._files.write(CHECKPOINT, head.note.to_bytes())
        self._files.settle()
        with contextlib.suppress(IndexUnavailable):  # rebuilt at the next start; proofs are missed until then
            self._index.add(grown.first, [leaf.rh for leaf in leaves])
        self._head = head
        self._drop_partials(grown)

    def _settle(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                self._waiting.popleft()
            self._logged += count
            ready = [waiter for target, waiter in self._waiters if target <= self._logged]
            self._waiters = [each for each in self._waiters if each[0] > self._logged]
        with contextlib.suppress(RuntimeError):  # the loop has ended: no caller waits any more
            self._loop.call_soon_threadsafe(_resolve, ready, None)

    def _fail(self, error: Exception) -> None:
        failure = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
        with self._lock:
            self._failure = failure
            waiters = [waiter for _, waiter in self._waiters]
            self._waiters = []
        refusal = LogUnavailable("the transparency log does not grow any more", found=failure)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_resolve, waiters, refusal)

    def _drop_partials(self, grown: Grown) -> None:
        """Remove the partial files of tiles that are full now: no checkpoint to come names them."""
        for path, _ in grown.objects:
            resource = parse_path(path)
            if resource.full:
                self._files.remove_partials(resource)

    # -- files ---------------------------------------------------------------------------------------------------

    def _resume(self) -> tuple[Growth, LogHead]:
        data = self._files.read(CHECKPOINT)
        if data is None:
            if (self._files.folder / "tile").exists():
                raise LogDamaged("the log has files and no checkpoint", where=str(self._files.folder))
            head = _signed(self._signer, 0, EMPTY_ROOT)
            self._files.write(CHECKPOINT, head.note.to_bytes())
            self._files.settle()
            return Growth(), head
        try:
            note = parse_note(data)
            verify_note(note, [self._signer.verifier])
            checkpoint = parse_checkpoint(note.text)
            if checkpoint.origin != self._signer.name:
                raise LogDamaged("the log is of another origin", expected=self._signer.name)
            return Growth.resume(checkpoint.size, checkpoint.root, self._demand), LogHead(checkpoint, note)
        except (MalformedError, NotAuthenticError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: AffiantError) -> LogDamaged:
        return LogDamaged(
            f"the log cannot be gone on with: {error}",
            where=str(self._files.folder),
            hint="Bring back the folder as it was. A log that is begun anew needs another origin.",
        )

    def _catch_up(self) -> None:
        """Bring the index to the checkpoint, from the bundles."""
        size, index = self._head.checkpoint.size, self._index
        if index.size > size:
            raise LogDamaged("the log's index knows leaves that its checkpoint does not", found=index.size)
        for bundle in bundles_of(size, index.size):
            entries = decode_bundle(self._demand(bundle), bundle.width)
            skip = max(0, index.size - bundle.index * TILE_WIDTH)
            index.add(index.size, [parse_entry(entry).rh for entry in entries[skip:]])

    def _prove(self, head: LogHead, hashes: Sequence[bytes]) -> list[LogProof | None]:
        size = head.checkpoint.size
        nodes = TileNodes(size, self._demand)
        places = (None if at is None or at >= size else at for at in self._index.find(hashes))
        try:
            return [
                None if at is None else LogProof(at, inclusion_path(nodes, at, size), head.note)
                for at in places
            ]
        except (OSError, TileMalformed) as error:
            raise LogUnavailable("the log's files cannot be read") from error

    def _demand(self, resource: Tile | EntryBundle) -> bytes:
        """The bytes of a file that there must be; of a partial one that is gone, those of the full one's beginning."""
        data = self._files.read(resource.path())
        if data is None and not resource.full:
            data = self._files.read(_of_width(resource, TILE_WIDTH).path())
            if data is not None and isinstance(resource, Tile):
                data = data[: resource.width * _HASH]
        if data is None:
            raise TileMalformed("a file of the log is missing", where=resource.path())
        return data


def _signed(signer: LogSigner, size: int, root: bytes) -> LogHead:
    checkpoint = Checkpoint(signer.name, size, root)
    return LogHead(checkpoint, signed(checkpoint.to_text(), signer))


def _of_width(resource: Tile | EntryBundle, width: int) -> Tile | EntryBundle:
    if isinstance(resource, Tile):
        return Tile(resource.level, resource.index, width)
    return EntryBundle(resource.index, width)


def _implied(resource: Tile | EntryBundle, size: int) -> bool:
    level = resource.level if isinstance(resource, Tile) else 0
    return resource.index * TILE_WIDTH + resource.width <= size >> (TILE_HEIGHT * level)


def _resolve(waiters: Sequence[asyncio.Future[None]], refusal: LogUnavailable | None) -> None:
    for waiter in waiters:
        if waiter.done():
            continue
        if refusal is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(refusal)
