"""Drives ``bwrap`` inside the enclosure. Talks to processes and to /proc."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.backends.bubblewrap import Launch, close_all, open_launch
from affiant.sandbox.isolation.backends.enclosure import Enclosure
from affiant.sandbox.isolation.plan.driver import FOR_ALL, Prepared, Stdio
from affiant.sandbox.isolation.plan.errors import CommandNotRun, SandboxFailed, StepError
from affiant.sandbox.isolation.plan.linux import die_with_parent
from affiant.sandbox.isolation.plan.plan import Command, DirectoryRoot

__all__ = ["BubblewrapDriver"]

_EXIT_CODE: Final = re.compile(r'"exit-code": (\d{1,3})\b')
_NOT_FOUND: Final = (errno.ENOENT, errno.ENOTDIR)
_AGENT_PID_INSIDE: Final = 2
"""bwrap itself is the sandbox's first process and reaps; the agent is the second."""


@dataclass(slots=True)
class BubblewrapDriver:
    """One bwrap in one enclosure. ``user``: whom to become before bwrap starts; None: stay who we are."""

    program: str
    enclosure: Enclosure
    seccomp: bytes
    user: Owner | None
    _launch: Launch | None = field(default=None, repr=False)
    _pid: int = 0

    def start(self, prepared: Prepared, command: Command, stdio: Stdio) -> int:
        _require_python(prepared)
        launch = open_launch(
            self.program,
            prepared.plan,
            command,
            prepared.shown,
            root=prepared.root,
            filter_program=self.seccomp,
        )
        self._launch = launch
        try:
            child = subprocess.Popen(
                launch.argv,
                stdin=stdio.stdin,
                stdout=stdio.stdout,
                stderr=stdio.stderr,
                env={},
                pass_fds=launch.descriptors,
                preexec_fn=self._step_down,  # noqa: PLW1509 - the runner has one thread
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxFailed("bwrap could not be started") from error
        finally:
            close_all(launch.descriptors)
        child.returncode = 0  # the runner waits for the pid itself
        self._pid = child.pid
        return child.pid

    def _step_down(self) -> None:
        """In the child: into the enclosure, then without root, which clears the parent-death signal."""
        self.enclosure.enter_counted()
        if self.user is not None:
            os.setgroups([])
            os.setresgid(self.user.gid, self.user.gid, self.user.gid)
            os.setresuid(self.user.uid, self.user.uid, self.user.uid)
            die_with_parent()

    def signal(self, number: int) -> None:
        targets = _agents_of(self._pid)
        reached = [
            _send(self._pid, target, number) for target in (targets if number in FOR_ALL else targets[:1])
        ]
        if not any(reached):
            raise StepError(
                "the signal found no process", expected="a command that has started and still runs"
            )

    def judge(self, status: int) -> int:
        said = self._read(None if self._launch is None else self._launch.status)
        confined, _, failure = said.rpartition("confined ")
        step, _, number = failure.partition(" ")
        if step == "exec" and number.isdecimal():
            missing = int(number) in _NOT_FOUND
            text = "was not found" if missing else "cannot be executed"
            raise CommandNotRun(f"the command {text} in the sandbox", exit_code=127 if missing else 126)
        if status < 0:
            return 128 - status
        if failure or not said.startswith("confined "):
            raise SandboxFailed(
                "bubblewrap did not start the sandbox",
                expected="Landlock, limits and a command confined by them",
                found=failure[:40] or confined[:40] or "no answer from inside",
            )
        return self._reported(status)

    def _reported(self, status: int) -> int:
        """What bwrap reports as the command's own status; its absence is a sandbox that was lost."""
        said = self._read(None if self._launch is None else self._launch.report)
        for line in said.splitlines():
            found = _EXIT_CODE.search(line)
            if found is not None:
                return int(found.group(1))
        if status >= 128:
            return status
        raise SandboxFailed("bubblewrap ended before the command did")

    def log(self) -> bytes:
        return b""

    def close(self) -> None:
        if self._launch is not None:
            close_all((self._launch.status, self._launch.report))
            self._launch = None

    @staticmethod
    def _read(fd: int | None) -> str:
        try:
            return "" if fd is None else os.read(fd, 4096).decode("utf-8", "replace")
        except BlockingIOError:
            return ""


def _require_python(prepared: Prepared) -> None:
    """Landlock is applied from inside, by the root's own Python."""
    root = prepared.plan.rootfs
    base = Path(root.path) if isinstance(root, DirectoryRoot) else Path("/")
    if not (base / "usr/bin/python3").exists():
        raise ConfigurationError(
            "bubblewrap needs Python in the sandbox's root to apply Landlock",
            expected="/usr/bin/python3",
            hint="Install it there, or use gVisor.",
            code="isolation.plan",
        )


def _agents_of(bwrap: int) -> list[int]:
    """The agent's processes as this machine counts, its first one first; empty: it has not started, or has ended.

    They are all that descends from ``bwrap`` but bwrap's own process inside.
    """
    processes = _processes()
    family: set[int] = {bwrap}
    while more := {pid for pid, parent, _ in processes if parent in family and pid not in family}:
        family |= more
    inside = {
        pid: number for pid, parent, number in processes if pid in family and bwrap not in (parent, pid)
    }
    first = [pid for pid, number in inside.items() if number == _AGENT_PID_INSIDE]
    return [*first, *(pid for pid in inside if pid not in first)] if first else []


def _send(bwrap: int, target: int, number: int) -> bool:
    """Send a signal to one of the agent's processes; whether it was still there."""
    try:
        handle = os.pidfd_open(target)
    except ProcessLookupError:
        return False
    try:
        if target not in _agents_of(
            bwrap
        ):  # asked again: the handle's process is the agent's, not a later one
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _processes() -> list[tuple[int, int, int]]:
    """(pid, parent, pid in the innermost process namespace) of what /proc shows."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            found.append((int(entry.name), int(facts["PPid"]), int(facts["NSpid"].split()[-1])))
    return found
