"""The host's view: which processes there are, and whether bytes are anywhere in their memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = 1 << 63
_SWAPPED = 1 << 62


@dataclass(frozen=True)
class Process:
    """One process of the host."""

    pid: int
    parent: int
    command: str


def all_processes() -> list[Process]:
    """Every process that the host shows now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            )
        except OSError:
            continue
        found.append(Process(int(folder.name), int(status.rpartition(")")[2].split()[1]), command))
    return found


def descendants(root: int) -> list[Process]:
    """The processes below ``root``, itself included."""
    processes = {process.pid: process for process in all_processes()}
    kept = {root}
    while True:
        more = {p.pid for p in processes.values() if p.parent in kept} - kept
        if not more:
            return [processes[pid] for pid in kept if pid in processes]
        kept |= more


def holds(pid: int, needle: bytes) -> str | None:
    """Where a process holds ``needle``: ``environment``, ``arguments``, ``memory``, or None.

    Raises:
        PermissionError: this user may not look.
    """
    for part, name in (("environ", "environment"), ("cmdline", "arguments")):
        if needle in Path(f"/proc/{pid}/{part}").read_bytes():
            return name
    return "memory" if any(needle in chunk for chunk in _memory(pid, len(needle))) else None


def _memory(pid: int, overlap: int) -> Iterator[bytes]:
    """What is resident of a process's readable mappings; neighbouring chunks overlap."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with (
        open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
        open(f"/proc/{pid}/pagemap", "rb", buffering=0) as table,
    ):
        for line in maps:
            span, mode = line.split()[:2]
            if mode[0] != "r" or line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            for first, last in _resident(table, start, end):
                yield from _chunks(memory, first, last, overlap)


def _resident(table: object, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The resident stretches of a mapping; a huge one is mostly holes."""
    position = start
    while position < end:
        pages = min((end - position) // _PAGE, 1 << 16)
        entries = os.pread(table.fileno(), pages * 8, position // _PAGE * 8)
        run = None
        for index in range(len(entries) // 8):
            there = int.from_bytes(entries[index * 8 : index * 8 + 8], "little") & (_PRESENT | _SWAPPED)
            if there and run is None:
                run = position + index * _PAGE
            elif not there and run is not None:
                yield run, position + index * _PAGE
                run = None
        if run is not None:
            yield run, position + pages * _PAGE
        position += pages * _PAGE


def _chunks(memory: object, start: int, end: int, overlap: int) -> Iterator[bytes]:
    size = 4 << 20
    position = start
    while position < end:
        try:
            yield os.pread(memory.fileno(), min(size, end - position), position)
        except OSError:  # unmapped since, or not backed
            return
        position += size - overlap if end - position > size else size
