"""The one ZIP form of a period bundle, as bytes: what the writer writes and the reader compares with.

PKWARE APPNOTE.TXT 6.3.10, narrowed to what one form needs: deflate alone, no flags, no extra fields (but an offset of
64 bits in the central directory where 32 do not hold it), no comments, no data descriptors, one fixed time
(1980-01-01), regular files of mode 0644. Members stand in the order of their names, each right after the one before,
the central directory right after the last, and the end record right after that. Every byte is accounted for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

__all__ = [
    "CENTRAL",
    "END",
    "END64",
    "FULL16",
    "FULL32",
    "LOCAL",
    "LOCATOR64",
    "Member",
    "end_records",
]

LOCAL: Final = struct.Struct("<IHHHHHIIIHH")
"""Signature, version, flags, method, time, date, CRC-32, packed, unpacked, name length, extra length: 30 bytes."""
CENTRAL: Final = struct.Struct("<IHHHHHHIIIHHHHHII")
"""46 bytes (APPNOTE, 4.3.12)."""
END: Final = struct.Struct("<IHHHHIIH")
"""22 bytes (4.3.16)."""
END64: Final = struct.Struct("<IQHHIIQQQQ")
"""56 bytes (4.3.14)."""
LOCATOR64: Final = struct.Struct("<IIQI")
"""20 bytes (4.3.15)."""
_OFFSET64: Final = struct.Struct("<HHQ")

FULL16: Final = 0xFFFF
FULL32: Final = 0xFFFFFFFF
LOCAL_SIGNATURE: Final = 0x04034B50
CENTRAL_SIGNATURE: Final = 0x02014B50
END_SIGNATURE: Final = 0x06054B50
END64_SIGNATURE: Final = 0x06064B50
LOCATOR64_SIGNATURE: Final = 0x07064B50
VERSION: Final = 20
VERSION64: Final = 45
MADE_BY_UNIX: Final = 3 << 8
DEFLATE: Final = 8
DATE: Final = (1 << 5) | 1
"""1980-01-01, the first day that the format knows."""
REGULAR: Final = 0o100644 << 16


@dataclass(frozen=True, slots=True)
class Member:
    """One file: its name, where its local header begins, its sizes in bytes and CRC-32."""

    name: str
    offset: int
    packed: int
    size: int
    crc: int

    @property
    def content(self) -> int:
        """Where its packed bytes begin."""
        return self.offset + LOCAL.size + len(self.name)

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.content + self.packed

    def local_header(self) -> bytes:
        """The header before the packed bytes."""
        fixed = (LOCAL_SIGNATURE, VERSION, 0, DEFLATE, 0, DATE, self.crc, self.packed, self.size)
        return LOCAL.pack(*fixed, len(self.name), 0) + self.name.encode("ascii")

    def central_header(self) -> bytes:
        """The entry in the central directory."""
        wide = self.offset >= FULL32
        extra = _OFFSET64.pack(1, 8, self.offset) if wide else b""
        version = VERSION64 if wide else VERSION
        fixed = (CENTRAL_SIGNATURE, MADE_BY_UNIX | version, version, 0, DEFLATE, 0, DATE)
        sizes = (self.crc, self.packed, self.size, len(self.name), len(extra), 0, 0, 0, REGULAR)
        place = FULL32 if wide else self.offset
        return CENTRAL.pack(*fixed, *sizes, place) + self.name.encode("ascii") + extra


def end_records(count: int, directory: int, size: int) -> bytes:
    """What stands after the central directory of ``count`` entries, at ``directory``, of ``size`` bytes."""
    short = END.pack(
        END_SIGNATURE,
        0,
        0,
        min(count, FULL16),
        min(count, FULL16),
        min(size, FULL32),
        min(directory, FULL32),
        0,
    )
    if count < FULL16 and size < FULL32 and directory < FULL32:
        return short
    end64 = END64.pack(
        END64_SIGNATURE,
        END64.size - 12,
        MADE_BY_UNIX | VERSION64,
        VERSION64,
        0,
        0,
        count,
        count,
        size,
        directory,
    )
    return end64 + LOCATOR64.pack(LOCATOR64_SIGNATURE, 0, directory + size, 1) + short
