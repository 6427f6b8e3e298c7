"""The files of a running session, from the Python interface: ``sb.files.read``, ``write``, ``list`` and the others.

Every call acts as the agent. It reaches the paths that the profile's ``filesystem_access`` lists, and writes only
where the agent may write. Each call that moves files, whole trees too, has one record in the session's chain, made
before the bytes cross. See docs/files.md.
"""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final, Literal

from affiant.errors import ConfigurationError, UnreachableError
from affiant.sandbox.session_acts.private_places import PrivatePlaces
from affiant.sandbox.workspace.tree import Entry, Kind, Skipped, TreeUnreadable
from affiant.sandbox.workspace.tree_stream import TreeReader, TreeWriter, pack, require_size
from affiant.sandbox.workspace.unpack import Unpacking, write_file
from affiant.sandbox.workspace.walk import Limits, chunks_of, escaped, open_directory

__all__ = ["Ask", "FileChange", "FileInfo", "Listing", "Moved", "SandboxFiles", "read_listing"]

Ask = Callable[[Mapping[str, object], Mapping[str, int]], Awaitable[Mapping[str, object]]]
"""Sends the supervisor one act with descriptors, and returns its answer or raises its error."""

_READ: Final = 64 << 20
_TREE: Final = 4 << 30
_WATCH_S: Final = 1.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry. ``path``: relative to the folder that was listed; of :meth:`SandboxFiles.stat`, the whole path."""

    path: str
    kind: Literal["file", "directory", "link"]
    size: int
    """Bytes."""
    modified: datetime | None
    """None: a time that no calendar has; the file's owner can set any time."""
    executable: bool
    target: str | None = None
    """Where a link points, as text."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds, in order of names."""

    entries: tuple[FileInfo, ...]
    left_out: tuple[Skipped, ...] = ()
    """Pipes, sockets and devices, and names that are not printable Unicode: at most 1,000 are named, fewer if the
    names are long."""

    def __iter__(self) -> Iterator[FileInfo]:
        """The entries."""
        return iter(self.entries)

    def __len__(self) -> int:
        """How many entries."""
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class Moved:
    """What a call moved, as its record says."""

    digest: str
    """``sha256:`` of the tree, as ``--input`` and manifests have it."""
    files: int
    length: int
    """Bytes."""
    left_out: tuple[Skipped, ...] = ()
    """What cannot be copied, or must not: at most 1,000 are named, fewer if the names are long."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A difference between two listings."""

    what: Literal["added", "changed", "removed"]
    path: str


async def _nothing_private() -> PrivatePlaces:
    return PrivatePlaces()


