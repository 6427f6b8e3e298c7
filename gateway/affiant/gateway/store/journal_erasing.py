"""Erases entries of the journal where they lie: no offset moves, no link breaks, no more space is needed.

First the state of every entry is set, one byte each, and made durable; from then on readers find it erased. Then its
payload is overwritten with zeros. A crash between the two leaves bytes that no reader gives out and that the next start
overwrites: the order is in the journal until it is marked as carried out.

Overwritten in place, rather than the segment written anew: what replaces a file leaves its old blocks on the disk, and
needs room that a full disk does not have. Where the file system or the disk writes elsewhere anyway (copy on write,
flash, snapshots, backups) old blocks remain in both ways; that is for the operator of the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from affiant.gateway.store.journal import Place, segment_path
from affiant.gateway.store.journal_format import ERASED, PAYLOAD_AT, STATE_AT, payload_size, scan
from affiant.gateway.wire.errors import JournalMalformed, JournalUnavailable

__all__ = ["erase_entries", "finish_erasing"]

_LINK_SIZE = 32


def erase_entries(folder: Path, places: Iterable[Place]) -> None:
    """Erase the entries at ``places``; durable on return. Again is the same. Blocks.

    Raises:
        JournalMalformed: there is no such entry; nothing of its segment was changed.
        JournalUnavailable: a segment cannot be opened or written.
    """
    by_segment: dict[int, list[Place]] = {}
    for place in places:
        by_segment.setdefault(place.segment, []).append(place)
    for number, inside in sorted(by_segment.items()):
        path = segment_path(folder, number)
        try:
            _erase_in(path, inside)
        except OSError as error:
            raise JournalUnavailable(
                "an entry cannot be erased", where=path.name, found=error.strerror
            ) from error


def finish_erasing(folder: Path) -> None:
    """Overwrite what a crash left of entries that are marked as erased. Blocks for the whole journal.

    Raises:
        JournalUnavailable: a segment cannot be read or written.
    """
    for path in sorted(folder.glob("[0-9]" * 8 + ".seg")):
        try:
            segment = scan(path.read_bytes())
        except JournalMalformed:
            continue
        except OSError as error:
            raise JournalUnavailable("a segment cannot be read", found=error.strerror) from error
        erase_entries(folder, [Place(int(path.stem), each.offset, each.size) for each in segment.erased])


def _erase_in(path: Path, places: Iterable[Place]) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        sizes = [(place, _payload_of(descriptor, place)) for place in places]
        for place, _ in sizes:
            os.pwrite(descriptor, bytes([ERASED]), place.offset + STATE_AT)
        os.fsync(descriptor)
        for place, size in sizes:
            _overwrite(descriptor, place.offset + PAYLOAD_AT, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _payload_of(descriptor: int, place: Place) -> int:
    size = payload_size(os.pread(descriptor, PAYLOAD_AT, place.offset))
    if PAYLOAD_AT + size + _LINK_SIZE != place.length:
        raise JournalMalformed("no such entry in the journal", where=f"{place.segment}:{place.offset}")
    return size


def _overwrite(descriptor: int, offset: int, size: int) -> None:
    view = memoryview(bytes(size))
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
