"""The journal's bytes: segments of length-prefixed entries, each chained by hash to all before it. No I/O here.

::

    segment = "affiant-journal/2\\n" | boot id, 16 | number, u32 | link of the segment before, 32 | entry...
    entry   = length, u32 | state, u8 | body, 32 | payload | link, 32          (all integers big-endian)
    body    = SHA-256(length | payload)
    link    = SHA-256(link before | body);  of a segment's start: SHA-256(its 70 bytes of head)
    state   = 0x00 whole, 0xff erased

An entry is erased where it lies: its state becomes 0xff, which is one byte and therefore done or not done, and then its
payload becomes zeros. Length, body and link stay, so that no offset moves and the chain goes on over what is gone.

A crash leaves at most a torn tail: the first entry whose link does not hold ends what is there. The chain finds
mistakes of disks and file systems. It is no protection against the operator, whose store this is: what decides
is in the gateway's memory, and what proves is signed.

>>> writer = SegmentWriter(boot=bytes(16), number=0, link=bytes(32))
>>> data = writer.head + writer.frame(b"one") + writer.frame(b"two")
>>> scan(data[:-1]).payloads
(b'one',)
>>> scan(data[: HEAD_SIZE + STATE_AT] + b"\\xff" + data[HEAD_SIZE + STATE_AT + 1 :]).payloads
(b'two',)
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from affiant.errors import StateError
from affiant.gateway.wire.errors import EntryErased, JournalMalformed

__all__ = [
    "ERASED",
    "HEAD_SIZE",
    "MAX_PAYLOAD",
    "PAYLOAD_AT",
    "STATE_AT",
    "Entry",
    "ErasedEntryPlace",
    "Segment",
    "SegmentWriter",
    "payload_size",
    "read_frame",
    "scan",
]

_NAME: Final = b"affiant-journal/"
_MAGIC: Final = b"affiant-journal/2\n"
_HEAD: Final = struct.Struct(">16sI32s")
HEAD_SIZE: Final = len(_MAGIC) + _HEAD.size
"""70 bytes."""
_LENGTH: Final = struct.Struct(">I")
_FRAME: Final = struct.Struct(">IB32s")
_LINK_SIZE: Final = 32
STATE_AT: Final = _LENGTH.size
"""Offset of the state in an entry."""
PAYLOAD_AT: Final = _FRAME.size
"""Offset of the payload in an entry: 37."""
_WHOLE: Final = 0x00
ERASED: Final = 0xFF
"""No single bit makes one state of the other."""
MAX_PAYLOAD: Final = 4 << 20
"""Bytes of one entry; the largest are evidence collections, of about 100 KiB."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry that holds: where its frame begins in the segment, and its payload."""

    offset: int
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes of its frame."""
        return PAYLOAD_AT + len(self.payload) + _LINK_SIZE


@dataclass(frozen=True, slots=True)
class ErasedEntryPlace:
    """Where an entry was that is erased, or is being erased: the offset and the bytes of its frame."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """What a segment's bytes hold, up to the first entry that does not."""

    boot: bytes
    number: int
    before: bytes
    """Link of the segment before: 32 bytes."""
    entries: tuple[Entry, ...]
    """Without those that are erased."""
    link: bytes
    """Link after the last entry that holds."""
    size: int
    """Bytes that hold; what lies beyond is torn."""
    erased: tuple[ErasedEntryPlace, ...] = ()

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """The payloads alone."""
        return tuple(entry.payload for entry in self.entries)


class SegmentWriter:
    """Frames the entries of one segment, in order."""

    __slots__ = ("head", "link", "size")

    def __init__(self, *, boot: bytes, number: int, link: bytes) -> None:
        self.head = _MAGIC + _HEAD.pack(boot, number, link)
        self.link = hashlib.sha256(self.head).digest()
        self.size = len(self.head)

    def frame(self, payload: bytes) -> bytes:
        """The bytes to append for ``payload``."""
        if len(payload) > MAX_PAYLOAD:
            raise JournalMalformed("entry too large", expected=f"at most {MAX_PAYLOAD} bytes")
        body = _body(payload)
        self.link = hashlib.sha256(self.link + body).digest()
        frame = _FRAME.pack(len(payload), _WHOLE, body) + payload + self.link
        self.size += len(frame)
        return frame


