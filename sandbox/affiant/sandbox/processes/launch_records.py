"""Which processes belong to which running session, so that the next command can end what a dead launcher left.

A launcher writes ``launches/ID.json`` before it starts anything and removes it when everything has ended:
``{"typ":"affiant-launch/1","session":ID,"launcher":{"pid","started"},"children":[{"pid","started"},...]}``, with what
was asked for (``asked``) and whether the agent's command was started (``ran``). A pid is reused, a pid with its start
time is not (proc(5)).

:func:`end_leftovers` is the first half of what the next command does (the other: ``interrupted``). A supervisor whose
launcher is gone has noticed by itself (its control socket closed), records that, and ends within five seconds; only
what is still there afterwards is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import MalformedError
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.isolation.runner.reconcile import reap_leftovers as reap_isolation
from affiant.sandbox.processes.home import Home, write_file
from affiant.sandbox.processes.session_note import Asked, asked_from_json

__all__ = ["Launch", "end_leftovers", "launch_record", "live_launches", "read_launches"]

_TYP: Final = "affiant-launch/1"
_LIMIT: Final = 64 * 1024
_GRACE_S: Final = 4.0
"""Seconds in which an orphaned supervisor may close its session by itself."""
_STEP_S: Final = 0.02
_NEVER: Final = -1
"""A start time that no process has."""


@dataclass(slots=True)
class Launch:
    """One launcher's record of its session. ``children`` grows as they are started."""

    session: str
    launcher: ProcessName
    children: list[ProcessName] = field(default_factory=list)
    asked: Asked | None = None
    ran: bool = False
    """Whether the agent's command was started."""
    taken: bool = False
    """Whether everything that was asked for was copied out. Only the launcher knows; the record does not say it."""

    abandoned: bool = False

    @property
    def only_copy(self) -> bool:
        """Whether something that was asked for is nowhere but in the session's folder."""
        return self.ran and not self.taken and self.asked is not None and self.asked.output is not None

    @property
    def alive(self) -> bool:
        """Whether the launcher still runs."""
        return self.launcher.alive()

    def write(self, home: Home) -> None:
        """Write the record, whole or not at all."""
        document = {
            "typ": _TYP,
            "session": self.session,
            "launcher": self.launcher.to_json(),
            "children": [child.to_json() for child in self.children],
            "asked": None if self.asked is None else self.asked.to_json(),
            "ran": self.ran,
        }
        write_file(launch_record(home, self.session), canonical(document))

    def add(self, home: Home, pid: int) -> None:
        """Note a process that was just started."""
        child = ProcessName.of(pid)
        if child is not None:
            self.children.append(child)
            self.write(home)

    def note_command(self, home: Home) -> None:
        """Note that the agent's command is being started: from here on its files are more than our own copies."""
        self.ran = True
        self.write(home)

    def abandon(self, home: Home) -> None:
        """Leave the rest to the next command, which takes the launcher for dead; :meth:`remove` then does nothing."""
        self.abandoned, self.launcher = True, ProcessName(self.launcher.pid, _NEVER)
        self.write(home)

    def remove(self, home: Home) -> None:
        """Everything has ended. Idempotent."""
        if not self.abandoned:
            launch_record(home, self.session).unlink(missing_ok=True)


def launch_record(home: Home, session: str) -> Path:
    """Where the record of the session's launch is, if it was not tidied up yet."""
    return home.launches / f"{session}.json"


def read_launches(home: Home) -> tuple[Launch, ...]:
    """The launches on record. A file that is no record is not ours to judge and is passed over."""
    found = []
    for path in sorted(home.launches.glob("*.json")):
        with suppress(OSError, MalformedError):
            launch = _from_json(path.read_bytes())
            if launch is not None and path.stem == launch.session:
                found.append(launch)
    return tuple(found)


def live_launches(home: Home) -> tuple[Launch, ...]:
    """Those whose launcher runs."""
    return tuple(launch for launch in read_launches(home) if launch.alive)


def end_leftovers(home: Home, *, clock: Callable[[], float] = time.monotonic) -> tuple[Launch, ...]:
    """End what dead launchers left running, within five seconds; their records, which stay until they are removed.

    Args:
        clock: seconds, monotonic.
    """
    dead = [launch for launch in read_launches(home) if not launch.alive]
    deadline = clock() + _GRACE_S
    while clock() < deadline and any(child.alive() for launch in dead for child in launch.children):
        time.sleep(_STEP_S)
    for launch in dead:
        for child in launch.children:
            child.kill(group=True)
    reap_isolation(home.sessions)
    return tuple(dead)


def _from_json(data: bytes) -> Launch | None:
    document = parse_object(data, limit=_LIMIT)
    launcher, children = ProcessName.from_json(document.get("launcher")), document.get("children")
    if document.get("typ") != _TYP or launcher is None or not isinstance(children, list):
        return None
    return Launch(
        str(document.get("session")),
        launcher,
        [child for each in children if (child := ProcessName.from_json(each)) is not None],
        asked=asked_from_json(document.get("asked")),
        ran=document.get("ran") is True,
    )
