"""Defines the smallest interface to the kernel's file trees: a directory, one whole read, one whole write.

Files of configfs and sysfs are calls in disguise. A write must be one ``write(2)`` of everything, a read goes on to
the end, files can be neither made nor unlinked, and errors are the kernel's answers. Everything that talks to such
a tree goes through here, so that a fake with the kernel's rules can be in its place.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Protocol

__all__ = ["KernelFiles", "OSKernelFiles"]


class KernelFiles(Protocol):
    """A tree of the kernel's. Every method raises :class:`OSError` with the kernel's ``errno``."""

    def mkdir(self, path: Path) -> None:
        """Make one directory, whose files the kernel makes with it."""
        ...

    def rmdir(self, path: Path) -> None:
        """Remove it with its files, which cannot be unlinked one by one."""
        ...

    def read(self, path: Path, *, limit: int) -> bytes:
        """The whole content; EFBIG beyond ``limit`` bytes."""
        ...

    def write(self, path: Path, data: bytes) -> None:
        """All of ``data`` by one write at offset 0; EIO if the kernel took less."""
        ...


class OSKernelFiles:
    """The running kernel's."""

    def mkdir(self, path: Path) -> None:
        """See :class:`KernelFiles`."""
        os.mkdir(path, 0o700)

    def rmdir(self, path: Path) -> None:
        """See :class:`KernelFiles`."""
        os.rmdir(path)

    def read(self, path: Path, *, limit: int) -> bytes:
        """See :class:`KernelFiles`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            content = bytearray()
            while chunk := os.read(descriptor, min(65536, limit + 1 - len(content))):
                content += chunk
                if len(content) > limit:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
            return bytes(content)
        finally:
            os.close(descriptor)

    def write(self, path: Path, data: bytes) -> None:
        """See :class:`KernelFiles`."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.EIO, "the kernel took a part of it", str(path))
        finally:
            os.close(descriptor)
