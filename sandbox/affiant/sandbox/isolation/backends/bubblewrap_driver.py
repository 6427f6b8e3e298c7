"""Drives ``bwrap`` inside the enclosure, and has commands enter what it made. Talks to processes and to /proc."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.backends.bubblewrap import close_all, open_launch
from affiant.sandbox.isolation.backends.enclosure import Enclosure
from affiant.sandbox.isolation.backends.entering import (
    Confinement,
    Namespaces,
    command_program,
    is_ready,
    read_reports,
)
from affiant.sandbox.isolation.backends.executing import sealed
from affiant.sandbox.isolation.backends.process_tree import children_of, descendants, machine_processes
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.driver import FOR_ALL, START_SECONDS, Prepared, Started, Stdio
from affiant.sandbox.isolation.plan.errors import SandboxFailed, StepError
from affiant.sandbox.isolation.plan.plan import Command

__all__ = ["BubblewrapDriver"]

_NS_GET_USERNS: Final = 0xB701
"""ioctl_ns(2): the user namespace that owns a namespace."""


@dataclass(slots=True)
class BubblewrapDriver:
    """One bwrap in one enclosure. ``user``: the user to switch to before anything starts; None: stay who we are."""

    program: str
    enclosure: Enclosure
    confinement: Confinement
    user: Owner | None
    _bwrap: subprocess.Popen[bytes] | None = None
    _report: int = -1
    _namespaces: Namespaces | None = None

    def begin(self, prepared: Prepared) -> None:
        launch = open_launch(
            self.program,
            prepared.plan,
            prepared.shown,
            root=prepared.root,
            confinement=self.confinement,
        )
        self._report = launch.report
        try:
            self._bwrap = self._child(launch.argv, launch.descriptors)
        finally:
            close_all(launch.descriptors)

    def first(self) -> int:
        poll = select.poll()
        poll.register(self._report, select.POLLIN)
        reported = poll.poll(1000 * START_SECONDS)
        if self._bwrap is None or not reported or not is_ready(os.read(self._report, 4096)):
            raise SandboxFailed(
                "bubblewrap did not start the sandbox",
                expected="Landlock, limits and a first process confined by them",
            )
        try:
            (init,) = children_of(self._bwrap.pid)
            self._namespaces = _namespaces_of(init)
            return os.pidfd_open(self._bwrap.pid)
        except (OSError, ValueError) as error:
            raise SandboxFailed("the sandbox did not come up, or ended at once") from error

    def start(self, command: Command, stdio: Stdio, *, terminal: bool) -> Started:
        if self._namespaces is None:  # pragma: no cover - first() comes before
            raise StepError("there is no sandbox")
        report, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        at = time.monotonic()
        try:
            program = command_program(
                self.confinement, command, report=tell, namespaces=self._namespaces, terminal=terminal
            )
            executable = sealed(program)
            try:
                passed = (executable, tell, *self._namespaces.descriptors)
                child = self._child((f"/proc/self/fd/{executable}",), passed, stdio)
            finally:
                os.close(executable)
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(tell)
        child.returncode = 0  # the runner waits for the pid itself
        return Started(command, child.pid, report, at)

    def _child(
        self, argv: tuple[str, ...], descriptors: tuple[int, ...], stdio: Stdio | None = None
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if stdio is None else stdio.stdin,
                stdout=subprocess.DEVNULL if stdio is None else stdio.stdout,
                stderr=subprocess.DEVNULL if stdio is None else stdio.stderr,
                env={},
                pass_fds=descriptors,
                preexec_fn=self._step_down,  # noqa: PLW1509 - the runner has one thread
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxFailed("a program of the sandbox could not be started") from error

    def _step_down(self) -> None:
        """In the child: into the enclosure, then without root, which clears the parent-death signal."""
        self.enclosure.enter_counted()
        if self.user is not None:
            os.setgroups([])
            os.setresgid(self.user.gid, self.user.gid, self.user.gid)
            os.setresuid(self.user.uid, self.user.uid, self.user.uid)
            linux.die_with_parent()

    def signal(self, started: Started, number: int) -> None:
        outer, begun = started.pid, read_reports(started.said(), started.command).pid != 0
        targets = descendants(outer, machine_processes())[1:] if begun else []
        if not _send(outer, targets if number in FOR_ALL else targets[:1], number):
            raise StepError(
                "the signal found no process", expected="a command that has started and still runs"
            )

    def log(self) -> bytes:
        return b""

    def close(self) -> None:
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        if self._namespaces is not None:
            close_all(self._namespaces.descriptors)
            self._namespaces = None
        if self._bwrap is not None:
            with suppress(ChildProcessError):
                self._bwrap.wait()
            self._bwrap = None


def _namespaces_of(init: int) -> Namespaces:
    """The namespaces of the sandbox's first process. The one that owns them is above the one that it is in."""

    def opened(kind: str) -> int:
        return os.open(f"/proc/{init}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)

    mounts = opened("mnt")
    return Namespaces(
        owner=fcntl.ioctl(mounts, _NS_GET_USERNS),
        users=opened("user"),
        processes=opened("pid"),
        mounts=mounts,
        others={
            linux.CLONE_NEWIPC: opened("ipc"),
            linux.CLONE_NEWUTS: opened("uts"),
            linux.CLONE_NEWCGROUP: opened("cgroup"),
        },
    )


def _send(outer: int, targets: Sequence[int], number: int) -> bool:
    """Send a signal to some of a command's processes; whether one was still there.

    /proc is looked at once for all: what a signal orphans is still reached. A pid that is used again meanwhile is
    another process, with another start time.
    """
    started = {target: linux.process_start_time(target) for target in targets}
    left = set(descendants(outer, machine_processes()))
    reached = False
    for target in targets:
        if target not in left or started[target] is None:
            continue
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(target)
            try:
                if linux.process_start_time(target) == started[target]:
                    signal.pidfd_send_signal(handle, number)
                    reached = True
            finally:
                os.close(handle)
    return reached
