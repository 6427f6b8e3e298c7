"""Files that are there whole or not at all, and stay through a loss of power once the call has returned; and files that
are read only if other users cannot read them."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = [
    "ExposedFile",
    "is_stream",
    "put_whole",
    "read_private",
    "refuse_stream",
    "sync_folder",
    "write_whole",
]

_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""File systems without hard links, as on a memory stick."""


class ExposedFile(OSError):
    """A private file that is no regular one, or that other users can reach.

    Args:
        mode: its permissions.
    """

    def __init__(self, path: Path, mode: int) -> None:
        super().__init__(errno.EPERM, f"mode {mode:04o}", str(path))
        self.mode = mode


def read_private(path: Path, *, limit: int) -> bytes:
    """At most ``limit`` + 1 bytes of a file of mode 0600 or less; a link is not followed, a pipe not waited for.

    Raises:
        ExposedFile: other users can reach it, or it is no regular file. OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
            raise ExposedFile(path, stat.S_IMODE(status.st_mode))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(descriptor)


def is_stream(path: Path) -> bool:
    """Whether something is at ``path`` that is neither file nor folder: a device, a pipe, a terminal."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def refuse_stream(path: Path) -> None:
    """Refuse to put a file in place of what is none: as root, ``/dev/null`` would be gone for every program.

    Raises:
        FileExistsError: a device, a pipe or a socket is there, or a link to one.
    """
    if is_stream(path):
        raise FileExistsError(errno.EEXIST, "it is no regular file, and would be replaced by one", str(path))


def write_whole(
    path: Path, data: bytes, *, mode: int = 0o644, exact: bool = False, replace: bool = True
) -> None:
    """Write ``data`` to ``path``; the file that was there before stays until all of it is durable.

    Args:
        mode: of the file, less the process's umask.
        exact: True: the umask takes nothing from the mode.
        replace: False: fail if a file is there, also one that was made meanwhile.

    Raises:
        FileExistsError: a file is there, and ``replace`` is False; or a device, a pipe or a socket.
        OSError: it cannot be written; nothing of it is left.
    """
    put_whole(path, data, mode=mode, exact=exact, replace=replace)
    sync_folder(path.parent)


def put_whole(
    path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o644, exact: bool = False, replace: bool = True
) -> None:
    """As :func:`write_whole`, but the file's name is not durable until its folder is (:func:`sync_folder`)."""
    refuse_stream(path)
    draft = path.parent / f".{secrets.token_hex(8)}.new"  # another name than whatever a killed writer left
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, mode)
    try:
        with open(descriptor, "wb") as file:
            if exact:
                os.fchmod(descriptor, mode)
            file.writelines((data,) if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            _place(draft, path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _place(draft: Path, path: Path) -> None:
    """Unlike a rename, refuse what is there already; where there are no hard links, as well as that can be done."""
    try:
        os.link(draft, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        draft.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
