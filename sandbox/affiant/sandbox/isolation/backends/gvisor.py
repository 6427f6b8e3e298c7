"""gVisor: the agent runs on a kernel of its own, in user space; this file writes what ``runsc`` reads.

:func:`oci_config` is pure: plan, command and mounts to an OCI runtime configuration (OCI runtime-spec 1.0.2,
config.md, config-linux.md). The command lines are pure as well. What the flags are for (runsc flags,
release 20240729):

``--network=sandbox``      gVisor's own network stack on the namespace's veth end; never the machine's stack
``--overlay2=none``        writes go to the session's own copies, which are what leaves with ``--output``
``--host-uds=none`` ...    no Unix socket or pipe of the machine can be opened through a mount
``--net-raw=false``        no raw sockets, also for a root inside
``--ignore-cgroups``       runsc makes no cgroup: the runner puts it into the sandbox's own, where it can make one

The container's first process is a program of the runner's that waits; a command is started beside it (``runsc exec``).
Both lie in a folder of the runner's that is mounted read-only (:data:`PROGRAMS_AT`), so neither depends on what the
root file system holds. (A program that is executed from a descriptor, ``--exec-fd``, keeps ``runsc checkpoint`` from
writing the sandbox's memory.)

Three traps: container ids are matched by prefix, so all have one length; runsc writes to a standard stream
that is a regular file from that file's start, so the runner refuses such streams; and ``--oci-seccomp`` holds the
first process alone, so each program installs the filter itself, in gVisor's own kernel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.entering import REPORT_DESCRIPTOR
from affiant.sandbox.isolation.plan.plan import Limits, Mask, SandboxPlan, Scratch
from affiant.sandbox.isolation.plan.rootfs import Shown, mount_order

__all__ = [
    "CONTAINER_ID",
    "FIRST_UID",
    "OLDEST_RELEASE",
    "PROGRAMS_AT",
    "SIGNALLING_UID",
    "STARTED",
    "dated_release",
    "exec_command",
    "list_command",
    "oci_config",
    "process",
    "release_year",
    "run_command",
    "runsc_program",
    "runsc_release",
    "write_bundle",
]

OLDEST_RELEASE: Final = 2024
"""Older ones have no systrap platform, or one that current kernels break."""

CONTAINER_ID: Final = "affiant-sandbox"
"""One container per state folder, so the id can be the same everywhere."""

_RELEASE: Final = re.compile(r"(20\d\d)[01]\d[0-3]\d")
SIGNALLING_UID: Final = 0
"""Who sends signals inside: gVisor gives CAP_KILL to this user alone, and the agent can send it no signal."""
_IN_EFFECT: Final = ("effective", "permitted")
FIRST_UID: Final = 65534
"""Who the first process is inside: one that the agent may send no signal. It has no capability either."""

PROGRAMS_AT: Final = "/dev/.affiant"
"""The folder, inside, of the programs that the runner writes. Nothing in it is a secret."""

STARTED: Final = "started"
"""The file with the pid of the sandbox's own process."""


def oci_config(
    plan: SandboxPlan, shown: Sequence[Shown], *, root: str, network: str, programs: str, first: str
) -> Mapping[str, object]:
    """The OCI configuration.

    Args:
        programs: the folder of the runner's programs, as it lies on this machine. first: the one that waits.
        shown: the read-only root's and the session's directories, as they lie on this machine.
        root: the skeleton's directory.
        network: path of the network namespace, as the started runsc sees it.
    """
    return {
        "ociVersion": "1.0.2",
        "process": {**process(FIRST_UID, first), "rlimits": _rlimits(plan.limits)},
        "root": {"path": root, "readonly": True},
        "hostname": plan.hostname,
        "mounts": _mounts(plan, shown, programs),
        "linux": {
            "namespaces": [
                {"type": "pid"},
                {"type": "ipc"},
                {"type": "uts"},
                {"type": "mount"},
                {"type": "network", "path": network},
            ],
        },
    }


def process(
    user: int, program: str, *, terminal: bool = False, capabilities: Sequence[str] = ()
) -> Mapping[str, object]:
    """An OCI process.

    Args:
        program: its name among the runner's programs.
        terminal: its streams are a terminal.
        capabilities: all that it has. gVisor gives some to user 0 alone.
    """
    return {
        "terminal": terminal,
        "user": {"uid": user, "gid": user},
        "args": [f"{PROGRAMS_AT}/{program}"],
        "env": [],
        "cwd": "/",
        "capabilities": {
            kind: list(capabilities) if kind in _IN_EFFECT else []
            for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
        },
        "noNewPrivileges": True,
    }


def _rlimits(limits: Limits) -> list[Mapping[str, object]]:
    """gVisor holds the commands of a container to those of its configuration."""
    return [
        {"type": name, "hard": value, "soft": value}
        for name, value in (
            ("RLIMIT_CORE", 0),
            ("RLIMIT_FSIZE", limits.file_bytes),
            ("RLIMIT_NOFILE", limits.open_files),
            ("RLIMIT_NPROC", limits.processes),
        )
    ]


def _mounts(plan: SandboxPlan, shown: Sequence[Shown], programs: str) -> list[Mapping[str, object]]:
    """System mounts, then everything else from the root outwards: an inner mount always comes later."""
    system: list[Mapping[str, object]] = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
        _tmpfs("/dev/shm", plan.limits.tmp_bytes, "nodev", "mode=1777"),  # noqa: S108 - inside
        _tmpfs("/sys", 4096, "ro", "nodev", "mode=0555"),
        _mount(Shown(PROGRAMS_AT, programs)),
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
    """Start the container, and return when its first process runs."""
    return (
        *_global_flags(program, folder),
        "run",
        "--detach",
        f"--bundle={folder / 'bundle'}",
        f"--pid-file={folder / STARTED}",
        CONTAINER_ID,
    )


def exec_command(program: str, folder: Path, name: str, *, report: int | None = None) -> tuple[str, ...]:
    """Start a process beside the first one, and end with it.

    Args:
        name: of the files of this process: its specification, its log, its pid inside.
        report: descriptor that becomes its report.
    """
    passed = () if report is None else (f"--pass-fd={report}:{REPORT_DESCRIPTOR}",)
    return (
        *_global_flags(program, folder, log=f"{name}.log"),
        "exec",
        f"--process={folder / name}",
        f"--internal-pid-file={folder / name}.pid",
        *passed,
        CONTAINER_ID,
    )


def list_command(program: str, folder: Path) -> tuple[str, ...]:
    """List the container's processes: a head line, then user, pid, parent and more of each."""
    return (*_global_flags(program, folder, log="control.log"), "ps", CONTAINER_ID)


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
    )


def runsc_program() -> str | None:
    """Where ``runsc`` is on this machine."""
    return shutil.which("runsc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def runsc_release(program: str) -> str:
    """The first line of ``runsc --version``: what a receipt can name; empty: the program does not run.

    A process and its forks ask the same binary once: it takes as long as a tenth of a session's start.
    """
    identity = _binary(program)
    if (known := _RELEASES.get(identity)) is not None:
        return known
    release = _asked_release(program)
    if identity is not None and release:
        _RELEASES[identity] = release
    return release


_RELEASES: Final[dict[object, str]] = {}
"""By what identifies a binary."""


def _binary(program: str) -> object | None:
    """What changes whenever the binary does; None: a script, whose program may change without it, or unreadable."""
    try:
        with open(program, "rb") as file:
            facts, magic = os.fstat(file.fileno()), file.read(4)
    except OSError:
        return None
    if magic != b"\x7fELF":
        return None
    return program, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _asked_release(program: str) -> str:
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
