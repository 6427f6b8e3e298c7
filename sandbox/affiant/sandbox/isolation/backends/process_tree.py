"""Processes and their descent, as /proc shows them on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["children_of", "descendants", "machine_processes", "own_pid"]


def descendants(first: int, processes: Iterable[tuple[int, int]]) -> list[int]:
    """``first`` and the pids of all that descend from it, of (pid, parent) pairs; empty: it is not among them."""
    below: dict[int, list[int]] = {}
    known = set()
    for pid, parent in processes:
        known.add(pid)
        below.setdefault(parent, []).append(pid)
    if first not in known:
        return []
    found, seen = [first], {first}
    for pid in found:
        new = [each for each in below.get(pid, ()) if each not in seen]
        seen.update(new)
        found += new
    return found


def machine_processes() -> list[tuple[int, int]]:
    """(pid, parent) of what /proc shows."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.append((int(entry.name), int(stat[stat.rindex(b")") + 2 :].split()[1])))
    return found


def children_of(parent: int) -> list[int]:
    """The children of a process."""
    return [pid for pid, above in machine_processes() if above == parent]


def own_pid(init: int, inside: int) -> int:
    """This machine's pid of the process that is ``inside`` in the namespace of ``init``, below it.

    Raises:
        ProcessLookupError: there is none.
    """
    for pid in descendants(init, machine_processes()):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        counted = facts["NSpid"].split()
        if len(counted) >= 2 and pid != init and int(counted[-1]) == inside:
            return pid
    raise ProcessLookupError
