"""Opens and reads files that only this user and root can reach, by a descriptor that can be handed to the broker."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from affiant.errors import ConfigurationError

__all__ = ["open_private_file", "read_private_descriptor"]


def open_private_file(path: Path) -> int:
    """A descriptor for reading a regular file that only this user (and root) can read or change.

    The caller closes it; it may be handed to a broker whose user could not open the file.

    Raises:
        ``store.permissions``: another kind of file, another owner, rights for group or others, or a symbolic link.
        FileNotFoundError: there is no such file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigurationError(
            "the file cannot be opened as a private file",
            found=f"{path.name}: {os.strerror(error.errno or 0)}",
            code="store.permissions",
        ) from error
    try:
        _require_private(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError("not a regular file", found=path.name, code="store.permissions")
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigurationError(
            "the file belongs to another user",
            found=f"{path.name}, uid {status.st_uid}",
            code="store.permissions",
        )
    if status.st_mode & 0o077:
        raise ConfigurationError(
            "the file can be reached by other users",
            expected="mode 0600",
            found=f"{path.name}, mode {stat.S_IMODE(status.st_mode):04o}",
            hint=f"Run: chmod 600 on {path.name}; if others could read it, change what is in it",
            code="store.permissions",
        )


def read_private_descriptor(descriptor: int, *, limit: int) -> bytes:
    """All of a file from its beginning, wherever the descriptor's position is.

    Raises:
        ``store.key``: more than ``limit`` bytes.
    """
    data = b""
    while chunk := os.pread(descriptor, limit + 1 - len(data), len(data)):
        data += chunk
        if len(data) > limit:
            raise ConfigurationError(
                "the file is too large", expected=f"at most {limit} bytes", code="store.key"
            )
    return data
