"""What ``affiant run`` says of its session on standard error, beside what the command itself writes there.

Also without a terminal it says, once the session is ready, the platform (SIMULATED, where it is) and the isolation, and
at the end what was denied, that a time limit ended the command, and where the receipts are. On a terminal it says each
step of the start as well. With ``--quiet`` it says only errors, what changes the session, and what is missing from its
output.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.command_line import printable
from affiant.sandbox.session.output_report import counted, skipped_lines
from affiant.sandbox.workspace.tree import Changes

__all__ = ["ARCHIVED", "Detail", "RunReport"]

ARCHIVED: Final = "more records than a single bundle holds: the receipts are a period archive (*.affiant.zip)"

_OF_CHILD: Final = {"open": "started", "failed": "did not start: {why}"}
"""State of a session that the agent starts -> how the report says it; in any other state the session has ended."""
_STEPS: Final = {
    "reaped": "ended what an earlier session left behind: {session}",
    "planned": "session {session}, isolation {isolation}",
    "services-one-user": "not root: all processes run as this user, the agent under bubblewrap",
    "rootfs": "unpacked the root file system, {digest}",
    "services-ready": "{platform}; gateway at {gateway}",
    "witnesses": "witness: {text}",
    "input": "copied {entries} files and folders in",
    "ready": "admitted; the agent may start",
    "bundled": "receipts in {path}",
}
_OF_READY: Final = frozenset({"planned", "services-ready"})
_MOST_DENIALS: Final = 20
"""Lines; the others are in the receipts."""
_NOT_LOCKED: Final = (
    "warning: the broker's memory is not locked, so that the values of this session's secrets may be written to swap. "
    "Allow it with 'ulimit -l unlimited' (systemd: LimitMEMLOCK=infinity, containers: --ulimit memlock=-1), "
    "or turn swap off"
)
_WATCHED: Final = (
    "no memory cgroup can be made here: the memory limit is checked twice a second, "
    "and the agent can exceed it in between"
)
_PATHS_SHOWN: Final = (
    "no overlay can be mounted here: the agent can read the path of this session's folder "
    "in /proc/self/mountinfo"
)


class Detail(enum.IntEnum):
    """How much is said."""

    QUIET = 0
    SUMMARY = 1
    STEPS = 2
    ALL = 3
    """Each step under its own name as well."""


class RunReport:
    """Says it, and keeps what the summary in JSON repeats.

    Args:
        copied_to: where else the receipts are written; that place is named then.
    """

    def __init__(self, detail: Detail, *, copied_to: Path | None = None) -> None:
        self._detail = detail
        self._copied_to = copied_to
        self._until_ready: list[str] = []
        self.session: str | None = None
        self.bundle: Path | None = None
        """Where the receipts are, once they were gathered."""
        self.archive = False
        """Whether they are a period archive."""
        self.lost = False
        """Whether the session ended before it was open, without a signed close."""
        self.denied: Sequence[Mapping[str, object]] = ()
        """What was denied: ``kind``, ``name``, ``reason`` and ``count`` of each."""
        self.denied_unknown = False
        """Whether what the gateway denied is missing from that."""
        self.memory_locked: bool | None = None
        """Whether the broker's memory stays out of swap; None: it holds no secret."""

    def step(self, step: str, detail: Mapping[str, object]) -> None:
        """Take one step of the session's."""
        match step:
            case "narrowed":  # the starter sees what another command did to the session
                say(f"the profile was restricted (change {detail.get('epoch')}): {detail.get('digest')}")
            case "planned":
                self.session = str(detail.get("session"))
            case "bundled":
                self._bundled(detail)
            case "child":
                what = _OF_CHILD.get(str(detail.get("state")), "ended").format(why=detail.get("why"))
                self.note(f"the agent's session {detail.get('session')} of {detail.get('agent')} {what}")
            case "lost":
                self.lost = True
                self.warn(
                    f"session {self.session} ended without a signed close. "
                    f"Gather what was recorded: affiant session recover {self.session}"
                )
            case "files-left":
                self.warn(str(detail.get("text")))
            case "denied":
                self._deny(detail)
            case "secrets" if detail.get("held"):
                self.memory_locked = detail.get("memory_locked") is True
                if not self.memory_locked:
                    say(_NOT_LOCKED)
            case "sandbox-prepared":
                self._say_once_ready(*_weaker(detail))
        self._show(step, detail)
        if isinstance(changes := detail.get("changes"), Changes):
            for line in skipped_lines(changes, rest="see --json"):
                say(line)

    def _bundled(self, detail: Mapping[str, object]) -> None:
        self.bundle = Path(str(detail.get("path")))
        self.archive = detail.get("archive") is True
        if self.archive:
            self.note(ARCHIVED)

    def note(self, line: str) -> None:
        """Say something that is part of the summary."""
        if self._detail >= Detail.SUMMARY:
            self.warn(line)

    def warn(self, line: str) -> None:
        """Say something however little is to be said."""
        say(printable(line))

    def _show(self, step: str, detail: Mapping[str, object]) -> None:
        line = _line(step, detail)
        if line is None and self._detail is Detail.ALL:
            line = f"step: {printable(step)}"
        if line is None or (step == "bundled" and self._copied_to is not None):
            return
        if self._detail >= Detail.STEPS or (self._detail is Detail.SUMMARY and step == "bundled"):
            say(line)
        elif self._detail is Detail.SUMMARY and step in _OF_READY:
            self._say_once_ready(line)
        elif self._detail is Detail.SUMMARY and step == "ready":
            for held in self._until_ready:
                say(held)

    def _say_once_ready(self, *lines: str) -> None:
        if self._detail >= Detail.STEPS:
            for line in lines:
                say(line)
        elif self._detail is Detail.SUMMARY:
            self._until_ready += lines  # a start that is refused is one line, of why

    def _deny(self, detail: Mapping[str, object]) -> None:
        entries, more = detail.get("denied"), detail.get("denied_more")
        self.denied = (
            [entry for entry in entries or () if isinstance(entry, Mapping)]
            if isinstance(entries, list)
            else ()
        )
        for line in _denials(self.denied, more if isinstance(more, int) else 0):
            self.note(line)
        self.denied_unknown = detail.get("denied_unknown") is True
        if self.denied_unknown:
            self.note("the gateway did not report what it denied; see the receipts")


