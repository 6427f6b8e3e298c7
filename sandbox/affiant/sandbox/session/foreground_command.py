"""One command in one session, as a terminal's foreground job: signals, progress, and what came of it.

Ctrl-Z (SIGTSTP) stops the agent's processes, then this one; continued, it continues them.

A signal before the command runs is answered at once and undoes what was started, within two seconds; a session that was
admitted by then is closed, and has its receipts. A gateway that is slow to close it is waited for at most six seconds;
after that the session is lost, and how to recover it is said.

While the command runs, the first SIGINT, SIGTERM or SIGHUP is the agent's; the second kills it. Either way the session
is closed and its receipts are written. One more while that happens leaves at once: supervisor and services notice, and
end by themselves.
"""

from __future__ import annotations

import asyncio
import enum
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from affiant.errors import AffiantError
from affiant.sandbox.base.errors import OutputPlaceError
from affiant.sandbox.base.user_files import copy_user_file
from affiant.sandbox.runtimes.runtime_check import require_program
from affiant.sandbox.session.output_report import changes_to_json
from affiant.sandbox.session.run_report import Detail, RunReport
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session.terminal_output import safely_shown
from affiant.sandbox.supervisor.launch.environment import require_user_variables

__all__ = ["EXIT_OURS", "RunOptions", "RunOutcome", "open_standard_streams", "run_once"]

EXIT_OURS: Final = 125
"""Exit code of ``affiant run`` if affiant itself refused or failed."""

_FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How one command is run, beside what the session is.

    Args:
        home: the state folder.
        bundle: where else to write the bundle. summary: where to write the summary.
        env: variables for the command.
        timeout_s: until the command is ended.
        detail: how much is said on standard error.
        raw: on a terminal, show the command's output with the control characters in it.
        show_services: what the processes behind the session write, on standard error.
    """

    home: Path
    bundle: Path | None = None
    summary: Path | None = None
    env: Mapping[str, str]
    timeout_s: float | None = None
    detail: Detail = Detail.QUIET
    show_services: bool = False
    raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What came of it. ``session`` and ``bundle`` are None if a signal came before there were receipts."""

    exit_code: int
    session: str | None = None
    isolation: str | None = None
    bundle: Path | None = None
    archive: bool = False
    """Whether the bundle is a period archive: the session has more records than a single bundle holds."""
    timed_out: bool = False
    changes: Mapping[str, object] | None = None
    commit: str | None = None
    """On the branch that was asked for."""
    memory_locked: bool | None = None
    """Whether the broker's memory stays out of swap; None: it holds no secret."""
    denied: Sequence[Mapping[str, object]] = ()
    """What was denied: ``kind``, ``name``, ``reason`` and ``count`` of each."""
    denied_unknown: bool = False
    """Whether what the gateway denied is missing from that: it did not answer when the session ended."""

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

    def __init__(self, report: RunReport) -> None:
        self.phase = _Phase.STARTING
        self._report = report
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
                self._report.note("interrupted; ending what was started")
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
    require_user_variables(options.env)
    if request.runtime is not None and request.rootfs is None:
        require_program(request.runtime, command[0], root=Path("/"))
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
    report = RunReport(options.detail, copied_to=options.bundle)
    signals = _Signals(report)
    signals.install()
    try:
        outcome = await _in_session(request, command, options, signals, report)
        how = f"The command ended with {outcome.exit_code}; the"
    except asyncio.CancelledError:
        if signals.first is None:
            raise
        session = report.session if report.lost or report.bundle is not None else None
        outcome, how = RunOutcome(exit_code=128 + signals.first, session=session, denied=report.denied), "The"
    except (
        AffiantError
    ) as error:  # the session was ended for a reason: its receipts show it, if there are any
        if report.lost and error.where is None:
            error.where = f"session {report.session}"
        try:
            _copy_receipts(report, options.bundle)
        except OutputPlaceError:  # what happened first is what the user must hear
            report.warn(f"receipts in {report.bundle}")
        raise
    try:
        return replace(outcome, bundle=_copy_receipts(report, options.bundle), archive=report.archive)
    except OutputPlaceError as error:
        error.hint = f"{how} receipts are in {report.bundle}"
        raise


def _copy_receipts(report: RunReport, place: Path | None) -> Path | None:
    """The receipts at the place that the user asked for; where they are, None: there are none.

    Raises:
        OutputPlaceError: they could not be written there.
    """
    if report.bundle is None or place is None:
        return report.bundle
    copy_user_file(report.bundle, place, mode=0o600)
    report.note(f"receipts in {place}")
    return place


async def _in_session(
    request: SessionRequest,
    command: Sequence[str],
    options: RunOptions,
    signals: _Signals,
    report: RunReport,
) -> RunOutcome:
    def step(name: str, detail: Mapping[str, object]) -> None:
        if name == "started":
            signals.phase = _Phase.RUNNING
        report.step(name, detail)

    opening = Session.open(request, home=options.home, progress=step, echo=options.show_services)
    async with opening as session:
        signals.session = session
        try:
            async with safely_shown(1, 2, raw=options.raw) as (stdout, stderr):
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
        if result.timed_out:
            report.note(f"--timeout: the command was ended after {options.timeout_s:g} s")
    return RunOutcome(
        exit_code=result.exit_code,
        session=session.id,
        isolation=session.isolation,
        timed_out=result.timed_out,
        changes=None if session.changes is None else changes_to_json(session.changes),
        commit=session.commit,
        memory_locked=report.memory_locked,
        denied=report.denied,
        denied_unknown=report.denied_unknown,
    )
