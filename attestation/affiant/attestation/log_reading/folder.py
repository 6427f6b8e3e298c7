"""Reads a log in a local folder. It follows no links, and reads each file up to its bound.

A folder may come from any source: an archive, a backup, the operator. A link in it could show this reader another file,
or the same tile under two names; a pipe would hold it for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from affiant.attestation.log_reading.errors import (
    LogAbsent,
    LogUnavailable,
    PathRefused,
    ResourceTooLarge,
)
from affiant.attestation.tlog.tiles import CHECKPOINT_PATH, parse_path

__all__ = ["FolderLog"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT: Final = (errno.ENOENT,)
_MAX_DEPTH: Final = 12
"""Folders below the log's own: a tile's path has at most nine."""


class FolderLog:
    """See ``LogSource``.

    Args:
        path: the folder that holds ``checkpoint`` and ``tile/``; itself reached as the system reaches it.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._path)

    def read(self, path: str, *, limit: int) -> bytes | None:
        """As ``LogSource.read``.

        Raises:
            TileMalformed: ``path`` names no resource of a log.
        """
        if path != CHECKPOINT_PATH:
            parse_path(path)
        *folders, name = path.split("/")
        at = self._root()
        try:
            for each in folders:
                below = self._open(each, _FOLDER, at, path)
                if below is None:
                    return None
                os.close(at)
                at = below
            descriptor = self._open(name, _FILE, at, path)
        finally:
            os.close(at)
        return None if descriptor is None else self._content(descriptor, path, limit)

    def paths(self) -> Iterator[tuple[str, bool]]:
        """Every file below the folder, with whether it is a regular one; links are named, never followed.

        Raises:
            PathRefused: folders in folders, deeper than any log's.
        """
        yield from self._below(self._path, "", 0)

    def logs_below(self) -> tuple[str, ...]:
        """Folders of this one that hold a checkpoint: a gateway keeps each log in a folder of its own."""
        try:
            return tuple(sorted(str(found.parent) for found in self._path.glob(f"*/{CHECKPOINT_PATH}")))
        except OSError:
            return ()

    def private(self, name: str) -> bool:
        """Whether the file ``name`` of the folder itself is one that only its owner can open."""
        try:
            mode = (self._path / name).lstat().st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) and not mode & 0o077

    def _below(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, bool]]:
        if depth > _MAX_DEPTH:
            raise PathRefused("a folder is deeper than any of a log", where=prefix[:200])
        try:
            with os.scandir(folder) as found:
                entries = sorted((each.name, each.is_dir(follow_symlinks=False), each) for each in found)
        except OSError as error:
            raise LogUnavailable(
                "a folder cannot be read", where=prefix or self.name, found=error.strerror
            ) from error
        for name, is_folder, entry in entries:
            if is_folder:
                yield from self._below(folder / name, f"{prefix}{name}/", depth + 1)
            else:
                yield f"{prefix}{name}", entry.is_file(follow_symlinks=False)

    def _root(self) -> int:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise LogAbsent(
                "the folder of the log cannot be opened", where=self.name, found=error.strerror
            ) from error

    def _open(self, name: str, flags: int, at: int, path: str) -> int | None:
        try:
            return os.open(name, flags, dir_fd=at)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
                raise PathRefused(
                    "a link, or something else than a file, is in the log's folder",
                    where=path,
                    expected="regular files in folders",
                    hint="Copy the log's own files there.",
                ) from error
            raise LogUnavailable("a file cannot be read", where=path, found=error.strerror) from error

    def _content(self, descriptor: int, path: str, limit: int) -> bytes:
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PathRefused("not a regular file", where=path)
            content = os.read(descriptor, limit + 1)
        except OSError as error:
            raise LogUnavailable("a file cannot be read", where=path, found=error.strerror) from error
        finally:
            os.close(descriptor)
        if len(content) > limit:
            raise ResourceTooLarge("a file is too large", where=path, expected=f"at most {limit} bytes")
        return content
