"""What the runner needs from a backend."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from affiant.sandbox.isolation.plan.plan import Command, SandboxPlan
from affiant.sandbox.isolation.plan.rootfs import Shown

__all__ = ["ENDING", "FOR_ALL", "START_SECONDS", "Driver", "Ended", "Prepared", "Started", "Stdio"]

ENDING: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGQUIT, signal.SIGTERM})
"""Signals that every process of the command gets: as from a terminal's keys, and as a service manager ends a service.
The first process alone would be too little: a shell waits for its program to end before it looks at its own."""

FOR_ALL: Final = ENDING | {signal.SIGSTOP, signal.SIGCONT}
"""Those that go to every process: what ends a command, and what stops and continues it as a whole. A command's
processes are those that descend from its first one; what outlives its parent is the session's, and lives on."""

START_SECONDS: Final = 30
"""So long may a sandbox take until its first process is there."""

_LONGEST_REPORT: Final = 1 << 14
"""Bytes: more than a report has, however a hostile agent might add to it."""


@dataclass(frozen=True, slots=True)
class Stdio:
    """Descriptors of the agent's standard streams; owned by the runner."""

    stdin: int
    stdout: int
    stderr: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A sandbox's pieces, ready to start: the plan, what is shown where, and the skeleton's folder."""

    plan: SandboxPlan
    shown: tuple[Shown, ...]
    root: Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, or 128 + n where signal n ended it; and what it used.

    Times are microseconds. The processor time and the largest peak of memory are those of its first process and of all
    that it waited for; None: the kernel under the agent did not say.
    """

    code: int
    wall_us: int
    processor_us: int | None = None
    peak_bytes: int | None = None


@dataclass(slots=True)
class Started:
    """A command under way.

    Args:
        pid: the runner's child that lives as long as the command.
        report: a pipe's reading end, not blocking: how the command was started, and how it ended. Owned here.
        at: when it was started (time.monotonic).
    """

    command: Command
    pid: int
    report: int
    at: float
    _said: bytes = b""

    def said(self) -> bytes:
        """All that the report holds so far."""
        with suppress(BlockingIOError):
            while self.report >= 0 and len(self._said) < _LONGEST_REPORT:
                if not (more := os.read(self.report, _LONGEST_REPORT)):
                    break
                self._said += more
        return self._said

    def close(self) -> None:
        """Read no more. Idempotent."""
        if self.report >= 0:
            os.close(self.report)
            self.report = -1


class Driver(Protocol):
    """One backend, driven by the runner. Every call is made from its one thread."""

    def begin(self, prepared: Prepared) -> None:
        """Start the sandbox with a first process that waits; does not wait for it to be there.

        Raises:
            SandboxFailed: it could not be started.
        """
        ...

    def first(self) -> int:
        """Wait until the first process is there; a new pidfd that tells the sandbox's end.

        Raises:
            SandboxFailed: the sandbox did not come up.
        """
        ...

    def start(self, command: Command, stdio: Stdio, *, terminal: bool) -> Started:
        """Start one command beside the first process and all others.

        Raises:
            SandboxFailed: it could not be started.
        """
        ...

    def signal(self, started: Started, number: int) -> Callable[[], None] | None:
        """Deliver a signal: one of :data:`FOR_ALL` to every process of the command, another to its first.

        Returns:
            What delivers it, and may take seconds: to be called in a child. None: it is delivered.

        Raises:
            StepError: there is no such process (any more); also raised by what is returned.
        """
        ...

    def log(self) -> bytes:
        """The end of the backend's own log; may be empty."""
        ...

    def close(self) -> None:
        """Give descriptors back. Idempotent."""
        ...
