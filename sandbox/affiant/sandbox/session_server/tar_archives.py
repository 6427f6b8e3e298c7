"""Folders of a session as tar archives, which every language can write and read.

An archive that comes in is a caller's: it names files, folders and links below one folder, and nothing else is taken
from it but their content and whether a file is executable. It is unpacked into a private folder first, without
following a link (``workspace.unpack``), and goes into the session from there.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from affiant.errors import MalformedError, UnreachableError
from affiant.sandbox.base.threads import Proceed
from affiant.sandbox.session_server.tar_reader import TarEntry, TarReader
from affiant.sandbox.workspace.tree import Entry, Kind, TreeTooLarge
from affiant.sandbox.workspace.unpack import Unpacking
from affiant.sandbox.workspace.walk import WHOLE, Limits, escaped, open_directory

__all__ = ["pack_archive", "unpack_archive"]

_NAME: Final = 255
_TARGET: Final = 4095


def unpack_archive(archive: IO[bytes], folder: Path, *, limits: Limits = WHOLE) -> None:
    """Write what is in a tar archive without compression into an empty folder.

    Args:
        limits: folders that an entry's path implies are entries too.

    Raises:
        ``session.archive``: it is none, or has an entry that cannot be taken. TreeTooLarge: more than the limits.
        ``workspace.unwritable``: this machine cannot keep it.
    """
    try:
        with open_directory(folder) as base:
            Unpacking(base).unpack(_entries(TarReader(archive), limits))
    except OSError as error:
        raise UnreachableError(
            "the archive cannot be unpacked", found=error.strerror, code="workspace.unwritable"
        ) from error


def pack_archive(local: Path, archive: IO[bytes], proceed: Proceed = lambda: None) -> None:
    """Write a file, or what is in a folder, as a tar archive: names, content and executable bits, nothing else.

    Args:
        proceed: called for each entry; it raises once the archive is not wanted any more.

    Raises:
        ``workspace.unwritable``: this machine cannot keep it.
    """
    single = not local.is_dir() or local.is_symlink()
    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as opened:
            for found in [local] if single else sorted(local.rglob("*")):
                proceed()
                name = found.relative_to(local.parent if single else local)
                opened.add(found, str(name), recursive=False, filter=_plain)
                opened.members.clear()  # type: ignore[attr-defined]  # else it keeps each entry
    except OSError as error:
        raise UnreachableError(
            "the archive cannot be packed", found=error.strerror, code="workspace.unwritable"
        ) from error


def _entries(opened: TarReader, limits: Limits) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    counted, left = _Counted(), limits.total_bytes
    for member, content in opened:
        limits.proceed()
        segments = _segments(member.name, limits)
        left -= member.size
        if counted.add(segments, folder=member.kind == "directory") > limits.files or left < 0:
            raise TreeTooLarge(
                "the archive unpacks to too much",
                expected=f"at most {limits.files} entries and {limits.total_bytes} bytes",
            )
        if segments or member.kind != "directory":
            yield _entry(member, segments), _wanted(content, limits)


class _Counted:
    """How many entries there are, with the folders that paths imply."""

    def __init__(self) -> None:
        self._count = 0
        self._folders: dict[tuple[int, str], int] = {}
        """The number of each folder, by its parent's number and its name: a path's text is kept once."""

    def add(self, segments: Sequence[str], *, folder: bool) -> int:
        """Count one entry; how many there are now. A folder that was counted before counts once more."""
        known, parent = len(self._folders), 0
        for name in segments if folder else segments[:-1]:
            parent = self._folders.setdefault((parent, name), len(self._folders) + 1)
        new = len(self._folders) - known
        self._count += max(new, 1) if folder else new + 1
        return self._count


def _entry(member: TarEntry, segments: Sequence[str]) -> Entry:
    if not segments:
        raise _rejected("a file or a link without a name", member.name)
    path = "/".join(segments)
    match member.kind:
        case "directory":
            return Entry(path, Kind.DIRECTORY, executable=False, content="")
        case "link":
            if not 0 < len(member.target.encode("utf-8", "replace")) <= _TARGET or "\0" in member.target:
                raise _rejected("a link that points to nothing", member.name)
            return Entry(path, Kind.LINK, executable=False, content=member.target)
        case "file":
            return Entry(path, Kind.FILE, member.executable, "")


def _wanted(content: Iterator[bytes], limits: Limits) -> Iterator[bytes]:
    for piece in content:
        limits.proceed()
        yield piece


def _segments(name: str, limits: Limits) -> list[str]:
    """A canonical path; empty: the folder itself."""
    segments = [segment for segment in name.split("/") if segment not in {"", "."}]
    whole = all(
        segment != ".." and segment.isprintable() and len(segment.encode("utf-8", "replace")) <= _NAME
        for segment in segments
    )
    if name.startswith("/") or not whole or len(segments) > limits.depth:
        raise _rejected("a path that leads elsewhere, or no name", name)
    return segments


def _rejected(what: str, name: str) -> MalformedError:
    return MalformedError(f"the archive holds {what}", where=escaped(name[:200]), code="session.archive")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """No owner, and the mode of a file that anyone may read."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
    return member
