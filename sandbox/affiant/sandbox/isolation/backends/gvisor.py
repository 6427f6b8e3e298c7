"""gVisor: the agent runs on a kernel of its own, in user space; this file writes what ``runsc`` reads.

:func:`oci_config` is pure: plan, command and mounts to an OCI runtime configuration (OCI runtime-spec 1.0.2,
config.md, config-linux.md). The command lines are pure as well. What the flags are for (runsc flags,
release 20240729):

``--network=sandbox``      gVisor's own network stack on the namespace's veth end; never the machine's stack
``--overlay2=none``        writes go to the session's own copies, which are what leaves with ``--output``
``--host-uds=none`` ...    no Unix socket or pipe of the machine can be opened through a mount
``--net-raw=false``        no raw sockets, also for a root inside
``--oci-seccomp``          gVisor's own kernel refuses mounts and namespaces to the agent
``--ignore-cgroups``       runsc makes no cgroup: the runner puts it into the sandbox's own, where it can make one

Two traps: container ids are matched by prefix, so all have one length; and runsc writes to a standard stream
that is a regular file from that file's start, so the runner refuses such streams.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.seccomp import NAMESPACE_FLAGS
from affiant.sandbox.isolation.plan.plan import AGENT_GID, AGENT_UID, Command, Mask, SandboxPlan, Scratch
from affiant.sandbox.isolation.plan.rootfs import Shown, mount_order

__all__ = [
    "CONTAINER_ID",
    "OLDEST_RELEASE",
    "command_failure",
    "dated_release",
    "oci_config",
    "release_year",
    "run_command",
    "runsc_program",
    "runsc_release",
    "signal_command",
    "write_bundle",
]

OLDEST_RELEASE: Final = 2024
"""Older ones have no systrap platform, or one that current kernels break."""

_NO_MOUNTS: Final = ("chroot", "mount", "pivot_root", "ptrace", "setns", "umount2", "unshare")

CONTAINER_ID: Final = "affiant-sandbox"
"""One container per state folder, so the id can be the same everywhere."""

_RELEASE: Final = re.compile(r"(20\d\d)[01]\d[0-3]\d")
_NOT_FOUND: Final = re.compile(
    r"no such file or directory|executable file not found|not found in \$?PATH", re.IGNORECASE
)
_NOT_EXECUTABLE: Final = re.compile(
    r"permission denied|exec format error|is a directory|not executable", re.IGNORECASE
)


def oci_config(
    plan: SandboxPlan, command: Command, shown: Sequence[Shown], *, root: str, network: str
) -> Mapping[str, object]:
    """The OCI configuration.

    Args:
        shown: the read-only root's and the session's directories, as they lie on this machine.
        root: the skeleton's directory.
        network: path of the network namespace, as the started runsc sees it.
    """
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": AGENT_UID, "gid": AGENT_GID},
            "args": list(command.argv),
            "env": [f"{name}={value}" for name, value in command.env.items()],
            "cwd": command.cwd,
            "capabilities": {
                kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
            },
            "noNewPrivileges": True,
            "rlimits": [
                {"type": name, "hard": value, "soft": value}
                for name, value in (
                    ("RLIMIT_CORE", 0),
                    ("RLIMIT_FSIZE", plan.limits.file_bytes),
                    ("RLIMIT_NOFILE", plan.limits.open_files),
                    ("RLIMIT_NPROC", plan.limits.processes),
                )
            ],
        },
        "root": {"path": root, "readonly": True},
        "hostname": plan.hostname,
        "mounts": _mounts(plan, shown),
        "linux": {
            "namespaces": [
                {"type": "pid"},
                {"type": "ipc"},
                {"type": "uts"},
                {"type": "mount"},
                {"type": "network", "path": network},
            ],
            "seccomp": _seccomp(),
        },
    }


def _seccomp() -> Mapping[str, object]:
    """No new namespaces and no mounts inside either: no process there becomes root over anything.

    gVisor's kernel judges it (``--oci-seccomp``). CLONE_NEW* are refused bit by bit. The flags of clone3 lie in
    memory, so it has to look not implemented (ENOSYS), and libc falls back to clone: runsc knows no other errno
    than EPERM, but a call that is left to a tracer, when there is none, is ENOSYS. Hence no ptrace either.
    """
    refused = {"action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    flags = [1 << bit for bit in range(32) if NAMESPACE_FLAGS >> bit & 1]
    by_flag = [
        {
            **refused,
            "names": ["clone"],
            "args": [{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}],
        }
        for flag in flags
    ]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {**refused, "names": list(_NO_MOUNTS)},
            {"action": "SCMP_ACT_TRACE", "names": ["clone3"]},
            *by_flag,
        ],
    }


def _mounts(plan: SandboxPlan, shown: Sequence[Shown]) -> list[Mapping[str, object]]:
    """System mounts, then everything else from the root outwards: an inner mount always comes later."""
    system: list[Mapping[str, object]] = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
        _tmpfs("/dev/shm", plan.limits.tmp_bytes, "nodev", "mode=1777"),  # noqa: S108 - inside
        _tmpfs("/sys", 4096, "ro", "nodev", "mode=0555"),
    ]
    return system + [_mount(item) for item in mount_order(plan, shown)]


def _mount(item: Shown | Scratch | Mask) -> Mapping[str, object]:
    match item:
        case Shown(target, source, writable):
            options = ["rbind", "rw" if writable else "ro", "nosuid", "nodev"]
            return {"destination": target, "type": "bind", "source": source, "options": options}
        case Scratch(target, size):
            return _tmpfs(target, size, "nodev", "mode=1777")
        case Mask(target):
            return _tmpfs(target, 4096, "ro", "nodev", "noexec", "mode=0555")


def _tmpfs(target: str, size: int, *options: str) -> Mapping[str, object]:
    return {
        "destination": target,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", *options, f"size={size}"],
    }


def write_bundle(config: Mapping[str, object], at: Path) -> None:
    """The bundle that ``runsc run --bundle`` takes: a folder with ``config.json``."""
    at.mkdir(mode=0o700, exist_ok=True)
    (at / "config.json").write_text(json.dumps(config), encoding="utf-8")


def run_command(program: str, folder: Path) -> tuple[str, ...]:
    """The attached start: it ends with the container, and the container with it."""
    return (
        *_global_flags(program, folder),
        "run",
        f"--bundle={folder / 'bundle'}",
        f"--pid-file={folder / 'started'}",
        CONTAINER_ID,
    )


def signal_command(program: str, folder: Path, number: int, *, everyone: bool) -> tuple[str, ...]:
    """Send a signal to all of the container's processes, or to its first."""
    flags = ("--all",) if everyone else ()
    return (*_global_flags(program, folder, log="control.log"), "kill", *flags, CONTAINER_ID, str(number))


