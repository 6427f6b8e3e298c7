"""Files that are there whole or not at all, and stay through a loss of power once the call has returned."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["sync_folder", "write_whole"]


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """Write ``data`` to ``path``; what stood there before stays until all of it is durable.

    Args:
        mode: of the file, less the process's umask.
        replace: False: refuse to write over anything, whoever comes first.

    Raises:
        FileExistsError: something stands there, and ``replace`` is False.
        OSError: it cannot be written; nothing of it is left.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(draft, flags, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path, follow_symlinks=False)  # unlike a rename, refuses what is there already
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
