"""What the runner needs from a backend."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from affiant.sandbox.isolation.plan.plan import Command, SandboxPlan
from affiant.sandbox.isolation.plan.rootfs import Shown

__all__ = ["ENDING", "FOR_ALL", "Driver", "Prepared", "Stdio"]

ENDING: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
"""Signals that every process of the command gets: as from a terminal's keys, and as a service manager ends a service.
The first process alone would be too little: a shell waits for its program to end before it looks at its own."""

FOR_ALL: Final = ENDING | {signal.SIGSTOP, signal.SIGCONT}
"""Those that go to every process: what ends a command, and what stops and continues it as a whole."""


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


class Driver(Protocol):
    """One backend, driven by the runner. Every call is made from its one thread."""

    def start(self, prepared: Prepared, command: Command, stdio: Stdio) -> int:
        """Start the sandbox's own program; return its pid, a child of the runner.

        Raises:
            SandboxFailed: it could not be started.
        """
        ...

    def signal(self, number: int) -> None:
        """Deliver a signal: one of :data:`ENDING` to every process of the agent's, another to its first.

        Raises:
            StepError: there is no such process (any more).
        """
        ...

    def judge(self, status: int) -> int:
        """The agent's exit code, by the child's exit status (waitstatus_to_exitcode); 128 + n: signal n ended it.

        Raises:
            CommandNotRun: the command could not be executed.
            SandboxFailed: the sandbox did not come up, or was lost.
        """
        ...

    def log(self) -> bytes:
        """The end of the backend's own log; may be empty."""
        ...

    def close(self) -> None:
        """Give descriptors back. Idempotent."""
        ...
