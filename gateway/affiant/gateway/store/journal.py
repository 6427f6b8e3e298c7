"""The append-only journal: an entry is durable before the gateway answers.

One writer thread. Whatever is queued when it wakes is one commit: one write, one fdatasync, and all futures of
the group are resolved by one call into the event loop. Nothing waits for a timer, and a slow disk makes larger
groups by itself. What belongs together (:meth:`Journal.append_all`) is never two commits.

A disk that is full or fails poisons the journal for good: every later entry is refused with
``journal.unavailable``, and so is what would have needed it. What was torn is cut at the next start.

Everything here is the operator's and untrusted; see ``journal_format``.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from affiant.files import sync_folder
from affiant.folders import make_private
from affiant.gateway.store.journal_format import MAX_PAYLOAD, SegmentWriter, read_frame
from affiant.gateway.wire.errors import JournalMalformed, JournalUnavailable, StoreLocked

__all__ = [
    "DURABLE_WITHIN_S",
    "SEGMENT_SIZE",
    "Journal",
    "Note",
    "Place",
    "durable",
    "hold_store",
    "segment_path",
]

DURABLE_WITHIN_S: Final = 7.0
"""Seconds: with the grace of requests under way, less than a supervisor waits for its session's close (15)."""

SEGMENT_SIZE: Final = 16 << 20
"""A segment that has reached this many bytes is followed by a new one."""

_MAX_GROUP: Final = 1024
"""Entries beyond which no more are added to a commit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one frame lies: segment number, offset, length in bytes."""

    segment: int
    offset: int
    length: int


Note = object
"""What the caller gets back once an entry is durable; the index's row."""


class _Item(NamedTuple):
    payload: bytes
    note: Note
    durable: asyncio.Future[Place] | None
    """None: of several, not the last."""


@contextlib.contextmanager
def hold_store(folder: Path) -> Iterator[None]:
    """Make ``folder`` (0700) and hold its lock.

    Raises:
        StoreLocked: another process holds it.
    """
    make_private(folder)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreLocked(
                "another gateway serves from this folder", hint="Stop it, or name another --home"
            ) from error
        yield
    finally:
        os.close(descriptor)


def segment_path(folder: Path, number: int) -> Path:
    """The file of one segment."""
    return folder / f"{number:08}.seg"


