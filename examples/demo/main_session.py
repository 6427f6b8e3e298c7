"""The demo's main session: run it, look at it from outside while it lives, keep what was seen."""

from __future__ import annotations

import os
import select
import subprocess
import time
from dataclasses import dataclass, field

from examples.demo.place import Place, command_line
from examples.demo.processes import Process, descendants, holds
from examples.demo.stand_in import StandIn

WAITING = b"done; waiting to be told to leave"
LIMIT_S = 90.0


@dataclass
class Seen:
    """What the host saw of the session."""

    exit_code: int
    output: bytes
    errors: bytes
    looked_at: dict[str, str | None] = field(default_factory=dict)
    """Process (by what it is) -> where it held the secret's value, or None."""
    may_look: bool = True
    processes: set[tuple[int, int]] = field(default_factory=set)
    """Number and time of start of each process that was looked at."""

    @property
    def elsewhere(self) -> dict[str, str | None]:
        """The same without the broker, which alone may hold the value."""
        return {name: place for name, place in self.looked_at.items() if "broker" not in name}


def run_main_session(place: Place, stand_in: StandIn, value: bytes, *, isolation: list[str]) -> Seen:
    """One ``affiant run`` of the demo's agent; the agent waits at its end until the host has looked."""
    authority = place.folder / "stand-in-ca.pem"
    authority.write_bytes(stand_in.ca_pem)
    arguments = [
        *("run", "--profile", str(place.profiles), "--agent", "demo_agent", "--quiet", *isolation),
        *("--input", str(place.work), "--output", str(place.output), "--runtime", str(place.runtime)),
        *("--bundle", str(place.bundle), "--extra-ca", str(authority)),
        *(part for name in stand_in.names for part in ("--host", f"{name}={stand_in.address}/32")),
        *("--", "python3", "agent.py", str(place.canary)),
    ]
    process = subprocess.Popen(
        command_line(*arguments),
        env=place.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            output = _read_until_waiting(process)
            seen = Seen(0, b"", b"")
            _look(process.pid, value, seen)
            more, seen.errors = process.communicate(timeout=LIMIT_S)
        except BaseException:  # nothing of ours is left running, whatever happened
            process.kill()
            raise
    seen.exit_code, seen.output = process.returncode, output + more
    return seen


def _read_until_waiting(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    output, end = b"", time.monotonic() + LIMIT_S
    while WAITING not in output and time.monotonic() < end:
        if not select.select([process.stdout], [], [], 1.0)[0]:
            continue
        chunk = os.read(process.stdout.fileno(), 1 << 16)
        if not chunk:
            break
        output += chunk
    return output


def _look(root: int, value: bytes, seen: Seen) -> None:
    """Search every process below the launcher for the value. The broker is the control: it must be found there."""
    for process in descendants(root):
        seen.processes.add((process.pid, process.started))
        try:
            seen.looked_at[_kind(process)] = holds(process.pid, value) or seen.looked_at.get(_kind(process))
        except PermissionError:
            seen.may_look = False
        except (FileNotFoundError, ProcessLookupError):
            continue


def _kind(process: Process) -> str:
    for part in (
        "secrets.broker",
        "sandbox.supervisor",
        "isolation.runner",
        "gateway.server",
        "witness serve",
        "platform serve",
    ):
        if part in process.command:
            return part
    return process.command[:60] or f"process {process.pid}"
