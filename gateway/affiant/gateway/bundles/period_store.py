"""A gateway's store, read while the gateway may be writing it: segments to where they hold, the log under a checkpoint.

Nothing is locked, cut or made here. Segments only grow; what is torn at the end of the newest is not there yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.reader import read_bundle, read_checkpoint
from affiant.attestation.statements.statement import LogIdentity, parse_statement
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.entry import LogEntry, parse_entry
from affiant.attestation.tlog.note import Note, verify_note
from affiant.attestation.tlog.tiles import TILE_WIDTH, bundles_of
from affiant.errors import AffiantError, UnreachableError
from affiant.gateway.log.transparency_log import log_folder
from affiant.gateway.store.entries import BootEntry, Entry, decode_entry
from affiant.gateway.store.journal import Place, segment_path
from affiant.gateway.store.journal_format import read_frame, scan
from affiant.gateway.wire.errors import EntryErased, JournalMalformed

__all__ = ["Placed", "Store", "StoreUnreadable", "open_store"]


class StoreUnreadable(UnreachableError):
    """The folder holds no gateway's journal and log, or they cannot be read."""

    code = "export.store"
    retryable = False


@dataclass(frozen=True, slots=True)
class Placed:
    """One entry of the journal: which boot wrote it, what it says, where it lies."""

    boot: bytes
    entry: Entry
    place: Place


class Store:
    """One store, for one log.

    Args:
        folder: the gateway's. log: what the newest boot's keyset names.
    """

    def __init__(self, folder: Path, log: LogIdentity) -> None:
        self.folder, self.log = folder, log
        self.source = FolderLog(log_folder(folder, log.origin))

    def newest(self) -> tuple[Note, Checkpoint]:
        """The log's own newest checkpoint.

        Raises:
            NoteSignatureInvalid, LogAbsent, CheckpointMalformed: there is none of this log.
        """
        note = read_checkpoint(self.source)
        return note, self.verified(note)

    def verified(self, note: Note) -> Checkpoint:
        """What ``note`` says, as the log has signed it.

        Raises:
            NoteSignatureInvalid, CheckpointMalformed: it has not.
        """
        verify_note(note, [self.log.key])
        return parse_checkpoint(note.text)

    def leaves(self, size: int) -> Iterator[tuple[int, LogEntry]]:
        """Every leaf under a checkpoint of ``size``; held against no root yet."""
        for bundle in bundles_of(size):
            for at, data in enumerate(read_bundle(self.source, bundle)):
                yield bundle.index * TILE_WIDTH + at, parse_entry(data)

    def segments(self) -> tuple[int, ...]:
        """The numbers of the journal's segments, ascending."""
        return segments_of(self.folder)

    def segment(self, number: int) -> Iterator[Placed]:
        """What one segment holds; entries of another form are passed over, as everywhere."""
        yield from read_segment(self.folder, number)

    def read(self, place: Place) -> Entry:
        """One entry again.

        Raises:
            EntryErased: it is erased. JournalMalformed: something else lies there.
        """
        try:
            descriptor = os.open(segment_path(self.folder, place.segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise EntryErased("the entry's segment is gone") from error
        try:
            return decode_entry(read_frame(os.pread(descriptor, place.length, place.offset)))
        finally:
            os.close(descriptor)


def open_store(folder: Path) -> Store:
    """The store in ``folder``, for the log of its newest boot.

    Raises:
        StoreUnreadable: there is no journal, or no boot in it that names a log.
    """
    for number in reversed(segments_of(folder)):
        for placed in read_segment(folder, number):
            if isinstance(placed.entry, BootEntry):
                try:
                    log = parse_statement(from_b64u(placed.entry.statement)).log
                except AffiantError:
                    continue
                if log is not None:
                    return Store(folder, log)
    raise StoreUnreadable(
        "no gateway's journal is there, or no boot in it that names a log",
        where=str(folder),
        hint="Name the folder with --store, or the state folder with --home.",
    )


def segments_of(folder: Path) -> tuple[int, ...]:
    """The numbers of the segments in ``folder``, ascending."""
    try:
        return tuple(sorted(int(path.stem) for path in folder.glob("[0-9]" * 8 + ".seg")))
    except OSError as error:
        raise StoreUnreadable("the folder cannot be read", where=str(folder), found=error.strerror) from error


def read_segment(folder: Path, number: int) -> Iterator[Placed]:
    """The entries of one segment."""
    try:
        segment = scan(segment_path(folder, number).read_bytes())
    except OSError as error:
        raise StoreUnreadable("a segment cannot be read", where=str(folder), found=error.strerror) from error
    except JournalMalformed:  # set aside by the gateway's next start
        return
    for entry in segment.entries:
        try:
            decoded = decode_entry(entry.payload)
        except JournalMalformed:
            continue
        yield Placed(segment.boot, decoded, Place(number, entry.offset, entry.size))
