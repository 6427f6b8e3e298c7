"""What a program has from the process that starts it: its confinement, control groups, limits, priorities, processors.

A program that another process started is given the same (proc(5), prlimit(2)), so that an operator's limits on a
command hold for all that the command uses. What cannot be given must be the same already: users, capabilities,
filters, and all namespaces but that of mounts.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.errors import StateError
from affiant.sandbox.isolation.plan import linux

__all__ = ["LIMITS", "give_callers", "join_groups", "require_same_confinement"]

_SAME_STATUS: Final = frozenset(
    {
        *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
        *("NoNewPrivs", "Seccomp", "Seccomp_filters"),
    }
)
_SAME_NAMESPACES: Final = ("cgroup", "ipc", "net", "pid", "pid_for_children", "time", "user", "uts")
LIMITS: Final = frozenset(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")) - {
    resource.RLIMIT_CORE,
    resource.RLIMIT_NOFILE,
}
"""Without that of core files, which no service writes, and that of descriptors, which comes last."""


def require_same_confinement(own: Path, others: Path) -> None:
    """Return if both processes, as folders in /proc, are confined in the same way.

    Raises:
        ``service.order``: they are not. OSError, ValueError: one is gone.
    """
    if _status(own) != _status(others) or os.readlink(others / "root") != "/":
        raise StateError("the two processes are confined differently", code="service.order")
    for name in _SAME_NAMESPACES:
        if os.readlink(own / "ns" / name) != os.readlink(others / "ns" / name):
            raise StateError(
                "the two processes are in different namespaces", found=name, code="service.order"
            )


def give_callers(pid: int, *, starter: int) -> None:
    """Give ``pid`` what it would have if this process had started it.

    Args:
        starter: who started it, and gave it what that has.

    Raises:
        ``service.order``, OSError: it cannot be given.
    """
    join_groups(pid, Path("/proc/self"))
    processors, priority = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    io_priority = linux.io_priority(0)
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        if os.sched_getaffinity(thread) != processors:
            os.sched_setaffinity(thread, processors)
        if os.getpriority(os.PRIO_PROCESS, thread) != priority:
            os.setpriority(os.PRIO_PROCESS, thread, priority)
        if linux.io_priority(thread) != io_priority:
            linux.set_io_priority(io_priority, thread)
    badness, its = Path("/proc/self/oom_score_adj").read_text(), Path(f"/proc/{pid}/oom_score_adj")
    if its.read_text() != badness:
        its.write_text(badness)
    for limit in (*LIMITS, resource.RLIMIT_NOFILE):
        wanted = resource.getrlimit(limit)
        if resource.prlimit(starter, limit) != wanted:
            resource.prlimit(pid, limit, wanted)


def _status(process: Path) -> Mapping[str, str]:
    lines = (line.partition(":") for line in (process / "status").read_text().splitlines())
    found = {name: value for name, _, value in lines if name in _SAME_STATUS}
    with suppress(OSError):  # no security module tells
        found["label"] = (process / "attr/current").read_text()
    return found


def join_groups(pid: int, others: Path) -> None:
    """Put ``pid`` into the control groups of ``others``: what limits and counts these does so there.

    Raises:
        ``service.order``: a group is not mounted here. OSError: the kernel refuses.
    """
    here, there = ((each / "cgroup").read_text().splitlines() for each in (Path(f"/proc/{pid}"), others))
    if here == there:
        return
    mounts = [mount for mount in linux.mount_table() if mount.kind in {"cgroup", "cgroup2"}]
    for line in set(there) - set(here):
        _, controllers, path = line.split(":", 2)
        wanted = set(controllers.split(",")) - {""}
        for mount in mounts:
            if (wanted and wanted <= set(mount.options)) or (not wanted and mount.kind == "cgroup2"):
                folder = Path(mount.at) / os.path.relpath(path, mount.root)
                (folder / "cgroup.procs").write_text(str(pid))
                break
        else:
            raise StateError(
                "the caller is in a control group that is not mounted here", code="service.order"
            )