class Journal:
    """The journal of one boot. Made, used and closed in the event loop's thread.

    Args:
        folder: holds the segments; the caller holds its lock.
        boot: 16 random bytes that name this boot in each segment's head.
        number, link: of the first segment, as recovery found them.
        on_durable: called in the writer thread after each commit, with the notes and places of its entries.
    """

    def __init__(
        self,
        folder: Path,
        *,
        boot: bytes,
        number: int,
        link: bytes,
        on_durable: Callable[[Sequence[tuple[Note, Place]]], None],
        segment_size: int = SEGMENT_SIZE,
    ) -> None:
        self._folder = folder
        self._boot = boot
        self._segment_size = segment_size
        self._on_durable = on_durable
        self._loop = asyncio.get_running_loop()
        self._items: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._failure: str | None = None
        self._closed = False
        self._number = number
        self._writer, self._file = self._begin_segment(number, link)
        self._thread = threading.Thread(target=self._run, name="affiant-journal", daemon=True)
        self._thread.start()

    @property
    def healthy(self) -> bool:
        """Whether entries are still made durable."""
        return self._failure is None and not self._closed

    def require(self) -> None:
        """Return if entries can be made durable.

        Raises:
            JournalUnavailable: a write failed, or the journal is closed.
        """
        if not self.healthy:
            raise JournalUnavailable(
                "nothing can be made durable any more",
                found=self._failure or "a closed journal",
                hint="Free space on the disk, then start the gateway again" if self._failure else None,
            )

    def append(self, payload: bytes, *, note: Note = None) -> asyncio.Future[Place]:
        """Append ``payload``; the future resolves once it is durable, in the order of the calls.

        Raises:
            JournalUnavailable: a write failed before, or the journal is closed.
            JournalMalformed: more than 4 MiB.
        """
        return self.append_all((payload, note))

    def append_all(self, *entries: tuple[bytes, Note]) -> asyncio.Future[Place]:
        """Append several payloads, each with its note, in one commit; the future has the place of the last.

        Raises:
            As :meth:`append`; nothing is appended.
        """
        self.require()
        items: list[_Item] = []
        for payload, note in entries:
            if len(payload) > MAX_PAYLOAD:
                raise JournalMalformed("entry too large", expected=f"at most {MAX_PAYLOAD} bytes")
            items.append(_Item(payload, note, None))
        durable: asyncio.Future[Place] = self._loop.create_future()
        items[-1] = items[-1]._replace(durable=durable)
        self._items.put(items)
        return durable

    def read(self, place: Place) -> bytes:
        """The payload at ``place``, from any boot's segment. Blocks; untrusted."""
        with open(segment_path(self._folder, place.segment), "rb") as file:
            file.seek(place.offset)
            return read_frame(file.read(place.length))

    async def close(self) -> None:
        """Make durable what was appended, then end the writer."""
        if not self._closed:
            self._closed = True
            self._items.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- the writer thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        ending = False
        while not ending:
            group, ending = self._take_group()
            if not group:
                continue
            places: list[Place] = []
            if self._failure is None:
                try:
                    places = self._commit(group)
                except OSError as error:
                    self._failure = error.strerror or "an I/O error"
                except JournalUnavailable as error:
                    self._failure = str(error.found)
            if self._failure is None:
                self._on_durable([(item.note, place) for item, place in zip(group, places, strict=True)])
            with contextlib.suppress(RuntimeError):  # the loop has ended: no caller waits any more
                self._loop.call_soon_threadsafe(_settle, group, places)
        os.close(self._file)

    def _take_group(self) -> tuple[list[_Item], bool]:
        """What is queued, at least what was appended at once; and whether the journal ends after it."""
        items = self._items.get()
        group: list[_Item] = []
        with contextlib.suppress(queue.Empty):
            while items is not None:
                group += items
                if len(group) >= _MAX_GROUP:
                    break
                items = self._items.get_nowait()
        return group, items is None

    def _commit(self, group: Sequence[_Item]) -> list[Place]:
        if self._writer.size >= self._segment_size:
            self._next_segment()
        places, frames = [], []
        for item in group:
            offset = self._writer.size
            frame = self._writer.frame(item.payload)
            frames.append(frame)
            places.append(Place(self._number, offset, len(frame)))
        _write_all(self._file, b"".join(frames))
        os.fdatasync(self._file)
        return places

    def _next_segment(self) -> None:
        writer, file = self._begin_segment(self._number + 1, self._writer.link)
        os.close(self._file)
        self._number += 1
        self._writer, self._file = writer, file

    def _begin_segment(self, number: int, link: bytes) -> tuple[SegmentWriter, int]:
        writer = SegmentWriter(boot=self._boot, number=number, link=link)
        path = segment_path(self._folder, number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            file = os.open(path, flags, 0o600)
        except OSError as error:
            raise JournalUnavailable("a journal segment cannot be made", found=error.strerror) from error
        try:
            _write_all(file, writer.head)
            os.fdatasync(file)
            sync_folder(self._folder)
        except OSError as error:
            os.close(file)
            raise JournalUnavailable("a journal segment cannot be made", found=error.strerror) from error
        return writer, file


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _settle(group: Sequence[_Item], places: Sequence[Place]) -> None:
    """In the loop: resolve the futures of one group; without places, it was not made durable."""
    for index, item in enumerate(group):
        if item.durable is None or item.durable.done():
            continue
        if places:
            item.durable.set_result(places[index])
        else:
            item.durable.set_exception(JournalUnavailable("the record could not be made durable"))
            item.durable.exception()  # seen: callers that wait get it, and nothing is logged of those that do not


async def durable(*appended: asyncio.Future[Place], within_s: float) -> None:
    """Return once all of ``appended`` are durable. What is not, in time, may still come to be.

    A journal that fails reports it at once. One that stalls reports nothing: its entries stay in order, and become
    durable when it goes on, or are lost with the process. The caller goes on as if they were lost, and does nothing
    that would be wrong if they were not.

    Raises:
        JournalUnavailable: one cannot be made durable, or is not in time.
    """
    done, late = await asyncio.wait(appended, timeout=within_s)
    for each in done:
        each.result()
    if late:
        raise JournalUnavailable(
            "the journal does not answer", expected=f"every entry within {within_s:g} s", found=len(late)
        )
