"""How much a sandbox uses, read from /proc; and whether that is more than its plan allows.

Memory is what the machine would get back if the sandbox ended: the processes' own pages and their shared ones.
Under gVisor all memory of the agent is one anonymous file of the sandbox's kernel, much of it mapped nowhere, so
such files count by their size on the machine. Read twice a second, and only where there is no memory cgroup: with one,
the kernel keeps the limit itself.

Files are what lies in the session's own directories, and what lies in no directory any more but is still open. They
are read every two seconds, or less often where that takes long; and at once when the file system has lost half of
what the session has left, which is asked ten times a second. One file alone never grows beyond the limit: the kernel
keeps that. Between two looks, many files together can. The other limits (processes, open files, size of /tmp) are
kept at once by the kernel under the agent, whichever kernel that is.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.isolation.plan.errors import LimitExceeded
from affiant.sandbox.isolation.plan.plan import Limits
from affiant.sandbox.workspace.tree import TreeTooLarge
from affiant.sandbox.workspace.walk import Limits as TreeLimits
from affiant.sandbox.workspace.walk import open_directory, walk

__all__ = [
    "check_files",
    "check_input",
    "check_memory",
    "free_bytes",
    "measure_files",
    "measure_memory",
    "measure_unlinked",
    "memory_exceeded",
]

_LOOKED_AT: Final = TreeLimits(files=500_000, depth=128)

_FIRST_DESCRIPTORS: Final = 64
"""gVisor's kernel opens its memory file before anything else; an agent's own thousands are not looked at."""


def measure_memory(namespace: str) -> int:
    """Bytes of memory that the processes in the process namespace ``namespace`` (readlink of ns/pid) and below use."""
    own = shared = 0
    files: dict[int, int] = {}
    for process in _members(namespace):
        pages = _pages(process)
        own += pages.get("Pss_Anon", 0)
        shared += pages.get("Pss_Shmem", 0)
        files.update(_anonymous_files(process))
    return own + max(shared, sum(files.values()))


def check_memory(used: int, limits: Limits) -> None:
    """Refuse more memory than the plan allows.

    Raises:
        LimitExceeded: it is more.
    """
    if used > limits.memory_bytes:
        raise memory_exceeded(limits, found=f"{used} bytes")


def memory_exceeded(limits: Limits, *, found: str) -> LimitExceeded:
    """The error of a sandbox that used more memory than the plan allows."""
    return LimitExceeded(
        "the sandbox used more memory than its limit and was ended",
        where="memory",
        expected=f"at most {limits.memory_bytes} bytes",
        found=found,
    )


def measure_files(folder: Path) -> int:
    """Bytes on the machine of all files below ``folder``, which a hostile agent writes to while we look.

    Raises:
        LimitExceeded: so many files or levels that they cannot be looked at.
    """
    total = 0
    try:
        with open_directory(folder) as root:
            for found in walk(root, limits=_LOOKED_AT, refuse=lambda _path, _error: None):
                with suppress(FileNotFoundError):
                    total += os.stat(found.name, dir_fd=found.parent, follow_symlinks=False).st_blocks * 512
    except TreeTooLarge as error:
        raise LimitExceeded(
            "the sandbox made more files or levels of directories than its limit and was ended",
            where="files",
            expected=f"at most {_LOOKED_AT.files} files, {_LOOKED_AT.depth} levels",
        ) from error
    return total


def measure_unlinked(namespace: str, devices: Collection[int]) -> int:
    """Bytes on the machine of files on ``devices`` that have no name any more and that a process in the process
    namespace ``namespace`` (readlink of ns/pid) or below has open.

    Args:
        devices: st_dev of the session's directories.
    """
    found: dict[tuple[int, int], int] = {}
    for process in _members(namespace):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for descriptor in os.scandir(process / "fd"):
                with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                    if os.readlink(descriptor.path).endswith(" (deleted)"):
                        facts = os.stat(descriptor.path)
                        if facts.st_dev in devices and facts.st_nlink == 0:
                            found[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(found.values())


def free_bytes(folder: Path) -> int:
    """Bytes that are free on the file system of ``folder``, which other programs use too."""
    facts = os.statvfs(folder)
    return facts.f_bfree * facts.f_frsize


def check_files(total: int, limits: Limits) -> None:
    """Refuse more bytes in files than the plan allows.

    Raises:
        LimitExceeded: it is more.
    """
    if total > limits.files_bytes:
        raise LimitExceeded(
            "the sandbox wrote more into its files than its limit and was ended",
            where="files",
            expected=f"at most {limits.files_bytes} bytes",
            found=f"{total} bytes",
        )


def check_input(total: int, limits: Limits) -> None:
    """Refuse to run a command over files that are more than the plan allows.

    Raises:
        ``isolation.plan``: they are.
    """
    if total > limits.files_bytes:
        raise ConfigurationError(
            "the session's files are larger than its disk limit before the command runs",
            expected=f"at most {limits.files_bytes} bytes",
            found=f"{total} bytes",
            hint="Give a smaller --input, or a larger `disk` in the profile.",
            code="isolation.plan",
        )


def _members(namespace: str) -> Iterator[Path]:
    """Processes whose namespace is it, and their descendants in namespaces further in."""
    parents: dict[int, int] = {}
    inside: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_bytes()
            parents[int(entry.name)] = int(stat[stat.rindex(b")") + 2 :].split()[1])
            if os.readlink(entry / "ns" / "pid") == namespace:
                inside.add(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    for pid in parents:
        above: int | None = pid
        while above and above not in inside:
            above = parents.get(above)
        if above:
            yield Path("/proc", str(pid))


def _pages(process: Path) -> dict[str, int]:
    """Bytes by kind, shared ones by this process's part (proc(5), smaps_rollup)."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    fields = (line.split() for line in lines)
    return {field[0].rstrip(":"): int(field[1]) * 1024 for field in fields if len(field) == 3}


def _anonymous_files(process: Path) -> dict[int, int]:
    """Inode -> bytes on the machine, of the memfds among the descriptors that a process opened first."""
    found = {}
    for number in range(_FIRST_DESCRIPTORS):
        descriptor = process / "fd" / str(number)
        try:
            if os.readlink(descriptor).startswith("/memfd:"):
                facts = descriptor.stat()
                found[facts.st_ino] = facts.st_blocks * 512
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
