"""Drives ``runsc`` inside the enclosure. Talks to processes and to the runner's private folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.enclosure import PRIVATE, Enclosure
from affiant.sandbox.isolation.backends.gvisor import (
    command_failure,
    oci_config,
    run_command,
    signal_command,
    write_bundle,
)
from affiant.sandbox.isolation.plan.driver import FOR_ALL, Prepared, Stdio
from affiant.sandbox.isolation.plan.errors import CommandNotRun, SandboxFailed, StepError
from affiant.sandbox.isolation.plan.plan import Command

__all__ = ["GVisorDriver"]

_FAILED_BY_ITSELF: Final = 128
"""runsc's own exit status for every failure of its own (cmd/util, Fatalf)."""

_LOG_BYTES: Final = 65536
_SIGNAL_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class GVisorDriver:
    """One container in one enclosure."""

    program: str
    enclosure: Enclosure
    folder: Path = PRIVATE

    def start(self, prepared: Prepared, command: Command, stdio: Stdio) -> int:
        config = oci_config(
            prepared.plan, command, prepared.shown, root=str(prepared.root), network="/proc/1/ns/net"
        )
        write_bundle(config, self.folder / "bundle")
        try:
            child = subprocess.Popen(
                run_command(self.program, self.folder),
                stdin=stdio.stdin,
                stdout=stdio.stdout,
                stderr=stdio.stderr,
                env={},
                preexec_fn=self.enclosure.enter_counted,  # noqa: PLW1509 - the runner has one thread
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxFailed("runsc could not be started") from error
        child.returncode = 0  # the runner waits for the pid itself
        return child.pid

    def signal(self, number: int) -> None:
        try:
            subprocess.run(
                signal_command(self.program, self.folder, number, everyone=number in FOR_ALL),
                capture_output=True,
                check=True,
                env={},
                preexec_fn=self.enclosure.enter,
                timeout=_SIGNAL_SECONDS,
            )
        except subprocess.SubprocessError as error:
            raise StepError(
                "the signal found no process", expected="a command that has started and still runs"
            ) from error

    def judge(self, status: int) -> int:
        if status < 0:
            return 128 - status
        if status != _FAILED_BY_ITSELF:
            return status
        failure = command_failure(self.log())
        if failure is not None:
            text = "was not found" if failure == 127 else "cannot be executed"
            raise CommandNotRun(f"the command {text} in the sandbox", exit_code=failure)
        if b'"level":"error"' in self.log():
            raise SandboxFailed(
                "gVisor did not start the sandbox",
                hint="The session's isolation/runsc.log says why; nothing was run.",
            )
        return status

    def log(self) -> bytes:
        try:
            return (self.folder / "runsc.log").read_bytes()[-_LOG_BYTES:]
        except FileNotFoundError:
            return b""

    def close(self) -> None:
        """Nothing is held here."""