@dataclass(frozen=True, slots=True)
class SandboxFiles:
    """The files of one session.

    Args:
        ask: sends the supervisor an act.
        private: what may not be uploaded or written over, asked anew for each call that touches local files.
    """

    _ask: Ask
    _private: Callable[[], Awaitable[PrivatePlaces]] = field(default=_nothing_private, repr=False)

    async def read(self, path: str, *, at_most: int = _READ, cut: bool = False) -> bytes:
        """The content of a file.

        Args:
            at_most: bytes; a larger file is an error, and nothing is moved.
            cut: of a larger file, its first ``at_most`` bytes.

        Raises:
            AffiantError: ``files.missing``, ``files.path``, ``files.kind``, ``workspace.too_large`` and others.
        """
        file = io.BytesIO()
        await self.read_into(path, file, at_most=at_most, cut=cut)
        return file.getvalue()

    async def read_into(self, path: str, file: IO[bytes], *, at_most: int = _READ, cut: bool = False) -> None:
        """Write the content of a file to an open file of this machine, in pieces; as :meth:`read`."""
        with tempfile.TemporaryFile() as content:
            await self._call("get", path, content, single=True, cut=cut, length=at_most)
            await asyncio.to_thread(_copy_content, content, file, at_most)

    async def read_text(self, path: str, *, at_most: int = _READ) -> str:
        """The content of a file of UTF-8 text."""
        return (await self.read(path, at_most=at_most)).decode("utf-8")

    async def write(self, path: str, content: bytes | str, *, executable: bool = False) -> Moved:
        """Write a file, whole or not at all; folders that are missing on the way are made.

        Raises:
            AffiantError: ``files.path``, ``files.read_only``, ``files.disk`` and others.
        """
        data = content.encode("utf-8") if isinstance(content, str) else content
        with tempfile.TemporaryFile() as file:
            writer = TreeWriter(file)
            writer.entry(Entry(_name(path), Kind.FILE, executable, ""))
            writer.content([data])
            writer.end({})
            return _moved(await self._call("put", path, file, single=True, length=len(data)))

    async def list(self, path: str, *, recursive: bool = False) -> Listing:
        """What is in a folder; ``recursive``: and below it. More than 100,000 entries or 64 levels are an error."""
        with tempfile.TemporaryFile() as content:
            await self.list_into(path, content, recursive=recursive)
            return await asyncio.to_thread(read_listing, content)

    async def list_into(self, path: str, content: IO[bytes], *, recursive: bool = False) -> None:
        """As :meth:`list`, with the listing in an open file, for :func:`read_listing`."""
        await self._call("list", path, content, recursive=recursive)

    async def stat(self, path: str) -> FileInfo:
        """Facts about one entry; a link is not followed."""
        with tempfile.TemporaryFile() as content:
            await self._call("stat", path, content)
            (found,) = await asyncio.to_thread(read_listing, content)
            return FileInfo(path, found.kind, found.size, found.modified, found.executable, found.target)

    async def remove(self, path: str, *, at_most: int = _TREE) -> Moved:
        """Remove a file, a link, or a folder with all that is in it.

        Args:
            at_most: bytes of content, all of which is read for the record.

        Raises:
            AffiantError: ``files.read_only``; ``files.changed`` where a program made more meanwhile;
                ``workspace.special_file``, ``workspace.name`` where the folder holds what no record can name.
        """
        return _moved(await self._call("remove", path, None, length=at_most))

    async def upload(self, local: Path | str, path: str, *, at_most: int = _TREE) -> Moved:
        """Copy a local file or folder to ``path``, in one call. Files there are replaced, nothing else is removed.

        Pipes, sockets, devices and names that are not printable are left out.

        Raises:
            AffiantError: ``session.input_private`` where ``local`` is, holds or lies in one of affiant's own places,
                and others.
        """
        private = await self._private()
        with tempfile.TemporaryFile() as content:
            single = await asyncio.to_thread(_packed, Path(local), content, at_most, private, _name(path))
            return _moved(await self._call("put", path, content, single=single, length=at_most))

    async def download(self, path: str, local: Path | str, *, at_most: int = _TREE) -> Moved:
        """Copy a file or folder of the sandbox to ``local``, in one call. A file goes into a folder under its own name.

        Files there are replaced, nothing else is removed, and no link there is followed. What cannot be copied is left
        out, and so are links that could lead out of the folder.

        Raises:
            AffiantError: ``session.input_private`` as for :meth:`upload`, and others.
        """
        private = await self._private()
        with tempfile.TemporaryFile() as content:
            said = await self._call("get", path, content, length=at_most)
            name = _name(path) if said.get("kind") == Kind.FILE.value else None
            left_out = await asyncio.to_thread(_unpacked, content, Path(local), name, at_most, private)
            moved = _moved(said)
            return Moved(moved.digest, moved.files, moved.length, (*moved.left_out, *left_out))

    async def watch(
        self, path: str, *, every_s: float = _WATCH_S, recursive: bool = True
    ) -> AsyncIterator[FileChange]:
        """Changes below a folder, for as long as they are asked for.

        The folder is listed again and again: it does not see an entry that is created and removed between two listings.
        """
        before = {found.path: found for found in await self.list(path, recursive=recursive)}
        while True:
            await asyncio.sleep(every_s)
            after = {found.path: found for found in await self.list(path, recursive=recursive)}
            for change in _changes(before, after):
                yield change
            before = after

    async def _call(
        self,
        act: str,
        path: str,
        content: IO[bytes] | None,
        *,
        single: bool = False,
        recursive: bool = False,
        cut: bool = False,
        length: int = 0,
    ) -> Mapping[str, object]:
        call = {
            "act": act,
            "path": path,
            "single": single,
            "recursive": recursive,
            "cut": cut,
            "length": length,
        }
        if content is not None:
            content.flush()
        descriptors = {} if content is None else {"content": content.fileno()}
        return await self._ask({"op": "files", "call": call}, descriptors)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _changes(before: Mapping[str, FileInfo], after: Mapping[str, FileInfo]) -> Iterator[FileChange]:
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            yield FileChange("added", path)
        elif path not in after:
            yield FileChange("removed", path)
        elif before[path] != after[path]:
            yield FileChange("changed", path)


