"""How much a sandbox uses, read from /proc; and whether that is more than its plan allows.

Memory is the proportional share of all processes in the enclosure (``Pss``): what the machine would get back
if the sandbox ended. Under gVisor that includes the sandbox's own kernel. Read four times a second; where the
kernel enforces a limit itself (number of processes under bubblewrap, size of /tmp), it does so at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from affiant.sandbox.isolation.errors import LimitExceeded
from affiant.sandbox.isolation.plan import Limits

__all__ = ["Usage", "check_limits", "measure"]


@dataclass(frozen=True, slots=True)
class Usage:
    """At one moment: bytes of memory, and processes as this machine counts them."""

    memory_bytes: int
    processes: int


def measure(namespace: str) -> Usage:
    """What the processes in the process namespace ``namespace`` (readlink of ns/pid), or below it, use."""
    memory = processes = 0
    for process in _members(namespace):
        processes += 1
        memory += _proportional_bytes(process)
    return Usage(memory, processes)


def check_limits(usage: Usage, limits: Limits) -> None:
    """Refuse more memory than the plan allows.

    Raises:
        LimitExceeded: it is more.
    """
    if usage.memory_bytes > limits.memory_bytes:
        raise LimitExceeded(
            "the sandbox used more memory than its limit and was ended",
            where="memory",
            expected=f"at most {limits.memory_bytes} bytes",
            found=f"{usage.memory_bytes} bytes",
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


def _proportional_bytes(process: Path) -> int:
    try:
        for line in (process / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return 0
