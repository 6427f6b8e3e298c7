"""Processor time and memory of a tree of processes, by the kernel's own accounting in a control group.

A process that ends is still counted there, and so is one whose parent has ended, which getrusage(2) would miss.
Linux with control groups of version 1 (``cpuacct``) or 2, and the right to make one: root.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ENDS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group below the one that this process started in."""

    folder: Path
    members: Path
    """Where processes are put: in version 2 one level deeper, because the isolation runner makes a group beside it."""
    usage: Path

    def enter(self) -> None:
        """Put this process into the group."""
        (self.members / "cgroup.procs").write_text(str(os.getpid()))

    def processor_seconds(self) -> float:
        """What all processes that ever were in it have used, in user and system mode."""
        text = self.usage.read_text()
        if self.usage.name == "cpuacct.usage":  # nanoseconds
            return int(text) / 1e9
        return int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6

    def processes(self) -> list[int]:
        """The processes that are in it now."""
        found = [each for place in self.folder.rglob("cgroup.procs") for each in place.read_text().split()]
        return [int(number) for number in found]


@contextmanager
def control_group() -> Iterator[ControlGroup]:
    """A group of one's own, removed at the end. Its processes must have ended by then."""
    hierarchy, version = _own_folder()
    folder = hierarchy / f"affiant-bench-{os.getpid()}-{time.monotonic_ns()}"
    members = folder if version == 1 else folder / "members"
    try:
        members.mkdir(parents=True)
    except OSError as error:
        raise RuntimeError(
            f"no control group to count processor time in: {error.strerror}; run as root"
        ) from error
    try:
        yield ControlGroup(folder, members, folder / ("cpuacct.usage" if version == 1 else "cpu.stat"))
    finally:
        deadline = time.monotonic() + _ENDS_WITHIN_S
        for place in dict.fromkeys((members, folder)):
            _remove(place, deadline)


@contextmanager
def inside(group: ControlGroup) -> Iterator[None]:
    """This process, and whatever it starts, is in ``group`` for the block; what it started stays there."""
    hierarchy, _ = _own_folder()
    group.enter()
    try:
        yield
    finally:
        (hierarchy / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def counted() -> Iterator[ControlGroup]:
    """A group of one's own, and this process :func:`inside` it."""
    with control_group() as group, inside(group):
        yield group


def proportional_bytes(process: int) -> int:
    """Its memory with each shared page divided among those that share it (PSS, proc(5)); 0: it has ended."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def _own_folder() -> tuple[Path, int]:
    """The control group that this process is in, and the version of the hierarchy: where processor time is counted."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for _, controllers, path in own:
        for _, place, kind, options, *_ in mounts:
            if kind == "cgroup" and "cpuacct" in controllers.split(",") and "cpuacct" in options.split(","):
                return Path(place) / path.lstrip("/"), 1
    for _, controllers, path in own:
        for _, place, kind, *_ in mounts:
            if kind == "cgroup2" and not controllers:
                return Path(place) / path.lstrip("/"), 2
    raise RuntimeError("this machine has no control groups that count processor time")


def _remove(folder: Path, deadline: float) -> None:
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
