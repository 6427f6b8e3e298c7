"""The host's view: which processes there are, and whether bytes are anywhere in their memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
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
    started: int
    """Clock ticks since the machine's start: with the number, it names a process for good."""


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
        fields = status.rpartition(")")[2].split()
        found.append(Process(int(folder.name), int(fields[1]), command, int(fields[19])))
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
    folder = f"/proc/{pid}"
    with (
        open(f"{folder}/mem", "rb", buffering=0) as memory,
        open(f"{folder}/pagemap", "rb", buffering=0) as table,
    ):
        for start, end in _mappings(pid):
            for first, last in _resident(table.fileno(), start, end):
                yield from _chunks(memory.fileno(), first, last, overlap)


def _mappings(pid: int) -> Iterator[tuple[int, int]]:
    """The readable mappings of which something is resident: a sandbox reserves terabytes and uses little."""
    span = None
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = line.split(maxsplit=1)[0]
        if "-" in head and not head.endswith(":"):
            mode = line.split()[1]
            hidden = line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]"))
            span = None if mode[0] != "r" or hidden else head
        elif span is not None and head == "Rss:" and line.split()[1] != "0":
            start, end = (int(part, 16) for part in span.split("-"))
            yield start, end


def _resident(table: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The resident stretches of a mapping, by the kernel's page map (8 bytes a page)."""
    position = start
    while position < end:
        pages = min((end - position) // _PAGE, 1 << 16)
        entries = os.pread(table, pages * 8, position // _PAGE * 8)
        if entries.count(0) != len(entries):
            there = [entry & (_PRESENT | _SWAPPED) != 0 for entry in memoryview(entries).cast("Q")]
            for resident, run in groupby(range(len(there)), there.__getitem__):
                indices = list(run)
                if resident:
                    yield position + indices[0] * _PAGE, position + (indices[-1] + 1) * _PAGE
        position += pages * _PAGE


def _chunks(memory: int, start: int, end: int, overlap: int) -> Iterator[bytes]:
    size = 4 << 20
    position = start
    while position < end:
        try:
            yield os.pread(memory, min(size, end - position), position)
        except OSError:  # unmapped since, or not backed
            return
        position += size - overlap if end - position > size else size
