"""A tree of files as one stream of bytes: what one call moves into a sandbox or out of it.

::

    stream    entry* 0 result
    entry     length header, and for a file with its content: (length bytes)* 0

A length has 4 bytes, big-endian. Header and result are canonical JSON. A header has the members of
:meth:`tree.Entry.members`; where files come with their content, ``c`` of a file is empty, and the reader computes it.
A header of a listing also has the size (``n``, bytes) and the time of the last change (``m``, microseconds since 1970).

The writer may be a process that reads what a hostile agent wrote. So the reader takes nothing on trust: paths are
relative, canonical and printable, a folder comes before what is in it, nothing comes twice, and all is bounded.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.errors import MalformedError
from affiant.sandbox.workspace.tree import (
    Entry,
    FileNameError,
    Kind,
    Skipped,
    SpecialFile,
    TreeTooLarge,
    TreeUnreadable,
    tree_digest,
)
from affiant.sandbox.workspace.walk import WHOLE, Found, Limits, escaped, link_target, read_chunks, walk

__all__ = ["Summary", "TreeReader", "TreeWriter", "pack", "require_size", "summarise"]

_LENGTH: Final = struct.Struct(">I")
_HEADER: Final = 256 * 1024
_CHUNK: Final = 1 << 20
_SKIPPED: Final = 1000
"""So many entries that were left out are named, if their names fit; of the others, the number."""
_SKIPPED_BYTES: Final = 256 * 1024
"""Of these names, as JSON: an agent chooses them, and the launcher gets them in one message."""
_LARGEST: Final = (1 << 53) - 1


class TreeWriter:
    """Writes a stream."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.skipped: list[Skipped] = []
        """What was left out."""

    def entry(self, entry: Entry, facts: os.stat_result | None = None) -> None:
        """Write a header; ``facts`` where it is one of a listing."""
        more = {} if facts is None else {"n": min(facts.st_size, _LARGEST), "m": _microseconds(facts)}
        self._piece(canonical({**entry.members(), **more}))

    def content(self, chunks: Iterable[bytes]) -> int:
        """Write the content of the file whose header was written last; its length."""
        size = 0
        for chunk in chunks:
            for at in range(0, len(chunk), _CHUNK):
                self._piece(chunk[at : at + _CHUNK])
            size += len(chunk)
        self._file.write(_LENGTH.pack(0))
        return size

    def start_again(self) -> None:
        """Take back what was written: a call that failed may have been amid a file."""
        self._file.seek(0)
        self._file.truncate()

    def end(self, result: Mapping[str, object]) -> None:
        """Write the result, and what was left out."""
        left_out = {"skipped": _named(self.skipped), "left_out": len(self.skipped)}
        self._file.write(_LENGTH.pack(0))
        self._piece(canonical({**result, **left_out}))
        self._file.flush()

    def _piece(self, data: bytes) -> None:
        if data:
            self._file.write(_LENGTH.pack(len(data)))
            self._file.write(data)


def _named(skipped: Sequence[Skipped]) -> Sequence[Sequence[str]]:
    """The first of ``skipped``: as many as one message has room for."""
    left, named = _SKIPPED_BYTES, []
    for each in skipped[:_SKIPPED]:
        pair = [each.path, each.reason]
        left -= len(canonical(pair)) + 1
        if left < 0:
            break
        named.append(pair)
    return named