def _moved(said: Mapping[str, object]) -> Moved:
    files, length = said.get("files"), said.get("length")
    assert isinstance(files, int)
    assert isinstance(length, int)
    return Moved(str(said.get("digest")), files, length, _left_out(said))


def _left_out(said: Mapping[str, object]) -> tuple[Skipped, ...]:
    named = said.get("skipped")
    pairs = (
        [each for each in named if isinstance(each, list) and len(each) == 2]
        if isinstance(named, list)
        else []
    )
    return tuple(Skipped(escaped(str(path)), str(reason)) for path, reason in pairs)


def read_listing(content: IO[bytes]) -> Listing:
    """The listing that :meth:`SandboxFiles.list_into` has written."""
    content.seek(0)
    reader = TreeReader(content, contents=False)
    found = [_info(entry, reader) for entry, _ in reader]
    return Listing(tuple(found), _left_out(reader.result))


_KINDS: Final[Mapping[Kind, Literal["file", "directory", "link"]]] = {
    Kind.FILE: "file",
    Kind.DIRECTORY: "directory",
    Kind.LINK: "link",
}


def _info(entry: Entry, reader: TreeReader) -> FileInfo:
    time = reader.facts.get("m")
    try:
        modified = _EPOCH + timedelta(microseconds=time) if isinstance(time, int) else None
    except OverflowError:
        modified = None
    target = entry.content if entry.kind is Kind.LINK else None
    return FileInfo(entry.path, _KINDS[entry.kind], reader.size, modified, entry.executable, target)


def _copy_content(content: IO[bytes], file: IO[bytes], at_most: int) -> None:
    content.seek(0)
    try:
        for _, chunks in TreeReader(content, limits=Limits(total_bytes=at_most)):
            for chunk in chunks:
                file.write(chunk)
        file.flush()
    except OSError as error:
        raise UnreachableError(
            "the file cannot be kept", found=error.strerror, code="workspace.unwritable"
        ) from error


def _packed(local: Path, content: IO[bytes], at_most: int, private: PrivatePlaces, name: str) -> bool:
    """Write a local file or folder as a stream; whether it is a file."""
    private.require_apart(local)
    writer, place = TreeWriter(content), local.resolve()
    try:
        if place.is_dir():
            with open_directory(place) as root:
                pack(root, writer, limits=Limits(total_bytes=at_most), private=private.inodes)
            writer.end({})
            return False
        fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(fd)
            if (facts.st_dev, facts.st_ino) in private.inodes:
                raise ConfigurationError(
                    "the file is one of affiant's own",
                    where=escaped(str(local)),
                    code="session.input_private",
                )
            require_size(facts, at_most)
            writer.entry(Entry(name, Kind.FILE, bool(facts.st_mode & 0o100), ""))
            writer.content(chunks_of(fd, str(local), at_most=at_most))
        finally:
            os.close(fd)
        writer.end({})
    except OSError as error:
        raise TreeUnreadable(
            "the files cannot be read", where=escaped(str(local)), found=error.strerror
        ) from error
    return True


def _unpacked(
    content: IO[bytes], local: Path, name: str | None, at_most: int, private: PrivatePlaces
) -> tuple[Skipped, ...]:
    """Write a stream to ``local``; the links that were left out.

    Args:
        name: of a single file, which goes into ``local`` under it, if that is a folder; None: a folder's content.
    """
    if name is not None and local.is_dir():
        local /= name
    private.require_apart(local)
    content.seek(0)
    reader = TreeReader(content, limits=Limits(total_bytes=at_most))
    folder = local if name is None else local.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open_directory(folder.resolve()) as base:
            if name is not None:
                for entry, chunks in reader:
                    write_file(base, local.name, entry, chunks)
                return ()
            unpacking = Unpacking(base, only_inside=True)
            unpacking.unpack(reader)
            return tuple(unpacking.skipped)
    except OSError as error:
        raise UnreachableError(
            "the files cannot be written",
            where=escaped(str(local)),
            found=error.strerror,
            code="workspace.unwritable",
        ) from error
