"""Addresses of Unix sockets whose path is longer than a socket address can hold.

``sun_path`` holds 107 bytes (unix(7)). A longer path is reached through a descriptor of its folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["reachable_address"]

_MAX_ADDRESS: Final = 107


@contextmanager
def reachable_address(path: Path) -> Iterator[str]:
    """An address that binds or connects to ``path``, good until the block ends.

    Raises:
        OSError: the folder cannot be opened.
    """
    if len(os.fsencode(path)) <= _MAX_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
