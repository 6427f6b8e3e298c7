"""The journal's bytes: segments of length-prefixed entries, each chained by hash to all before it. No I/O here.

::

    segment = "affiant-journal/1\\n" | boot id, 16 | number, u32 | link of the segment before, 32 | entry...
    entry   = length, u32 | payload | link, 32          (all integers big-endian)
    link    = SHA-256(link before | length | payload);  of a segment's start: SHA-256(its 70 bytes of head)

A crash leaves at most a torn tail: the first entry whose link does not hold ends what is there. The chain finds
mistakes of disks and file systems. It is no protection against the operator, whose store this is: what decides
stands in the gateway's memory, and what proves is signed.

>>> writer = SegmentWriter(boot=bytes(16), number=0, link=bytes(32))
>>> data = writer.head + writer.frame(b"one") + writer.frame(b"two")
>>> scan(data[:-1]).payloads
(b'one',)
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from affiant.gateway.errors import JournalMalformed

__all__ = ["HEAD_SIZE", "MAX_PAYLOAD", "Entry", "Segment", "SegmentWriter", "read_frame", "scan"]

_MAGIC: Final = b"affiant-journal/1\n"
_HEAD: Final = struct.Struct(">16sI32s")
HEAD_SIZE: Final = len(_MAGIC) + _HEAD.size
"""70 bytes."""
_LENGTH: Final = struct.Struct(">I")
_LINK_SIZE: Final = 32
MAX_PAYLOAD: Final = 4 << 20
"""Bytes of one entry; the largest are evidence collections, of about 100 KiB."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry that holds: where its frame begins in the segment, and its payload."""

    offset: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """What a segment's bytes hold, up to the first entry that does not."""

    boot: bytes
    number: int
    before: bytes
    """Link of the segment before: 32 bytes."""
    entries: tuple[Entry, ...]
    link: bytes
    """Link after the last entry that holds."""
    size: int
    """Bytes that hold; what lies beyond is torn."""

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
        body = _LENGTH.pack(len(payload)) + payload
        self.link = hashlib.sha256(self.link + body).digest()
        self.size += len(body) + _LINK_SIZE
        return body + self.link


def scan(data: bytes) -> Segment:
    """What ``data`` holds.

    Raises:
        JournalMalformed: it does not begin as a segment does.
    """
    if len(data) < HEAD_SIZE or not data.startswith(_MAGIC):
        raise JournalMalformed("not a journal segment", expected=_MAGIC.decode().strip())
    boot, number, before = _HEAD.unpack_from(data, len(_MAGIC))
    link, offset = hashlib.sha256(data[:HEAD_SIZE]).digest(), HEAD_SIZE
    entries: list[Entry] = []
    while (end := _frame_end(data, offset)) is not None:
        body = data[offset : end - _LINK_SIZE]
        following = hashlib.sha256(link + body).digest()
        if data[end - _LINK_SIZE : end] != following:
            break
        entries.append(Entry(offset, body[_LENGTH.size :]))
        link, offset = following, end
    return Segment(boot, number, before, tuple(entries), link, offset)


def _frame_end(data: bytes, offset: int) -> int | None:
    if offset + _LENGTH.size > len(data):
        return None
    (length,) = _LENGTH.unpack_from(data, offset)
    end: int = offset + _LENGTH.size + length + _LINK_SIZE
    return end if length <= MAX_PAYLOAD and end <= len(data) else None


def read_frame(frame: bytes) -> bytes:
    """The payload of one whole frame, as it lies in a segment.

    Raises:
        JournalMalformed: another length than it says.
    """
    if len(frame) < _LENGTH.size + _LINK_SIZE:
        raise JournalMalformed("not a whole entry")
    (length,) = _LENGTH.unpack_from(frame)
    if length + _LENGTH.size + _LINK_SIZE != len(frame):
        raise JournalMalformed("not a whole entry")
    return frame[_LENGTH.size : -_LINK_SIZE]
