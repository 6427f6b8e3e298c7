"""Keeps files in a folder that only this user can reach, each whole or not at all, under one lock.

Everything is reached through a descriptor of the folder, so that a link put in its place later changes nothing.
Files are 0600 and folders 0700; what others own or can reach is refused, not repaired.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from affiant.attestation.quote.collateral.errors import CacheBusy, CacheDamaged, SettingsInvalid
from affiant.folders import make_private

__all__ = ["PrivateFolder"]

_OTHERS: Final = 0o077
_DRAFT: Final = ".new"
_POLLS: Final = 200
_POLL_S: Final = 0.05
"""10 seconds in all; storing takes milliseconds."""


class PrivateFolder:
    """An open folder. Made by :meth:`open`, good until its block ends."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, create: bool) -> Iterator[Self]:
        """The folder at ``path``; with ``create``, made (with those above it) where it is missing.

        Raises:
            FileNotFoundError: it is missing.
            SettingsInvalid: a link, no folder, another user's, or others can reach it.
        """
        try:
            if create:
                make_private(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SettingsInvalid(
                "the folder cannot be used",
                where=str(path),
                found=error.strerror,
                expected="a folder of this user, no link",
            ) from error
        try:
            _demand_private(os.fstat(descriptor), path)
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def child(self, name: str, *, create: bool = False) -> Iterator[PrivateFolder]:
        """The folder ``name`` in this one, in the same way.

        Raises:
            CacheDamaged: it is missing.
        """
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self._descriptor)
        try:
            opened = os.open(
                name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._descriptor
            )
        except OSError as error:
            raise CacheDamaged(
                "a folder of the cache is missing, or no folder", where=str(self.path / name)
            ) from error
        try:
            _demand_private(os.fstat(opened), self.path / name)
            yield PrivateFolder(self.path / name, opened)
        finally:
            os.close(opened)

    @contextmanager
    def locked(self, name: str, *, shared: bool) -> Iterator[None]:
        """Hold the lock file ``name``. Readers share it, and do not make it.

        Raises:
            CacheBusy: others hold it for longer than ten seconds.
            CacheDamaged: it cannot be opened.
        """
        flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
        try:
            lock = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)
        except OSError as error:
            raise CacheDamaged(
                "the lock cannot be opened", where=str(self.path / name), found=error.strerror
            ) from error
        try:
            self._wait_for(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _wait_for(self, lock: int, kind: int) -> None:
        for _ in range(_POLLS):
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_S)
            else:
                return
        raise CacheBusy(
            "another process holds the cache",
            where=str(self.path),
            hint="Try again, or end the process that holds its lock.",
        )

    def names(self) -> tuple[str, ...]:
        """The files, sorted; unfinished ones left out."""
        return tuple(sorted(name for name in os.listdir(self._descriptor) if not name.endswith(_DRAFT)))

    def read(self, name: str, *, limit: int) -> bytes | None:
        """The content of ``name``, or None where there is no such file.

        Raises:
            CacheDamaged: no regular file, or larger than ``limit``.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheDamaged(
                "a file cannot be read", where=str(self.path / name), found=error.strerror
            ) from error
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CacheDamaged("not a regular file", where=str(self.path / name))
            content = file.read(limit + 1)
        if len(content) > limit:
            raise CacheDamaged(
                "a file is too large", where=str(self.path / name), expected=f"at most {limit} bytes"
            )
        return content

    def write(self, name: str, data: bytes) -> None:
        """Whole or not at all, durable before the return; what stood there before stays until then."""
        draft = name + _DRAFT
        self.remove(draft)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(draft, flags, 0o600, dir_fd=self._descriptor), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        os.fsync(self._descriptor)

    def remove(self, name: str) -> None:
        """Remove the file ``name``, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)


def _demand_private(status: os.stat_result, path: Path) -> None:
    """Refuse what belongs to somebody else (root may use any owner's) or what others may reach."""
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise SettingsInvalid("the folder belongs to another user", where=str(path))
    if status.st_mode & _OTHERS:
        raise SettingsInvalid(
            "other users can reach the folder",
            where=str(path),
            found=f"mode {stat.S_IMODE(status.st_mode):04o}",
            hint="Take their access away (chmod go=), or name another folder.",
        )