def say(line: str) -> None:
    """One line of ours on standard error."""
    with suppress(OSError):  # our own lines are not read any more: the session goes on
        sys.stderr.write(f"affiant: {line}\n")
        sys.stderr.flush()


def _weaker(detail: Mapping[str, object]) -> Iterator[str]:
    """What this machine does not give the sandbox, and what that means."""
    if detail.get("memory") == "watchdog":
        yield _WATCHED
    if detail.get("paths") == "shown":
        yield _PATHS_SHOWN


def _denials(entries: Sequence[Mapping[str, object]], more: int) -> Iterator[str]:
    for entry in entries[:_MOST_DENIALS]:
        kind, name, count = entry.get("kind"), entry.get("name"), entry.get("count")
        if kind == "tool offer":
            yield f"removed from {count} request{_s(count)}: tool {name} ({entry.get('reason')})"
        else:
            yield f"denied {count} time{_s(count)}: {kind} {name} ({entry.get('reason')})"
    counts = [entry.get("count") for entry in entries[_MOST_DENIALS:]]
    rest = more + sum(count for count in counts if isinstance(count, int))
    if rest:
        yield f"denied {rest} time{_s(rest)} more: see the receipts"


def _s(count: object) -> str:
    return "" if count == 1 else "s"


def _line(step: str, detail: Mapping[str, object]) -> str | None:
    """One line for a person; None for steps that are not shown."""
    if isinstance(changes := detail.get("changes"), Changes):
        return printable(f"copied changes to {detail.get('path')}: {counted(changes)}")
    text = _STEPS.get(step)
    if text is None:
        return None
    try:
        return printable(text.format_map({name: str(value) for name, value in detail.items()}))
    except KeyError:
        return printable(step)
