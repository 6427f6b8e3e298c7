"""The members of an archive that anybody may have made, read bounded and compared with the one form.

1. The end record stands at the very end, without a comment; one of 64 bits before it, if and only if it is needed.
2. The central directory ends where the end record begins, and holds as many entries as that says: no more than the
   bound, each of a bounded name.
3. Each entry is byte for byte the one that its own values make: no flag, no extra field, no other method or kind.
4. Names are of the fixed pattern, sorted, no two alike, also not by case.
5. Each member begins where the one before ends, the first at 0, the directory after the last: no overlap, nothing
   before, between or after.
6. Each local header is byte for byte the one that the entry makes.

So another reader, which believes the local headers, or the first of two names, sees the same files (CWE-436).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from affiant.attestation.bundle.period.errors import (
    Zip64Refused,
    ZipDuplicate,
    ZipEncrypted,
    ZipHeaderMismatch,
    ZipKindRefused,
    ZipMethodRefused,
    ZipNameRefused,
    ZipRatio,
    ZipStructure,
    ZipTooLarge,
)
from affiant.attestation.bundle.period.layout import SAFE_NAME
from affiant.attestation.bundle.period.zip_form import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    DEFLATE,
    END,
    END64,
    FULL32,
    LOCATOR64,
    REGULAR,
    Member,
    end_records,
)

__all__ = ["ZIP_BOUNDS", "ZipBounds", "read_directory"]

_MAX_NAME: Final = 160
_EXTRA: Final = 12
_ENCRYPTED: Final = 0x2041
"""Encrypted, strongly encrypted, or with an encrypted directory (APPNOTE, 4.4.4)."""


@dataclass(frozen=True, slots=True)
class ZipBounds:
    """What an archive may claim.

    Args:
        members: files in it. total: bytes of all of them, unpacked. ratio: unpacked for each packed byte, of one file.
    """

    members: int = 200_000
    total: int = 64 << 30
    ratio: int = 100


ZIP_BOUNDS: Final = ZipBounds()


def read_directory(read: Callable[[int, int], bytes], size: int, bounds: ZipBounds) -> tuple[Member, ...]:
    """The members of the archive of ``size`` bytes, in their order.

    Args:
        read: size and offset -> that many bytes of the file.

    Raises:
        MalformedError: one of this package's ``zip.*``.
    """
    count, directory, length = _end(read, size)  # 1
    if count > bounds.members or length > count * (CENTRAL.size + _MAX_NAME + _EXTRA):
        raise ZipTooLarge("too many members", expected=f"at most {bounds.members}", found=count)
    members = _entries(read(length, directory), count)  # 2, 3
    _demand_names(members)  # 4
    _demand_sizes(members, bounds)
    at = 0
    for member in members:  # 5, 6
        if member.offset != at or member.end > directory:
            raise ZipStructure("members overlap, or leave bytes between them", where=member.name)
        header = member.local_header()
        if read(len(header), at) != header:
            raise ZipHeaderMismatch(
                "the header before a member is not that of the directory", where=member.name
            )
        at = member.end
    if at != directory:
        raise ZipStructure("bytes between the last member and the directory", found=directory - at)
    return members


def _end(read: Callable[[int, int], bytes], size: int) -> tuple[int, int, int]:
    """Number of entries, offset and length of the central directory."""
    tail = read(
        min(size, END64.size + LOCATOR64.size + END.size),
        max(0, size - END64.size - LOCATOR64.size - END.size),
    )
    if len(tail) < END.size:
        raise ZipStructure("not an archive", found=f"{size} bytes")
    _, _, _, _, count, length, directory, _ = END.unpack(tail[-END.size :])
    expected = end_records(count, directory, length)
    if len(expected) > END.size:
        if len(tail) < len(expected):
            raise Zip64Refused("sizes of 64 bits are announced and not there")
        _, _, _, _, _, _, _, count, length, directory = END64.unpack(tail[: END64.size])
        expected = end_records(count, directory, length)
        if tail != expected:
            raise Zip64Refused(
                "the end records of 32 and 64 bits contradict each other, or 64 are not needed"
            )
    if tail[-len(expected) :] != expected:
        raise ZipStructure(
            "the archive does not end with its end record", expected="no comment, nothing after it"
        )
    if directory + length + len(expected) != size:
        raise ZipStructure("the directory does not end where the end record begins")
    return count, directory, length


def _entries(data: bytes, count: int) -> tuple[Member, ...]:
    members: list[Member] = []
    at = 0
    for _ in range(count):
        if at + CENTRAL.size > len(data):
            raise ZipStructure("the directory is cut short", expected=f"{count} members", found=len(members))
        fields = CENTRAL.unpack_from(data, at)
        member, end = _entry(data, at, fields)
        expected = member.central_header()
        if data[at:end] != expected:
            raise _why(fields, member)
        members.append(member)
        at = end
    if at != len(data):
        raise ZipStructure("the directory holds more than its members")
    return tuple(members)


def _entry(data: bytes, at: int, fields: tuple[int, ...]) -> tuple[Member, int]:
    crc, packed, unpacked, name_length, extra_length, comment = fields[7:13]
    offset, begin = fields[16], at + CENTRAL.size
    end = begin + name_length + extra_length + comment
    raw = data[begin : begin + name_length]
    if fields[0] != CENTRAL_SIGNATURE or end > len(data):
        raise ZipStructure("not an entry of the directory")
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise ZipNameRefused("a name that is not ASCII", found=repr(raw[:60])) from error
    if SAFE_NAME.match(name) is None:
        raise ZipNameRefused("a name of another pattern", found=repr(name[:60]))
    if offset == FULL32:
        extra = data[begin + name_length : begin + name_length + extra_length]
        if extra_length != _EXTRA or extra[:4] != b"\x01\x00\x08\x00":
            raise Zip64Refused("an offset of 64 bits is announced and not there", where=name)
        offset = int.from_bytes(extra[4:], "little")
        if offset < FULL32:
            raise Zip64Refused("an offset of 64 bits that is not needed", where=name)
    return Member(name, offset, packed, unpacked, crc), end


def _why(fields: tuple[int, ...], member: Member) -> Exception:
    """What makes an entry another than its values make: the most telling first."""
    flags, method, attributes = fields[3], fields[4], fields[15]
    if flags & _ENCRYPTED:
        return ZipEncrypted("an encrypted member", where=member.name)
    if method != DEFLATE:
        return ZipMethodRefused(
            "a member that is not deflated", where=member.name, expected=DEFLATE, found=method
        )
    if attributes != REGULAR:
        return ZipKindRefused(
            "a member that is no regular file", where=member.name, found=oct(attributes >> 16)
        )
    if fields[11] > 0 or FULL32 in fields[8:10]:
        return Zip64Refused("fields of 64 bits, or other extra fields", where=member.name)
    return ZipHeaderMismatch("an entry with fields that the form does not have", where=member.name)


def _demand_names(members: tuple[Member, ...]) -> None:
    seen: set[str] = set()
    before = ""
    for member in members:
        if (folded := member.name.lower()) in seen:
            raise ZipDuplicate("two members of one name", where=member.name)
        if member.name < before:
            raise ZipStructure("members that are not in the order of their names", where=member.name)
        seen.add(folded)
        before = member.name
    for name in seen:
        folder = os.path.dirname(name)
        while folder:
            if folder in seen:
                raise ZipDuplicate("a file and a folder of one name", where=name)
            folder = os.path.dirname(folder)


def _demand_sizes(members: tuple[Member, ...], bounds: ZipBounds) -> None:
    total = 0
    for member in members:
        if member.size > bounds.ratio * member.packed:
            raise ZipRatio(
                "a member unpacks to too much",
                where=member.name,
                expected=f"at most {bounds.ratio} times its packed size",
                found=f"{member.packed} -> {member.size} bytes",
            )
        total += member.size
    if total > bounds.total:
        raise ZipTooLarge(
            "the archive unpacks to too much", expected=f"at most {bounds.total} bytes", found=total
        )
