"""One command in one session, as a terminal's foreground job: signals, progress, and what came of it.

Ctrl-Z (SIGTSTP) stops the agent's processes, then this one; continued, it continues them.

A signal before the command runs undoes what was started. While it runs, the first SIGINT, SIGTERM or SIGHUP is
the agent's; the second kills it. Either way the session is closed and its receipts are written. One more while
that happens leaves at once: supervisor and services notice, and end by themselves.
"""

from __future__ import annotations

import asyncio
import enum
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from affiant.command_line import printable
from affiant.errors import AffiantError
from affiant.sandbox.base.errors import OutputPlaceError
from affiant.sandbox.session.output_report import changes_to_json, counted, skipped_lines
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session.terminal_output import safely_shown
from affiant.sandbox.session_state.bundle_out import write_bundle
from affiant.sandbox.workspace.tree import Changes

__all__ = ["EXIT_OURS", "RunOptions", "RunOutcome", "open_standard_streams", "run_once"]

EXIT_OURS: Final = 125
"""Exit code of ``affiant run`` if affiant itself refused or failed."""

_FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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


_NOT_LOCKED: Final = (
    "warning: the broker's memory is not locked, so that the values of this session's secrets may be written to swap. "
    "Allow it with 'ulimit -l unlimited' (systemd: LimitMEMLOCK=infinity, containers: --ulimit memlock=-1), "
    "or turn swap off"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How one command is run, beside what the session is.

    Args:
        home: the state folder.
        bundle: where else to write the bundle. summary: where to write the summary.
        env: variables for the command.
        timeout_s: until the command is ended.
        show_progress: lines on standard error.
        raw: on a terminal, show the command's output with the control characters in it.
        show_services: what the processes behind the session write, on standard error.
    """

    home: Path
    bundle: Path | None = None
    summary: Path | None = None
    env: Mapping[str, str]
    timeout_s: float | None = None
    show_progress: bool = False
    show_services: bool = False
    raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What came of it. ``session`` and ``bundle`` are None if a signal came before there was one."""

    exit_code: int
    session: str | None = None
    isolation: str | None = None
    bundle: Path | None = None
    timed_out: bool = False
    changes: Mapping[str, object] | None = None
    memory_locked: bool | None = None
    """Whether the broker's memory stays out of swap; None: it holds no secret."""

    def to_json(self) -> Mapping[str, object]:
        """The summary that ``--json`` writes."""
        bundle = None if self.bundle is None else str(self.bundle)
        return {**asdict(self), "bundle": bundle, "simulated": True}


class _Phase(enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"


class _Signals:
    """What a signal does, by phase."""

    def __init__(self) -> None:
        self.phase = _Phase.STARTING
        self.first: int | None = None
        self.session: Session | None = None
        self._count = 0
        self._starting = asyncio.current_task()
        self._told: set[asyncio.Task[None]] = set()

    def install(self) -> None:
        for number in _FORWARDED:
            asyncio.get_running_loop().add_signal_handler(number, self._arrived, number)
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:  # our parent may have turned it off
            self._listen_to_stop()

    def _listen_to_stop(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, lambda: self._do(self._stop()))

    async def _stop(self) -> None:
        """Stop as the terminal asked, the agent first. Where no shell could continue us the kernel does not stop us
        (an orphaned process group): then the agent goes on at once, too."""
        session = self.session if self.phase is _Phase.RUNNING else None
        if session is not None:
            await session.signal(signal.SIGSTOP)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTSTP)
        signal.raise_signal(signal.SIGTSTP)  # this process stops here until it is continued
        self._listen_to_stop()
        if session is not None:
            await session.signal(signal.SIGCONT)

    def _arrived(self, number: signal.Signals) -> None:
        self._count += 1
        self.first = self.first or number
        match self.phase:
            case _Phase.STARTING if self._count == 1 and self._starting is not None:
                self._starting.cancel()
            case _Phase.RUNNING if self.session is not None:
                session = self.session
                self._do(session.signal(number) if self._count == 1 else session.kill())
            case _ if self._count > 2:
                os._exit(128 + number)  # the user insists: what is still there ends by itself
            case _:
                return

    def _do(self, telling: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(telling)
        self._told.add(task)
        task.add_done_callback(self._told.discard)


def run_once(request: SessionRequest, command: Sequence[str], options: RunOptions) -> RunOutcome:
    """Run ``command`` with this process's standard streams, and return when nothing of the session is left.

    Raises:
        AffiantError: affiant itself refused or failed.
    """
    for path in (options.bundle, options.summary):
        if path is not None and not os.access(path.absolute().parent, os.W_OK):
            raise OutputPlaceError("no file can be written there", where=str(path))
    return asyncio.run(_run(request, command, options))


def open_standard_streams() -> None:
    """Have something at descriptors 0 to 2: else the next file opened would become the command's output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stderr is None:  # the interpreter was started without one
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - it stays open as long as the process


async def _run(request: SessionRequest, command: Sequence[str], options: RunOptions) -> RunOutcome:
    signals = _Signals()
    signals.install()
    try:
        return await _in_session(request, command, options, signals)
    except asyncio.CancelledError:
        if signals.first is None:
            raise
        return RunOutcome(exit_code=128 + signals.first)
    except AffiantError:  # the session was ended for a reason: its receipts show it, if there are any
        if options.bundle is not None and signals.session is not None:
            with suppress(AffiantError):  # what happened first is what the user must hear
                write_bundle(options.bundle, signals.session.bundle(), stream=True)
        raise


async def _in_session(
    request: SessionRequest, command: Sequence[str], options: RunOptions, signals: _Signals
) -> RunOutcome:
    memory_locked: bool | None = None

    def progress(step: str, detail: Mapping[str, object]) -> None:
        nonlocal memory_locked
        if step == "secrets" and detail.get("held"):
            memory_locked = detail.get("memory_locked") is True
            if not memory_locked:
                _say(_NOT_LOCKED)
        if step == "narrowed":  # the starter sees what another command did to the session
            _say(f"the profile was restricted (change {detail.get('epoch')}): {detail.get('digest')}")
        if options.show_progress and (line := _line(step, detail)) is not None:
            _say(line)
        if isinstance(changes := detail.get("changes"), Changes):
            for line in skipped_lines(changes, rest="see --json"):
                _say(line)

    opening = Session.open(request, home=options.home, progress=progress, echo=options.show_services)
    async with opening as session:
        signals.session, signals.phase = session, _Phase.RUNNING
        try:
            async with safely_shown(1, raw=options.raw) as stdout, safely_shown(2, raw=options.raw) as stderr:
                result = await session.run(
                    command,
                    env=options.env,
                    stdin=0,
                    stdout=stdout,
                    stderr=stderr,
                    timeout_s=options.timeout_s,
                )
        finally:
            signals.phase = _Phase.CLOSING
    if options.bundle is not None:
        try:
            write_bundle(options.bundle, session.bundle(), stream=True)
        except OutputPlaceError as error:
            error.hint = (
                f"The command ended with {result.exit_code}; the receipts are in {session.bundle_path}"
            )
            raise
    return RunOutcome(
        exit_code=result.exit_code,
        session=session.id,
        isolation=session.isolation,
        bundle=session.bundle_path if options.bundle is None else options.bundle,
        timed_out=result.timed_out,
        changes=None if session.output is None else changes_to_json(session.output.changes),
        memory_locked=memory_locked,
    )


def _say(line: str) -> None:
    with suppress(OSError):  # our own lines are not read any more: the session goes on
        sys.stderr.write(f"affiant: {line}\n")
        sys.stderr.flush()


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
