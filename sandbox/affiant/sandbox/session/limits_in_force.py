"""The limits of a session, and which mechanism enforces each: what ``info`` reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.policy.model.limits import Bounds
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.session.session_plan import SessionPlan
from affiant.sandbox.session_acts.captured import CAPTURE_LIMIT
from affiant.sandbox.supervisor.acts import MOST_ACTS

__all__ = ["limits_and_mechanisms"]

_KERNEL: Final = {BackendName.GVISOR: "gVisor's kernel", BackendName.BUBBLEWRAP: "the machine's kernel"}
_PROCESSORS: Final = {
    BackendName.GVISOR: "processor affinity of gVisor's kernel, which the agent cannot reach",
    BackendName.BUBBLEWRAP: "processor affinity, the machine's kernel; seccomp rejects a change",
}
_MEMORY: Final = {
    "cgroup": "memory cgroup; a process beyond it is ended, and the sandbox with it",
    "watchdog": "the runner reads /proc twice a second, and ends the sandbox",
}


def limits_and_mechanisms(plan: SessionPlan, *, memory: str | None) -> Mapping[str, Mapping[str, object]]:
    """Each limit: its value (bytes, counts or seconds; None: none is set) and what enforces it.

    Args:
        memory: what the runner said keeps the memory: ``cgroup`` or ``watchdog``; None: it did not say.
    """
    limits, profile, kernel = plan.sandbox.limits, plan.profile.compiled.limits, _KERNEL[plan.backend]
    told: Mapping[str, tuple[object, str]] = {
        "memory": (limits.memory_bytes, _MEMORY.get(memory or "", "the runner")),
        "processes": (limits.processes, f"RLIMIT_NPROC, {kernel}"),
        "open_files": (limits.open_files, f"RLIMIT_NOFILE for each process, {kernel}"),
        "file": (limits.file_bytes, f"RLIMIT_FSIZE, {kernel}"),
        "disk": (limits.files_bytes, "the runner looks at the session's files, and ends the sandbox"),
        "scratch": (limits.tmp_bytes, f"size of /tmp and of /dev/shm, {kernel}"),
        "cpus": (limits.cpus, _PROCESSORS[plan.backend]),
        "wall": (profile.wall, "the supervisor's clock; it ends the session"),
        "lease": (plan.lease_s, "the supervisor's clock; it ends the session"),
        "output": (CAPTURE_LIMIT, "the launcher keeps so much of each stream of a command, and reads on"),
        "commands": (MOST_ACTS, "the supervisor rejects more acts at once"),
        "egress_bytes": (_most(profile.bytes_out), "the supervisor's egress proxy, before a byte is sent"),
    }
    return {name: {"value": value, "enforced_by": by} for name, (value, by) in told.items()}


def _most(bounds: Bounds) -> int | None:
    """The bound of the whole session, else the tightest of those of a time window."""
    whole = [bound.most for bound in bounds if bound.per is None]
    return min(whole or [bound.most for bound in bounds], default=None)
