"""Drives ``runsc`` inside the enclosure. Talks to processes and to the runner's private folder."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.enclosure import PRIVATE, Enclosure
from affiant.sandbox.isolation.backends.entering import (
    REPORT_DESCRIPTOR,
    Confinement,
    command_program,
    first_process,
    read_reports,
    signalling,
)
from affiant.sandbox.isolation.backends.gvisor import (
    SIGNALLING_UID,
    STARTED,
    exec_command,
    list_command,
    oci_config,
    process,
    run_command,
    write_bundle,
)
from affiant.sandbox.isolation.backends.process_tree import descendants, own_pid
from affiant.sandbox.isolation.plan.driver import FOR_ALL, START_SECONDS, Prepared, Started, Stdio
from affiant.sandbox.isolation.plan.errors import SandboxFailed, StepError
from affiant.sandbox.isolation.plan.plan import AGENT_UID, Command

__all__ = ["GVisorDriver"]

_LOG_BYTES: Final = 65536
_PROGRAMS: Final = "programs"
_FILES: Final = ("", ".log", ".pid")
"""Endings of the names of a process's files."""
_CONTROL_SECONDS: Final = 5


@dataclass(slots=True)
class GVisorDriver:
    """One container in one enclosure."""

    program: str
    enclosure: Enclosure
    confinement: Confinement
    folder: Path = PRIVATE
    _starting: subprocess.Popen[bytes] | None = None
    _count: int = field(default=0)
    _commands: dict[str, Started] = field(default_factory=dict)
    """Those that run: a program that is mapped has to keep its name, or the sandbox has no checkpoint."""

    def begin(self, prepared: Prepared) -> None:
        programs, first = self.folder / _PROGRAMS, "first"
        programs.mkdir()
        programs.chmod(0o755)
        self._write_program(first, first_process(self.confinement, report=None))
        config = oci_config(
            prepared.plan,
            prepared.shown,
            root=str(prepared.root),
            network="/proc/1/ns/net",
            programs=str(programs),
            first=first,
        )
        write_bundle(config, self.folder / "bundle")
        argv = run_command(self.program, self.folder)
        self._starting = self._runsc(argv, enter=self.enclosure.enter_counted)

    def first(self) -> int:
        try:
            if self._starting is None or self._starting.wait(START_SECONDS) != 0:
                raise SandboxFailed(
                    "gVisor did not start the sandbox",
                    hint="The session's isolation/runsc.log says why; nothing was run.",
                )
            inside = int((self.folder / STARTED).read_text())
            return os.pidfd_open(own_pid(self.enclosure.init, inside))
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise SandboxFailed("the sandbox did not come up, or ended at once") from error

    def start(self, command: Command, stdio: Stdio, *, terminal: bool) -> Started:
        self._count += 1
        name, at = f"exec-{self._count}", time.monotonic()
        for ended in [name for name, each in self._commands.items() if each.report < 0]:
            self._forget(ended)
            del self._commands[ended]
        program = command_program(
            self.confinement, command, report=REPORT_DESCRIPTOR, namespaces=None, terminal=terminal
        )
        self._write_program(name, program)
        self._write_process(name, process(AGENT_UID, name, terminal=terminal))
        report, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            argv = exec_command(self.program, self.folder, name, report=tell)
            enter = self._enter_on_terminal if terminal else self.enclosure.enter
            child = self._runsc(argv, tell, stdio=stdio, enter=enter)
        except BaseException:
            os.close(report)
            self._forget(name)
            raise
        finally:
            os.close(tell)
        child.returncode = 0  # the runner waits for the pid itself
        started = self._commands[name] = Started(command, child.pid, report, at)
        return started

    def _write_program(self, name: str, program: bytes) -> None:
        path = self.folder / _PROGRAMS / name
        path.write_bytes(program)
        path.chmod(0o555)

    def _write_process(self, name: str, process: Mapping[str, object]) -> None:
        (self.folder / name).write_text(json.dumps(process), encoding="utf-8")

    def _forget(self, name: str) -> None:
        """Remove what belongs to a process that has ended."""
        for path in (self.folder / _PROGRAMS / name, *(self.folder / f"{name}{end}" for end in _FILES)):
            path.unlink(missing_ok=True)

    def signal(self, started: Started, number: int) -> Callable[[], None]:
        inner = read_reports(started.said(), started.command).pid
        outer = next((self._pid_of(name) for name, each in self._commands.items() if each is started), None)
        if inner == 0 and (outer is None or number != signal.SIGKILL):
            raise StepError(
                "the signal found no process", expected="a command that has started and still runs"
            )
        self._count += 1
        return partial(self._deliver, f"signal-{self._count}", inner, outer, number)

    def _pid_of(self, name: str) -> int | None:
        """The pid inside of a process that was started, as gVisor's kernel counts; None: it is not there yet."""
        try:
            return int((self.folder / f"{name}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _deliver(self, name: str, inner: int, outer: int | None, number: int) -> None:
        """Send a signal to a command's processes. Takes as long as runsc does.

        Raises:
            StepError: there is no such process any more, or runsc failed.
        """
        targets = [inner]
        if number in FOR_ALL:
            targets = [each for each in descendants(inner or outer or 0, self._processes()) if each != outer]
        if not targets and (outer is None or number != signal.SIGKILL):
            raise StepError("the signal found no process", expected="a command that still runs")
        self._write_program(name, signalling(self.confinement, targets, number, outer=outer))
        self._write_process(name, process(SIGNALLING_UID, name, capabilities=("CAP_KILL",)))
        try:
            self._control(exec_command(self.program, self.folder, name))
        finally:
            self._forget(name)

    def _processes(self) -> list[tuple[int, int]]:
        """Pid and parent of the container's processes, as its kernel counts them."""
        listed = self._control(list_command(self.program, self.folder), output=subprocess.PIPE)
        rows = (line.split() for line in listed.decode("utf-8", "replace").splitlines()[1:])
        return [
            (int(row[1]), int(row[2]))
            for row in rows
            if len(row) > 3 and row[1].isdecimal() and row[2].isdecimal()
        ]

    def _control(self, argv: tuple[str, ...], *, output: int = subprocess.DEVNULL) -> bytes:
        """Run a short ``runsc`` to its end; what it wrote, if ``output`` is a pipe.

        A program that it starts inside gets ``output`` too, where the agent may hold it open: it gets no pipe.

        Raises:
            StepError: it failed, or did not end in time.
        """
        child = self._runsc(argv, output=output)
        try:
            written, _ = child.communicate(timeout=_CONTROL_SECONDS)
        except subprocess.TimeoutExpired as error:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
            raise StepError("gVisor did not answer in time") from error
        if child.returncode != 0:
            raise StepError("gVisor did not carry out the step", found=f"exit status {child.returncode}")
        return written or b""

    def _runsc(
        self,
        argv: tuple[str, ...],
        *descriptors: int,
        stdio: Stdio | None = None,
        enter: Callable[[], None] | None = None,
        output: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if stdio is None else stdio.stdin,
                stdout=output if stdio is None else stdio.stdout,
                stderr=subprocess.DEVNULL if stdio is None else stdio.stderr,
                env={},
                pass_fds=descriptors,
                preexec_fn=enter or self.enclosure.enter,  # noqa: PLW1509 - the runner has one thread
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxFailed("runsc could not be started") from error

    def _enter_on_terminal(self) -> None:
        """In the child: runsc gets the signals of the terminal's keys, and passes them on inside."""
        self.enclosure.enter()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def log(self) -> bytes:
        try:
            return (self.folder / "runsc.log").read_bytes()[-_LOG_BYTES:]
        except FileNotFoundError:
            return b""

    def close(self) -> None:
        if self._starting is not None and self._starting.poll() is None:
            self._starting.kill()
            self._starting.wait()
        self._starting = None
