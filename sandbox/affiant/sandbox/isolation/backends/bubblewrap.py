"""bubblewrap: namespaces, Landlock and a system call filter over the machine's own kernel: the fallback.

The sandbox's file system is a tmpfs into which the same skeleton, read-only root and session directories are
shown as under gVisor. The network namespace is the runner's, where only loopback and the proxy's listening
socket exist. Arguments travel through a descriptor (``--args``), so that no program inside can read them from
``/proc/1/cmdline``. The sandbox's first process is a program of the runner's (``entering``) that applies Landlock and
the filter to itself; each command enters the sandbox's namespaces and does the same. A kernel without Landlock
refuses, there is no best effort.

Everything here is pure but :func:`open_launch`, which makes the descriptors that bwrap reads.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.entering import Confinement, Landlock, first_process
from affiant.sandbox.isolation.plan.plan import AGENT_GID, AGENT_UID, Mask, SandboxPlan, Scratch
from affiant.sandbox.isolation.plan.rootfs import Shown, mount_order

__all__ = [
    "FIRST_AT",
    "Launch",
    "bwrap_arguments",
    "bwrap_program",
    "close_all",
    "landlock_of",
    "open_launch",
]

FIRST_AT: Final = "/run/affiant/first"
"""Where the first process's executable lies inside; the agent may read it."""

_DEVICES: Final = ("full", "null", "random", "tty", "urandom", "zero")


@dataclass(frozen=True, slots=True)
class Launch:
    """What to execute: bwrap with the descriptors that it reads from."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]
    report: int
    """Reading end: what the first process says."""


def bwrap_arguments(
    plan: SandboxPlan, shown: Sequence[Shown], *, root: Path, first_fd: int
) -> tuple[str, ...]:
    """The arguments of bwrap(1) for ``plan``, without the program's own name."""
    return (
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--disable-userns", "--assert-userns-disabled", "--die-with-parent", "--new-session"),
        *("--uid", str(AGENT_UID), "--gid", str(AGENT_GID), "--hostname", plan.hostname),
        *("--cap-drop", "ALL", "--clearenv"),
        *_skeleton(root),
        *(word for item in mount_order(plan, shown) for word in _mount(item)),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(plan.limits.tmp_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
        *("--perms", "0555"),
        *("--ro-bind-data", str(first_fd), FIRST_AT),
        *("--remount-ro", "/", "--remount-ro", "/run"),
        *("--chdir", "/", "--as-pid-1", "--", FIRST_AT),
    )


def _skeleton(root: Path) -> list[str]:
    """The skeleton's links, directories and ``/etc``, made again in bwrap's tmpfs."""
    words = ["--perms", "0755", "--tmpfs", "/run"]
    for entry in sorted(root.iterdir()):
        inside = f"/{entry.name}"
        if entry.is_symlink():
            words += ["--symlink", str(entry.readlink()), inside]
        elif entry.name == "etc":
            words += ["--ro-bind", str(entry), inside]
        elif entry.is_dir() and entry.name not in {"dev", "proc", "run", "sys"}:
            words += ["--dir", inside]
    return words


def _mount(item: Shown | Scratch | Mask) -> tuple[str, ...]:
    match item:
        case Shown(target, source, writable):
            return ("--bind" if writable else "--ro-bind", source, target)
        case Scratch(target, size):
            return ("--perms", "1777", "--size", str(size), "--tmpfs", target)
        case Mask(target):
            return ("--perms", "0555", "--size", "4096", "--tmpfs", target, "--remount-ro", target)


def landlock_of(plan: SandboxPlan, abi: int) -> Landlock:
    """What Landlock lets be written: where the plan does, and devices."""
    writable = [bind.target for bind in plan.binds if bind.writable] + [item.target for item in plan.scratch]
    devices = tuple(f"/dev/{name}" for name in _DEVICES)
    return Landlock(abi, (*writable, "/dev/pts", "/dev/shm"), devices)  # noqa: S108 - inside


def open_launch(
    program: str, plan: SandboxPlan, shown: Sequence[Shown], *, root: Path, confinement: Confinement
) -> Launch:
    """Make the descriptors, and the command line that names them. The caller closes them all."""
    report, tell = os.pipe2(os.O_CLOEXEC)
    first = _memory("first", first_process(confinement, report=tell))
    arguments = bwrap_arguments(plan, shown, root=root, first_fd=first)
    args = _memory("args", b"".join(word.encode() + b"\0" for word in arguments[: arguments.index("--")]))
    argv = (program, "--args", str(args), *arguments[arguments.index("--") :])
    return Launch(argv=argv, descriptors=(tell, first, args), report=report)


def close_all(descriptors: Sequence[int]) -> None:
    """Close the launch's descriptors on this side."""
    for fd in descriptors:
        os.close(fd)


def _memory(name: str, content: bytes) -> int:
    """An anonymous, sealed file with ``content``, read from its start."""
    fd = os.memfd_create(f"affiant-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


def bwrap_program() -> str | None:
    """Where ``bwrap`` is on this machine."""
    return shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