def scan(data: bytes) -> Segment:
    """What ``data`` holds.

    Raises:
        JournalMalformed: it does not begin as a segment does. ``journal.version``: it is one of another build.
    """
    if data.startswith(_NAME) and not data.startswith(_MAGIC) and len(data) >= HEAD_SIZE:
        raise StateError(
            "the journal was written by another build",
            expected=_MAGIC.decode().strip(),
            found=repr(data[: len(_MAGIC)])[2:-1],
            hint="Its bundles are given by that build; for this one, begin with an empty state folder.",
            code="journal.version",
        )
    if len(data) < HEAD_SIZE or not data.startswith(_MAGIC):
        raise JournalMalformed("not a journal segment", expected=_MAGIC.decode().strip())
    boot, number, before = _HEAD.unpack_from(data, len(_MAGIC))
    link, offset = hashlib.sha256(data[:HEAD_SIZE]).digest(), HEAD_SIZE
    entries: list[Entry] = []
    erased: list[ErasedEntryPlace] = []
    while (end := _frame_end(data, offset)) is not None:
        _, state, body = _FRAME.unpack_from(data, offset)
        payload = data[offset + PAYLOAD_AT : end - _LINK_SIZE]
        following = hashlib.sha256(link + body).digest()
        if data[end - _LINK_SIZE : end] != following or not _holds(state, body, payload):
            break
        if state == ERASED:
            erased.append(ErasedEntryPlace(offset, end - offset))
        else:
            entries.append(Entry(offset, payload))
        link, offset = following, end
    return Segment(boot, number, before, tuple(entries), link, offset, tuple(erased))


def _body(payload: bytes) -> bytes:
    return hashlib.sha256(_LENGTH.pack(len(payload)) + payload).digest()


def _holds(state: int, body: bytes, payload: bytes) -> bool:
    """Of an erased entry any payload does: a crash may leave part of it, which is erased again at the next start."""
    return state == ERASED or (state == _WHOLE and body == _body(payload))


def _frame_end(data: bytes, offset: int) -> int | None:
    if offset + PAYLOAD_AT > len(data):
        return None
    (length,) = _LENGTH.unpack_from(data, offset)
    end: int = offset + PAYLOAD_AT + length + _LINK_SIZE
    return end if length <= MAX_PAYLOAD and end <= len(data) else None


def payload_size(head: bytes) -> int:
    """Bytes of the payload of the entry whose first :data:`PAYLOAD_AT` bytes these are.

    Raises:
        JournalMalformed: not the beginning of an entry.
    """
    if len(head) == PAYLOAD_AT:
        length, state, _ = _FRAME.unpack(head)
        if state in (_WHOLE, ERASED) and length <= MAX_PAYLOAD:
            return int(length)
    raise JournalMalformed("not the beginning of an entry")


def read_frame(frame: bytes) -> bytes:
    """The payload of one whole frame, as it lies in a segment.

    Raises:
        EntryErased: it is erased. JournalMalformed: another length than it says, or other bytes than were written.
    """
    if len(frame) < PAYLOAD_AT + _LINK_SIZE:
        raise JournalMalformed("not a whole entry")
    length, state, body = _FRAME.unpack_from(frame)
    if length + PAYLOAD_AT + _LINK_SIZE != len(frame):
        raise JournalMalformed("not a whole entry")
    if state == ERASED:
        raise EntryErased("the entry is erased")
    payload = frame[PAYLOAD_AT:-_LINK_SIZE]
    if not _holds(state, body, payload):
        raise JournalMalformed("an entry has other bytes than were written")
    return payload