def _microseconds(facts: os.stat_result) -> int:
    """The time of the last change; the file's owner can set any."""
    return max(-_LARGEST, min(facts.st_mtime_ns // 1000, _LARGEST))


def pack(
    root: int,
    writer: TreeWriter,
    *,
    limits: Limits = WHOLE,
    exclude: frozenset[str] = frozenset(),
    private: frozenset[tuple[int, int]] = frozenset(),
) -> None:
    """Write everything below the directory ``root`` with its content; what cannot be copied is left out.

    Args:
        exclude: paths that are passed over. private: what may not be met under whatever name.

    Raises:
        TreeTooLarge: more than the limits.
        ``session.input_private``: the tree is, or holds, what is private.
    """
    left = limits.total_bytes

    def leave_out(path: str, error: FileNameError | SpecialFile | TreeUnreadable) -> None:
        writer.skipped.append(Skipped(escaped(path), error.code))

    for found in walk(root, limits=limits, exclude=exclude, private=private, refuse=leave_out):
        try:
            left -= _pack(found, writer, left)
        except (FileNameError, SpecialFile, TreeUnreadable) as error:
            leave_out(found.path, error)


def _pack(found: Found, writer: TreeWriter, left: int) -> int:
    match found.kind:
        case Kind.DIRECTORY:
            writer.entry(Entry(found.path, found.kind, executable=False, content=""))
            return 0
        case Kind.LINK:
            writer.entry(Entry(found.path, found.kind, executable=False, content=link_target(found)))
            return 0
        case Kind.FILE:
            require_size(os.stat(found.name, dir_fd=found.parent, follow_symlinks=False), left)
            chunks = read_chunks(found, at_most=left)
            first = next(chunks, b"")  # opens it: nothing is written of a file that cannot be read
            writer.entry(Entry(found.path, found.kind, found.executable, ""))
            return writer.content(_again(first, chunks, found.path))


def require_size(facts: os.stat_result, at_most: int) -> None:
    """Reject a file that is larger before it is read: a sparse one costs its maker nothing.

    Raises:
        TreeTooLarge: it is.
    """
    if facts.st_size > at_most:
        raise TreeTooLarge(
            "too many bytes", expected=f"at most {at_most} more", found=f"a file of {facts.st_size}"
        )


def _again(first: bytes, chunks: Iterator[bytes], path: str) -> Iterator[bytes]:
    yield first
    try:
        yield from chunks
    except TreeUnreadable as error:  # its header is written: it cannot be left out any more
        raise MalformedError(
            "a file could be read in part only",
            where=escaped(path),
            found=error.found,
            code="workspace.stream",
        ) from error


class TreeReader:
    """Reads a stream: iterate over it, then ask for :attr:`result`.

    Raises:
        ``workspace.stream``: it is none. TreeTooLarge: more than the limits.
    """

    def __init__(self, file: IO[bytes], *, limits: Limits = WHOLE, contents: bool = True) -> None:
        self._file = file
        self._limits = limits
        self._contents = contents
        self._folders: set[str] = {""}
        self._seen: set[str] = set()
        self._left = limits.total_bytes
        self.result: Mapping[str, object] = {}
        """What the writer said at the end."""
        self.facts: Mapping[str, object] = {}
        """The last header, as it was written."""

    @property
    def size(self) -> int:
        """The size that the last header names, of a listing."""
        size = self.facts.get("n")
        if not isinstance(size, int) or size < 0:
            raise _broken("an entry without its size")
        return size

    def __iter__(self) -> Iterator[tuple[Entry, Iterator[bytes]]]:
        """Entries, each with the chunks of its content, which are read before the next entry is."""
        while header := self._piece(_HEADER):
            self.facts = _parsed(header)
            entry = self._checked(self.facts)
            chunks = self._chunks() if self._contents and entry.kind is Kind.FILE else iter(())
            yield entry, chunks
            for _ in chunks:
                pass
        self.result = _parsed(self._piece(1 << 20))
        if self._file.read(1):
            raise _broken("bytes after its end")

    def _chunks(self) -> Iterator[bytes]:
        while chunk := self._piece(_CHUNK):
            self._left -= len(chunk)
            if self._left < 0:
                raise TreeTooLarge("too many bytes", expected=f"at most {self._limits.total_bytes}")
            yield chunk

    def _piece(self, most: int) -> bytes:
        self._limits.proceed()
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if size > most:
            raise _broken("a piece that is too large")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise _broken("it ends too early")
        return data

    def _checked(self, header: Mapping[str, object]) -> Entry:
        path, content, executable = header.get("p"), header.get("c"), header.get("x")
        try:
            kind = Kind(header.get("k"))
        except ValueError as error:
            raise _broken("an entry of another kind") from error
        if not isinstance(path, str) or not isinstance(content, str) or not isinstance(executable, bool):
            raise _broken("an entry without its members")
        segments = path.split("/")
        if len(segments) > self._limits.depth or any(not _is_name(segment) for segment in segments):
            raise _broken("a path that is not canonical")
        if path in self._seen or path.rpartition("/")[0] not in self._folders:
            raise _broken("an entry that comes twice, or before its folder")
        if not content.isprintable() or (kind is Kind.LINK and not 0 < len(content.encode()) < 4096):
            raise _broken("a link without a target")
        self._seen.add(path)
        if len(self._seen) > self._limits.files:
            raise TreeTooLarge("too many files", expected=f"at most {self._limits.files}")
        if kind is Kind.DIRECTORY:
            self._folders.add(path)
        return Entry(path, kind, executable, content)


def _is_name(segment: str) -> bool:
    return segment not in {"", ".", ".."} and segment.isprintable() and len(segment.encode()) <= 255


def _parsed(data: bytes) -> Mapping[str, object]:
    try:
        return parse_object(data)
    except JSONError as error:
        raise _broken("a header that is not canonical JSON") from error


def _broken(found: str) -> MalformedError:
    return MalformedError("not a stream of files", found=found, code="workspace.stream")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a stream holds. ``files``: all but folders. ``length``: bytes of their content."""

    entries: tuple[Entry, ...]
    files: int
    length: int
    result: Mapping[str, object] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """``sha256:`` of the tree."""
        return tree_digest(self.entries)


def summarise(file: IO[bytes], *, limits: Limits = WHOLE, contents: bool = True) -> Summary:
    """Read a stream from the beginning of ``file``.

    Args:
        contents: whether files come with their content; else their headers have its digest and its size.

    Raises:
        ``workspace.stream``: it is none. TreeTooLarge: more than the limits.
    """
    file.seek(0)
    reader = TreeReader(file, limits=limits, contents=contents)
    entries, length = [], 0
    for entry, chunks in reader:
        content = entry.content
        if entry.kind is Kind.FILE and not contents:
            length += reader.size
        elif entry.kind is Kind.FILE:
            digest = hashlib.sha256()
            for chunk in chunks:
                digest.update(chunk)
                length += len(chunk)
            content = f"sha256:{digest.hexdigest()}"
        entries.append(Entry(entry.path, entry.kind, entry.executable, content))
    files = sum(entry.kind is not Kind.DIRECTORY for entry in entries)
    return Summary(tuple(entries), files, length, reader.result)
