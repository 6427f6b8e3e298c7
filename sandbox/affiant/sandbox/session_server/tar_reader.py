"""Reads a tar archive that a hostile caller may have written: its entries in order, each with its content.

POSIX.1-2008, ustar and pax interchange format, with long names as GNU tar writes them. Of an extended header only
``path``, ``linkpath`` and ``size`` are used. ``tarfile`` is not used for reading: it keeps every header in memory, and
its reading of extended headers takes the square of their size in Pythons without the fix of CVE-2024-6232.

Nothing is kept between entries, and what is read of one entry's headers is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Final, Literal

from affiant.errors import MalformedError
from affiant.sandbox.workspace.walk import escaped

__all__ = ["EXTENDED_BYTES", "TarEntry", "TarReader"]

_BLOCK: Final = 512
_CHUNK: Final = 1 << 20
_EXTENDED: Final = 1 << 20
EXTENDED_BYTES: Final = 128 << 20
"""Bytes of all extended headers of an archive together."""
_IN_A_ROW: Final = 16
"""Extended headers of one entry: tar programs write up to three."""

_KINDS: Final[Mapping[bytes, Literal["file", "directory", "link"]]] = {
    **dict.fromkeys((b"0", b"\0", b"7"), "file"),
    b"5": "directory",
    b"2": "link",
}
_NAME, _LINK, _OF_NEXT, _OF_ALL = b"L", b"K", (b"x", b"X"), b"g"
_OCTAL: Final = re.compile(rb" *([0-7]*)[ \0]*")
_LENGTH: Final = re.compile(rb"([1-9][0-9]{0,7}) ")
_DECIMAL: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry. ``size``: bytes of a file's content. ``target``: where a link points."""

    name: str
    kind: Literal["file", "directory", "link"]
    size: int = 0
    executable: bool = False
    target: str = ""


class TarReader:
    """The entries of ``archive``, which is read forwards; each comes with its content in pieces.

    An entry's content is read before the next entry is asked for; what is left of it is passed over.

    Raises:
        ``session.archive``: not an archive of this form, or one that ends early.
    """

    def __init__(self, archive: IO[bytes]) -> None:
        self._archive = archive
        self._extended_left = EXTENDED_BYTES

    def __iter__(self) -> Iterator[tuple[TarEntry, Iterator[bytes]]]:
        """Read them."""
        block = self._read(_BLOCK)
        while block != bytes(_BLOCK):
            entry = self._entry(block)
            content = self._content(entry.size)
            yield entry, content
            for _ in content:
                pass
            block = self._read(_BLOCK, or_end=True)

    def _entry(self, block: bytes) -> TarEntry:
        """The entry whose headers begin with ``block``."""
        named: dict[str, str] = {}
        for _ in range(_IN_A_ROW):
            kind, size = _verified(block)
            if kind not in {_NAME, _LINK, *_OF_NEXT, _OF_ALL}:
                return _plain(block, kind, size, named)
            data = self._extended(size)
            if kind in _OF_NEXT:
                named |= _records(data)
            elif kind != _OF_ALL:  # a global header holds nothing that is used
                named["path" if kind == _NAME else "linkpath"] = _text(data)
            block = self._read(_BLOCK)
        raise _broken("too many extended headers in a row")

    def _extended(self, size: int) -> bytes:
        self._extended_left -= size
        if size > _EXTENDED or self._extended_left < 0:
            raise _broken("its extended headers are too large")
        return self._read(size + -size % _BLOCK)[:size]

    def _content(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            piece = self._read(min(left, _CHUNK))
            left -= len(piece)
            yield piece
        self._read(-size % _BLOCK)

    def _read(self, size: int, *, or_end: bool = False) -> bytes:
        """``size`` bytes; ``or_end``: zeros, as an archive ends with, where there is nothing more."""
        data = self._archive.read(size)
        if or_end and not data:
            return bytes(size)
        if len(data) != size:
            raise _broken("it ends early")
        return data


def _verified(block: bytes) -> tuple[bytes, int]:
    """The type and the size of a header whose checksum holds; the sum of signed bytes is accepted too, as it was
    written long ago."""
    blank = block[:148] + b" " * 8 + block[156:]
    unsigned = sum(blank)
    if _number(block[148:156]) not in {unsigned, unsigned - 256 * sum(byte > 127 for byte in blank)}:
        raise _broken("the checksum of a header does not hold")
    return block[156:157], _number(block[124:136])


def _plain(block: bytes, kind: bytes, size: int, named: Mapping[str, str]) -> TarEntry:
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
    name = named.get("path") or (f"{prefix}/" if prefix else "") + _text(block[:100])
    found = _KINDS.get(kind)
    if found is None or any(each.startswith("GNU.sparse.") for each in named):
        raise _broken("neither a file, a folder nor a symbolic link", name)
    if found == "directory" or (kind == b"\0" and name.endswith("/")):
        return TarEntry(name, "directory")
    if found == "link":
        return TarEntry(name, "link", target=named.get("linkpath") or _text(block[157:257]))
    if "size" in named:
        if not _DECIMAL.fullmatch(named["size"]):
            raise _broken("a size is no number", name)
        size = int(named["size"])
    return TarEntry(name, "file", size, executable=bool(_number(block[100:108]) & 0o100))


def _records(data: bytes) -> dict[str, str]:
    """The records of an extended header: ``LENGTH KEYWORD=VALUE``, a line each; the length is the whole line's."""
    records, at = {}, 0
    while at < len(data):
        length = _LENGTH.match(data, at)
        end = at if length is None else at + int(length[1])
        if length is None or end > len(data) or data[end - 1 : end] != b"\n":
            raise _broken("an extended header is no list of records")
        keyword, equals, value = data[length.end() : end - 1].partition(b"=")
        if not equals:
            raise _broken("an extended header is no list of records")
        name = keyword.decode("ascii", "replace")
        if name in {"path", "linkpath", "size"} or name.startswith("GNU.sparse."):
            records[name] = value.decode("utf-8", "surrogateescape")
        at = end
    return records


def _number(field: bytes) -> int:
    """A number in octal digits; or, where the first bit is set, in the bits that follow it (GNU)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:])
    octal = _OCTAL.fullmatch(field)
    if octal is None:
        raise _broken("a header holds no number where one belongs")
    return int(octal[1] or b"0", 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _broken(why: str, name: str | None = None) -> MalformedError:
    return MalformedError(
        "not a tar archive of files, folders and symbolic links",
        found=why if name is None else f"{why}: {escaped(name[:200])}",
        code="session.archive",
    )
