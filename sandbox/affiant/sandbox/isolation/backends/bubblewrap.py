"""bubblewrap: namespaces, Landlock and a system call filter over the machine's own kernel: the fallback.

The sandbox's file system is a tmpfs into which the same skeleton, read-only root and session directories are
shown as under gVisor. The network namespace is the runner's, where only loopback and the proxy's listening
socket exist. Arguments travel through a descriptor (``--args``), so that no program inside can read them from
``/proc/1/cmdline``. Before the agent's command, ``confine`` applies Landlock; a
kernel without it refuses, there is no best effort.

Everything here is pure but :func:`open_launch`, which makes the descriptors that bwrap reads.
"""

from __future__ import annotations

import fcntl
import json
import os
import pkgutil
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends import confine
from affiant.sandbox.isolation.plan.plan import AGENT_GID, AGENT_UID, Command, Mask, SandboxPlan, Scratch
from affiant.sandbox.isolation.plan.rootfs import Shown, mount_order

__all__ = [
    "CONFINE_AT",
    "Launch",
    "bwrap_arguments",
    "bwrap_program",
    "close_all",
    "confine_order",
    "open_launch",
]

CONFINE_AT: Final = "/run/affiant/confine.py"
"""Where the confining step lies inside; the agent may read it."""

_PYTHON: Final = "/usr/bin/python3"
_DEVICES: Final = ("full", "null", "random", "tty", "urandom", "zero")


@dataclass(frozen=True, slots=True)
class Launch:
    """What to execute: bwrap with descriptors that it reads its arguments, filter, script and order from."""

    argv: tuple[str, ...]
    descriptors: tuple[int, ...]
    status: int
    """Reading end: what the confining step says."""
    report: int
    """Reading end: what bwrap says (``--json-status-fd``)."""


def bwrap_arguments(
    plan: SandboxPlan,
    command: Command,
    shown: Sequence[Shown],
    *,
    root: Path,
    seccomp_fd: int,
    script_fd: int,
    order_fd: int,
    report_fd: int,
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
        *("--perms", "0644"),
        *("--ro-bind-data", str(script_fd), CONFINE_AT),
        *("--remount-ro", "/", "--remount-ro", "/run"),
        *("--chdir", command.cwd, "--seccomp", str(seccomp_fd), "--json-status-fd", str(report_fd)),
        *("--", _PYTHON, "-I", "-S", "-B", CONFINE_AT, str(order_fd)),
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


def confine_order(plan: SandboxPlan, command: Command, *, status_fd: int) -> bytes:
    """What the confining step reads: Landlock's rules from the plan, limits, and the command."""
    writable = [bind.target for bind in plan.binds if bind.writable] + [item.target for item in plan.scratch]
    devices = [f"/dev/{name}" for name in _DEVICES] + ["/dev/pts", "/dev/shm"]  # noqa: S108 - inside
    limits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": plan.limits.file_bytes,
        "RLIMIT_NOFILE": plan.limits.open_files,
        "RLIMIT_NPROC": plan.limits.processes,
    }
    return json.dumps(
        {
            "status": status_fd,
            "read": ["/"],
            "write": [*writable, *devices],
            "limits": limits,
            "argv": list(command.argv),
            "env": dict(command.env),
        }
    ).encode()


def _confine_source() -> bytes:
    """The program ``confine`` as bytes: from the measured image where this process runs one."""
    source = pkgutil.get_data(confine.__name__.rpartition(".")[0], "confine.py")
    assert source is not None
    return source


def open_launch(
    program: str,
    plan: SandboxPlan,
    command: Command,
    shown: Sequence[Shown],
    *,
    root: Path,
    filter_program: bytes,
) -> Launch:
    """Make the descriptors, and the command line that names them. The caller closes them all."""
    status, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    report, report_here = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    script = _memory("confine", _confine_source())
    order = _memory("order", confine_order(plan, command, status_fd=tell))
    seccomp = _memory("seccomp", filter_program)
    arguments = bwrap_arguments(
        plan,
        command,
        shown,
        root=root,
        seccomp_fd=seccomp,
        script_fd=script,
        order_fd=order,
        report_fd=report_here,
    )
    args = _memory("args", b"".join(word.encode() + b"\0" for word in arguments[: arguments.index("--")]))
    argv = (program, "--args", str(args), *arguments[arguments.index("--") :])
    descriptors = (tell, script, order, seccomp, args, report_here)
    return Launch(argv=argv, descriptors=descriptors, status=status, report=report)


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
