"""Folders of a session as tar archives, which every language can write and read.

An archive that comes in is a caller's: it names files, folders and links below one folder, and nothing else is taken
from it but their content and whether a file is executable. It is unpacked into a private folder first, without
following a link (``workspace.unpack``), and goes into the session from there.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Self, cast

from affiant.errors import MalformedError, UnreachableError
from affiant.sandbox.workspace.tree import Entry, Kind, TreeTooLarge
from affiant.sandbox.workspace.unpack import Unpacking
from affiant.sandbox.workspace.walk import WHOLE, Limits, escaped, open_directory

__all__ = ["pack_archive", "unpack_archive"]

_CHUNK: Final = 1 << 20
_NAME: Final = 255
_EXTENDED: Final = 1 << 20


def unpack_archive(archive: IO[bytes], folder: Path, *, limits: Limits = WHOLE) -> None:
    """Write what is in a tar archive without compression into an empty folder.

    Raises:
        ``session.archive``: it is none, or has an entry that cannot be taken. TreeTooLarge: more than the limits.
        ``workspace.unwritable``: this machine cannot keep it.
    """
    try:
        with (
            tarfile.open(fileobj=archive, mode="r|", tarinfo=_BoundedHeader) as opened,
            open_directory(folder) as base,
        ):
            Unpacking(base).unpack(_entries(opened, limits))
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise MalformedError(
            "not a tar archive, or a broken one", found=type(error).__name__, code="session.archive"
        ) from error
    except OSError as error:
        raise UnreachableError(
            "the archive cannot be unpacked", found=error.strerror, code="workspace.unwritable"
        ) from error


def pack_archive(local: Path, archive: IO[bytes]) -> None:
    """Write a file, or what is in a folder, as a tar archive: names, content and executable bits, nothing else."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as opened:
        if local.is_dir() and not local.is_symlink():
            for found in sorted(local.rglob("*")):
                opened.add(found, str(found.relative_to(local)), recursive=False, filter=_plain)
        else:
            opened.add(local, local.name, recursive=False, filter=_plain)


class _BoundedHeader(tarfile.TarInfo):
    """An entry whose extended header is bounded: ``tarfile`` reads one of any size into memory."""

    def _proc_member(self, opened: tarfile.TarFile) -> Self:
        if not self.isreg() and self.size > _EXTENDED and not self.isdir() and not self.issym():
            raise tarfile.ReadError("an extended header is too large")
        return cast("Self", super()._proc_member(opened))  # type: ignore[misc]  # private, and where sizes are known


def _entries(opened: tarfile.TarFile, limits: Limits) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    files, left = 0, limits.total_bytes
    for member in opened:
        path = _path(member.name, limits)
        files, left = files + 1, left - (member.size if member.isreg() else 0)
        if files > limits.files or left < 0:
            raise TreeTooLarge(
                "the archive unpacks to too much",
                expected=f"at most {limits.files} entries and {limits.total_bytes} bytes",
            )
        if member.isdir():
            if path:
                yield Entry(path, Kind.DIRECTORY, executable=False, content=""), iter(())
        elif member.issym() and path:
            yield Entry(path, Kind.LINK, executable=False, content=member.linkname), iter(())
        elif member.isreg() and path and not member.issparse():
            yield Entry(path, Kind.FILE, bool(member.mode & stat.S_IXUSR), ""), _chunks(opened, member)
        else:
            raise _rejected("neither a file, a folder nor a symbolic link", member.name)


def _path(name: str, limits: Limits) -> str:
    """A canonical path; empty: the folder itself."""
    segments = [segment for segment in name.split("/") if segment not in {"", "."}]
    whole = all(
        segment != ".." and segment.isprintable() and len(segment.encode("utf-8", "replace")) <= _NAME
        for segment in segments
    )
    if name.startswith("/") or not whole or len(segments) > limits.depth:
        raise _rejected("a path that leads elsewhere, or no name", name)
    return "/".join(segments)


def _chunks(opened: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    content = opened.extractfile(member)
    assert content is not None
    while chunk := content.read(_CHUNK):
        yield chunk


def _rejected(what: str, name: str) -> MalformedError:
    return MalformedError(f"the archive holds {what}", where=escaped(name[:200]), code="session.archive")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """No owner, and the mode of a file that anyone may read."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
    return member
