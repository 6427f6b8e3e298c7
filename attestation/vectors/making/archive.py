"""The one ZIP form of a period bundle, written by hand, and every way to write it otherwise.

Members are deflated into stored blocks (RFC 1951, section 3.2.4), or where a case is about bits into one of the fixed
code: what a library packs differs from version to version.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Member", "archive", "padded", "stored"]

_BLOCK = 0xFFFF
_DATE = (1 << 5) | 1
_REGULAR = 0o100644


@dataclass(frozen=True)
class Member:
    """One file, and what its headers say in place of the truth.

    Args:
        said: field -> value in both headers: ``flags``, ``method``, ``crc``, ``size``, ``mode``.
        local: field -> value in the local header alone, which a careless reader believes; ``name`` too.
        packed: the packed bytes, where they are not the stored blocks of ``data``.
    """

    name: str
    data: bytes
    said: dict[str, int] = field(default_factory=dict)
    local: dict[str, int | str] = field(default_factory=dict)
    packed: bytes | None = None


def stored(data: bytes) -> bytes:
    """``data`` in stored blocks of at most 65,535 bytes, the last one marked."""
    blocks = [data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)] or [b""]
    last = len(blocks) - 1
    heads = (
        struct.pack("<BHH", number == last, len(each), len(each) ^ _BLOCK)
        for number, each in enumerate(blocks)
    )
    return b"".join(head + block for head, block in zip(heads, blocks, strict=True))


def padded(data: bytes) -> bytes:
    """``data`` (ASCII) in one block of the fixed code (section 3.2.6), with the highest bit after its end set."""
    text = "110" + "".join(format(0b00110000 + each, "08b") for each in data) + "0000000"
    assert len(text) % 8, "no bit is left"
    text = text.ljust(len(text) // 8 * 8 + 7, "0") + "1"
    return bytes(int(text[at : at + 8][::-1], 2) for at in range(0, len(text), 8))


def archive(
    members: Sequence[Member], *, before: bytes = b"", between: bytes = b"", comment: bytes = b""
) -> bytes:
    """The archive of ``members``, in their order; ``between``: bytes before the directory."""
    body, directory = bytearray(before), b""
    for member in members:
        local, central = _headers(member, len(body))
        body += local + _packed(member)
        directory += central
    body += between
    end = struct.pack(
        "<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(directory), len(body), len(comment)
    )
    return bytes(body) + directory + end + comment


def _packed(member: Member) -> bytes:
    return stored(member.data) if member.packed is None else member.packed


def _headers(member: Member, offset: int) -> tuple[bytes, bytes]:
    said = {
        "flags": 0,
        "method": 8,
        "crc": zlib.crc32(member.data),
        "size": len(member.data),
        "mode": _REGULAR,
        **member.said,
    }
    here = {"name": member.name, **said, **member.local}
    name, local_name = member.name.encode(), str(here["name"]).encode()
    packed = len(_packed(member))

    def sizes(told: dict[str, int | str]) -> tuple[int, ...]:
        return (
            int(told["flags"]),
            int(told["method"]),
            0,
            _DATE,
            int(told["crc"]),
            packed,
            int(told["size"]),
        )

    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, *sizes(here), len(local_name), 0) + local_name
    attributes = said["mode"] << 16
    central = struct.pack(
        "<IHHHHHHIIIHHHHHII",
        *(0x02014B50, (3 << 8) | 20, 20, *sizes({**said}), len(name), 0, 0, 0, 0, attributes, offset),
    )
    return local, central + name