def _global_flags(program: str, folder: Path, *, log: str = "runsc.log") -> tuple[str, ...]:
    """``log``: the start has one of its own, because its errors decide how the end is judged."""
    return (
        program,
        f"--root={folder / 'state'}",
        f"--log={folder / log}",
        "--log-format=json",
        "--platform=systrap",
        "--network=sandbox",
        "--overlay2=none",
        "--file-access-mounts=shared",
        "--host-uds=none",
        "--host-fifo=none",
        "--net-raw=false",
        "--ignore-cgroups",
        "--oci-seccomp=true",
    )


def command_failure(log: bytes) -> int | None:
    """127 or 126 when runsc's log says that the agent's command could not be executed; None: another failure."""
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        text = str(entry.get("msg", "")) if isinstance(entry, dict) else ""
        if "starting container" not in text and "starting root container" not in text:
            continue
        if _NOT_FOUND.search(text):
            return 127
        if _NOT_EXECUTABLE.search(text):
            return 126
    return None


def runsc_program() -> str | None:
    """Where ``runsc`` is on this machine."""
    return shutil.which("runsc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def runsc_release(program: str) -> str:
    """The first line of ``runsc --version``: what a receipt can name; empty: the program does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, check=False, env={}, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()[:120]


def dated_release(text: str) -> str | None:
    """The date and number in a release's name, as records have it: ``20240729.0``; None: it names none."""
    found = re.search(r"20\d\d[01]\d[0-3]\d\.\d{1,4}", text)
    return None if found is None else found.group()


def release_year(text: str) -> int:
    """The year in a release's name (``release-20240729.0``, ``0.0~20240729.0``); 0: none is given."""
    found = _RELEASE.search(text)
    return 0 if found is None else int(found.group(1))
