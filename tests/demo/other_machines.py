"""Programs that start the demo as another machine would: without gVisor, or without root.

Each is an argument vector to put before a command. What they change they change in a mount namespace of their
own, which ends with the command.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.gvisor import runsc_program

__all__ = ["NOBODY", "unprivileged", "without_gvisor"]

NOBODY: Final = 65534

_OWN_MOUNTS: Final = ("unshare", "--mount", "--propagation", "private", "sh", "-ec")


def without_gvisor() -> tuple[str, ...]:
    """``runsc`` cannot be run: a file that is no program stands over it."""
    program = runsc_program()
    if program is None:
        return ()
    return (*_OWN_MOUNTS, f'mount --bind /dev/null {shlex.quote(program)}; exec "$@"', "sh")


def unprivileged(*folders: Path) -> tuple[str, ...]:
    """As user ``nobody``, who can read this Python, its packages and ``folders``, wherever they lie.

    A folder that others may not enter is covered by an empty one, in which only what is needed is shown.
    """
    packages = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    needed = [str(path) for path in dict.fromkeys((sys.base_prefix, *packages, *map(str, folders)))]
    quoted = [shlex.quote(path) for path in needed]
    kept = [f"/mnt/{number}" for number in range(len(needed))]
    script = [
        "mount -t tmpfs -o mode=755 none /mnt",
        *(f"mkdir {at}; mount --rbind {path} {at}" for at, path in zip(kept, quoted, strict=True)),
        *(f"mount -t tmpfs -o mode=755 none {shlex.quote(top)}" for top in _closed(needed)),
        *(f"mkdir -p {path}; mount --rbind {at} {path}" for at, path in zip(kept, quoted, strict=True)),
        'cd "$1"; shift',
        f'exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups -- "$@"',
    ]
    return (*_OWN_MOUNTS, "\n".join(script), "sh")


def _closed(paths: Iterable[str]) -> list[str]:
    """The outermost folder above each path that others may not enter."""
    found = []
    for path in paths:
        above = [folder for folder in reversed(Path(path).parents) if not _open_to_others(folder)]
        found += above[:1]
    return [str(folder) for folder in dict.fromkeys(found)]


def _open_to_others(folder: Path) -> bool:
    return bool(os.stat(folder).st_mode & stat.S_IXOTH)
