"""A session: a command of an agent, in an attested sandbox, with a receipt for everything that it did.

::

    async with Session.open(SessionRequest(profile=Path("profiles.yaml"), agent="code_implementer")) as session:
        result = await session.run(["python3", "agent.py"], timeout_s=600)
    print(result.exit_code, session.bundle_path)

Opening starts what is missing (simulated platform, gateway), asks for a TD whose MRCONFIGID names the profile and
the gateway, starts the supervisor in it and waits until the gateway has admitted it. Leaving closes the session,
writes its bundle with the hidden values opened, copies changes out, and stops what was started. Leaving by an
exception closes the session as ``killed``; the bundle is written all the same.

This is the I/O boundary: the clock, the machine's randomness and the environment are read here, and nowhere below.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from affiant.attestation.bundle.bundle import Bundle
from affiant.errors import AffiantError, ConfigurationError, StateError, UnreachableError
from affiant.folders import default_home
from affiant.policy.loading.policy_file import policy_owners
from affiant.printable import one_line
from affiant.sandbox.base.errors import OutputPlaceError, SessionBundleTooLarge
from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.base.user_files import write_user_file
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.session_note import SessionNote, SessionState, write_note
from affiant.sandbox.session.attested_launch import LaunchedSession, launched
from affiant.sandbox.session.held_children import ChildSessions, Lineage
from affiant.sandbox.session.limits_in_force import limits_and_mechanisms
from affiant.sandbox.session.private_paths import private_places, refuse_private
from affiant.sandbox.session.restriction_socket import InForce, RestrictionServer
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest, plan_session
from affiant.sandbox.session.supervisor_link import Act, Progress, run_message
from affiant.sandbox.session_acts.captured import CAPTURE_LIMIT, Capture
from affiant.sandbox.session_acts.private_places import PrivatePlaces
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.session_acts.sandbox_ports import Asked, OpenPort, open_port
from affiant.sandbox.session_state.bundle_out import boundary_record
from affiant.sandbox.session_state.interrupted import reap_leftovers
from affiant.sandbox.session_state.recovery import Gathered, gather_whole
from affiant.sandbox.session_state.session_folder import (
    BASE,
    BUNDLE,
    RESTRICTION_SOCKET,
    keep_files,
    reclaim_folder,
)
from affiant.sandbox.session_state.shared_input import stored_input
from affiant.sandbox.supervisor.launch.control import sent_error
from affiant.sandbox.supervisor.launch.lifecycle import note_killed
from affiant.sandbox.supervisor.launch.provision import new_session_id
from affiant.sandbox.supervisor.launch.user_streams import MOST_CELLS
from affiant.sandbox.workspace.copy_out import Taken, changes_left, copy_out
from affiant.sandbox.workspace.git_changes import (
    FolderBase,
    branch_message,
    fit_for_git,
    make_branch,
    make_diff,
    submodules_of,
)
from affiant.sandbox.workspace.tree import Changes, Entry

__all__ = ["CommandResult", "Metrics", "Running", "Session", "SessionCalls", "Usage", "Why", "user_home"]

_FINISHED_WITHIN_S: Final = 60.0
_TERM_GRACE_S: Final = 5.0

EXIT_LOST: Final = 125
"""Exit code of a command whose end is not known."""

Why = Literal["done", "killed"]
"""How a session is closed, as its last record says."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command used: seconds of the clock and of processors, and the largest memory of one of its processes.

    The last two are those of its first process and of all that it waited for; None: they are not known.
    """

    wall_s: float
    processor_s: float | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a session uses now.

    Args:
        memory_bytes: memory of all its processes. files_bytes: its files, the input with them.
        commands_running, commands_ended: how many there are, and were.
        processor_s: processor time of the commands that have ended.
    """

    memory_bytes: int
    files_bytes: int
    commands_running: int
    commands_ended: int
    processor_s: float

    def to_json(self) -> Mapping[str, object]:
        """As a session host and ``affiant session top --json`` say it; the time in microseconds."""
        return {
            "memory_bytes": self.memory_bytes,
            "files_bytes": self.files_bytes,
            "commands_running": self.commands_running,
            "commands_ended": self.commands_ended,
            "processor_us": round(self.processor_s * 1e6),
        }

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Metrics:
        """What :meth:`to_json` wrote."""
        names = ("memory_bytes", "files_bytes", "commands_running", "commands_ended", "processor_us")
        values = {name: value for name in names if isinstance(value := found.get(name), int)}
        return cls(processor_s=values.pop("processor_us", 0) / 1e6, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended.

    ``exit_code`` is its own, or 128 + n if signal n ended it; 126 or 127 where it could not be executed.
    ``stdout_bytes`` and ``stderr_bytes`` are what was captured; empty where a descriptor was given.
    """

    exit_code: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    truncated: bool = False
    """Whether more was written than is kept here."""
    timed_out: bool = False
    usage: Usage | None = None
    """None: the command did not run."""
    limit: StateError | None = None
    """The limit of the session that ended the command, and every process of the session's with it."""

    @property
    def stdout(self) -> str:
        """What was captured, as text; bytes that are not UTF-8 are replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """As :attr:`stdout`."""
        return self.stderr_bytes.decode("utf-8", "replace")


class Running:
    """A command under way; made by :meth:`Session.begin` only."""

    def __init__(self, act: Asked, progress: Progress) -> None:
        self._act = act
        self._progress = progress
        self.exit_code: int | None = None
        """Known once it has ended."""
        self._result: CommandResult | None = None

    async def signal(self, number: int) -> None:
        """Send it a signal; one that comes before it has started waits for it."""
        await self._act.tell({"op": "signal", "number": int(number)})

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal.

        Raises:
            ``session.terminal_size``: not 1 to 4,096 rows and columns.
        """
        if not (0 < rows <= MOST_CELLS and 0 < columns <= MOST_CELLS):
            raise ConfigurationError(
                "the terminal's size is outside of its bounds",
                expected=f"1 to {MOST_CELLS} rows and columns",
                found=f"{rows} rows, {columns} columns",
                code="session.terminal_size",
            )
        await self._act.tell({"op": "resize", "terminal": [rows, columns]})

    async def wait(self, timeout_s: float | None = None) -> CommandResult:
        """Its end, without what it wrote.

        Args:
            timeout_s: after that, SIGTERM, and five seconds later SIGKILL. The isolation runner ends the whole sandbox
                if the command still runs 15 seconds after SIGKILL.

        Raises:
            AffiantError: the command was rejected, or the session has ended.
        """
        waiting = asyncio.ensure_future(self._ended())
        try:
            for limit, number in ((timeout_s, signal.SIGTERM), (_TERM_GRACE_S, signal.SIGKILL)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(limit):
                        result = await asyncio.shield(waiting)
                        return replace(result, timed_out=number is signal.SIGKILL)
                await self.signal(number)
            return replace(await waiting, timed_out=True)
        except asyncio.CancelledError:  # the waiting caller was cancelled, so its command ends
            await self.signal(signal.SIGKILL)
            raise
        finally:
            waiting.cancel()

    async def exited(self) -> Mapping[str, object]:
        """The event of its end, as the supervisor sent it.

        Raises:
            As :meth:`wait`.
        """
        while (message := await self._act.next()).get("event") != "exited":
            self._progress("started", {})
        code = message.get("code")
        self.exit_code = code if isinstance(code, int) else None
        return message

    async def _ended(self) -> CommandResult:
        if self._result is not None:
            return self._result
        message = await self.exited()
        limit = message.get("limit")
        self._result = CommandResult(
            exit_code=EXIT_LOST if self.exit_code is None else self.exit_code,
            usage=_usage(message.get("usage")),
            limit=sent_error(limit) if isinstance(limit, dict) else None,
        )
        return self._result


def _usage(members: object) -> Usage | None:
    match members:
        case {"wall_us": int(wall), "processor_us": processor, "peak_bytes": peak}:
            return Usage(
                wall / 1e6,
                processor / 1e6 if isinstance(processor, int) else None,
                peak if isinstance(peak, int) else None,
            )
    return None


def user_home(home: Path | None) -> Home:
    """The state folder ``home``, opened; None: ``$AFFIANT_HOME``, else the XDG state folder.

    Raises:
        ``home.refused``: it is not this user's own.
    """
    return open_home(home or Path(os.environ.get("AFFIANT_HOME") or default_home()))


def _quiet(step: str, detail: Mapping[str, object]) -> None:
    """No progress is shown."""


class SessionCalls(ABC):
    """What a running session does for its owner: the same in the process that opened it, and through its host."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The session's id."""

    @property
    @abstractmethod
    def bundle_path(self) -> Path:
        """Where the session's bundle is, once it is closed."""

    @property
    @abstractmethod
    def files(self) -> SandboxFiles:
        """The session's files: read, write, list, upload, download, while the session is open."""

    @abstractmethod
    def info(self) -> Mapping[str, object]:
        """The session, its agent, its isolation, how it was started, and each limit with what enforces it."""

    @abstractmethod
    def act(self) -> AbstractContextManager[Asked]:
        """An act of the supervisor's, for the length of the block."""

    @abstractmethod
    def begin(
        self,
        argv: Sequence[str],
        streams: Mapping[str, int],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> AbstractAsyncContextManager[Running]:
        """Start a command, beside those that run, for the length of the block.

        Args:
            streams: descriptors ``stdin``, ``stdout`` and ``stderr``; they stay the caller's.
            terminal: rows and columns of the terminal that the command gets; None: it gets pipes.

        Raises:
            ``session.not_open``: the session is closed.
        """

    async def ask(
        self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None
    ) -> Mapping[str, object]:
        """The event that answers an act of one question.

        Raises:
            AffiantError: the supervisor rejected it, or the session has ended.
        """
        with self.act() as act:
            await act.tell(message, descriptors)
            return await act.next()

    def port(
        self, number: int, *, path: Path | None = None, most_bytes: int = 1 << 30
    ) -> AbstractAsyncContextManager[OpenPort]:
        """Reach the agent's server at ``number``, for the length of the block: see :func:`open_port`."""
        return open_port(self.act, number, path=path, most_bytes=most_bytes)

    async def metrics(self) -> Metrics:
        """What the session uses now.

        Raises:
            ``session.not_open``: the session is closed. StateError: its sandbox has ended.
        """
        return Metrics.of(await self.ask({"op": "metrics"}))

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        timeout_s: float | None = None,
        capture_limit: int = CAPTURE_LIMIT,
    ) -> CommandResult:
        """Run a command in the sandbox and wait for its end. Several may run at once.

        Args:
            env: variables beside those that the supervisor sets; these never win over them.
            cwd: a path inside; None: where the input is.
            stdin: a descriptor; None: nothing to read.
            stdout, stderr: descriptors to write to as it happens; None: captured, up to ``capture_limit`` bytes.
            timeout_s: after that, SIGTERM, and five seconds later the end.

        Raises:
            ``session.not_open``: the session is closed.
            AffiantError: the command was rejected, or the session has ended.
        """
        with ExitStack() as stack:
            if stdin is None:
                stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, stdin)
            out = None if stdout is not None else stack.enter_context(Capture(capture_limit))
            err = None if stderr is not None else stack.enter_context(Capture(capture_limit))
            streams = {"stdin": stdin, "stdout": _end(stdout, out), "stderr": _end(stderr, err)}
            captures = [capture for capture in (out, err) if capture is not None]
            async with self.begin(argv, streams, env=env, cwd=cwd) as running:
                for capture in captures:
                    capture.close_writing()
                result = await running.wait(timeout_s)
                return replace(
                    result,
                    stdout_bytes=b"" if out is None else await out.result(),
                    stderr_bytes=b"" if err is None else await err.result(),
                    truncated=any(capture.truncated for capture in captures),
                )


class Session(SessionCalls):
    """An open session; made by :meth:`open` only."""

    def __init__(self, opened: LaunchedSession, progress: Progress) -> None:
        self._opened = opened
        self._progress = progress
        self._closed = False
        self._expired = False
        self._why: Why = "done"
        self._running: set[Running] = set()
        self._gathered: Gathered | None = None
        self._exit_code_told: int | None = None
        self._kept = False
        self.memory: str | None = None
        """What the runner said keeps the memory: ``cgroup`` or ``watchdog``."""
        self.output: Taken | None = None
        """What was copied out, once the session is closed and if an output was asked for."""
        self.changes: Changes | None = None
        """What the agent changed, once the session is closed and if an output, a diff or a branch was asked for."""
        self.commit: str | None = None
        """The commit on the branch that was asked for, once the session is closed."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        request: SessionRequest,
        *,
        home: Path | None = None,
        progress: Progress = _quiet,
        echo: bool = False,
        lineage: Lineage | None = None,
    ) -> AsyncIterator[Session]:
        """Open a session for the length of the block.

        Args:
            home: the state folder; None: ``$AFFIANT_HOME``, else the XDG state folder.
            progress: called with what is being done.
            echo: show what the processes behind the session write to their standard error.
            lineage: of a session that another session's agent starts; None: it is the root of a tree.

        Raises:
            AffiantError: something is missing or wrong, before anything of the agent has run.
        """
        lineage = lineage or Lineage()
        place = user_home(home)
        for reaped in await abandonable(lambda: reap_leftovers(place)):
            progress("reaped", {"session": reaped.session, "text": reaped.text})
        refuse_private(place, request)
        name = lineage.session or new_session_id(secrets.token_bytes)
        plan = await abandonable(
            lambda: plan_session(
                request,
                session=name,
                folder=place.session(name),
                probe=probe,
                owners=policy_owners(os.geteuid(), os.environ),
                parent=lineage.parent,
            )
        )
        if lineage.require is not None:
            await asyncio.to_thread(lineage.require, plan)
        progress("planned", {"session": plan.session, "isolation": plan.backend.value})
        prepared: dict[str, object] = {}

        def listening(step: str, detail: Mapping[str, object]) -> None:
            if step == "sandbox-prepared":
                prepared.update(detail)
            progress(step, detail)

        async with launched(place, plan, listening, random_bytes=secrets.token_bytes, echo=echo) as opened:
            session = cls(opened, progress)
            session.memory = str(prepared.get("memory"))
            restrictions = RestrictionServer(
                opened.link, InForce(request.agent, plan.profile.normal_form, 0), progress
            )
            children = ChildSessions(
                plan,
                in_force=lambda: restrictions.in_force,
                tree=lineage.tree,
                opener=lambda asked, of: cls.open(asked, home=place.path, echo=echo, lineage=of),
                until=time.monotonic() + plan.lease_s,
                progress=progress,
            )
            try:
                async with restrictions.listening(place.session(name) / RESTRICTION_SOCKET):
                    opened.link.answer_with(children.answer)
                    async with children.closing():
                        yield session
            except BaseException as first:  # closed whatever happened in the block, and raised again
                with suppress(AffiantError):  # what happened first is what the caller must hear
                    await session._close("killed", because=first if isinstance(first, AffiantError) else None)
                raise
            await session._close(session._why)

    @property
    def id(self) -> str:
        """The session's id."""
        return self._opened.plan.session

    @property
    def isolation(self) -> str:
        """What isolates the agent, as receipts name it: ``gvisor`` or ``bwrap-landlock``."""
        return self._opened.plan.backend.value

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the secrets that the broker holds: commands have their placeholders as variables."""
        held = self._opened.facts.get("secrets")
        return tuple(map(str, held)) if isinstance(held, list) else ()

    @property
    def started_by(self) -> str:
        """How its supervisor was started: ``pool`` (before the session), ``template`` (forked by a template process) or
        ``interpreter``."""
        if self._opened.pooled:
            return "pool"
        return "template" if self._opened.link.forked else "interpreter"

    async def private(self) -> PrivatePlaces:
        """What may not be uploaded or written over, as it is now."""
        return await asyncio.to_thread(private_places, self._opened.home, self._opened.plan.request)

    @property
    def files(self) -> SandboxFiles:
        """The session's files: read, write, list, upload, download, while the session is open."""
        return SandboxFiles(self.ask, self.private)

    def act(self) -> AbstractContextManager[Act]:
        """An act of the supervisor's, for the length of the block.

        Raises:
            ``session.not_open``: the session is closed.
        """
        self._require_open()
        return self._opened.link.act()

    def info(self) -> Mapping[str, object]:
        """As :meth:`SessionCalls.info`."""
        return {
            "session": self.id,
            "agent": self.plan.request.agent,
            "isolation": self.isolation,
            "started_by": self.started_by,
            "files": [bind.target for bind in self.plan.sandbox.workspaces],
            "secrets": list(self.secrets),
            "limits": limits_and_mechanisms(self.plan, memory=self.memory),
        }

    @property
    def plan(self) -> SessionPlan:
        """What the session is made of."""
        return self._opened.plan

    @property
    def bundle_path(self) -> Path:
        """Where the session's bundle is, once it is closed: a single one, or an archive (``*.affiant.zip``) of a
        session with more records than a single bundle holds."""
        if self._gathered is not None:
            return self._gathered.path
        return self._opened.home.session(self.id) / BUNDLE

    def bundle(self) -> Bundle:
        """The session's receipts with everything needed to check them.

        Raises:
            ``session.not_open``: the session is still open.
            ``session.bundle_too_large``: the receipts are an archive: ``PeriodBundle(session.bundle_path)``.
        """
        if self._gathered is None:
            raise StateError(
                "the bundle is made when the session is closed",
                expected="leave the block first",
                code="session.not_open",
            )
        if self._gathered.bundle is None:
            raise StateError(
                "the session's receipts are an archive, because a single bundle does not hold them",
                where=str(self._gathered.path),
                hint="Read it with PeriodBundle(session.bundle_path), or check it with affiant verify",
                code=SessionBundleTooLarge.code,
            )
        return self._gathered.bundle

    @asynccontextmanager
    async def begin(
        self,
        argv: Sequence[str],
        streams: Mapping[str, int],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> AsyncIterator[Running]:
        """As :meth:`SessionCalls.begin`."""
        self._require_open()
        place = self._opened.plan.place if cwd is None else cwd
        with suppress(OSError):  # a full disk will be noticed where it matters
            await asyncio.to_thread(self._opened.launch.note_command, self._opened.home)
        with self.act() as act:
            running = Running(act, self._progress)
            await act.tell(run_message(argv, env or {}, place, terminal), streams)
            self._running.add(running)
            try:
                yield running
            finally:
                self._running.discard(running)
                self._exit_code_told = running.exit_code

    def _require_open(self) -> None:
        if self._closed:
            raise StateError("the session is closed", expected="one that is open", code="session.not_open")

    async def until_ended(self) -> AffiantError:
        """Return when the session ends by itself; why. Not to be waited for any more once it is being closed."""
        try:
            await self._opened.link.expect(frozenset())
        except AffiantError as error:
            return error
        raise AssertionError("no event is expected")

    async def signal(self, number: int) -> None:
        """Send a signal to every command."""
        for running in tuple(self._running):
            await running.signal(number)

    async def kill(self) -> None:
        """End every command at once; the session will be closed as ``killed``."""
        self._why = "killed"
        await self.signal(signal.SIGKILL)

    def note_expired(self) -> None:
        """Have the session's note say that its time to live was over; it is closed in order."""
        self._expired = True

    async def _close(self, why: Why, *, because: AffiantError | None = None) -> None:
        """Close the session, take its changes and its bundle: each, whatever became of the others.

        Args:
            because: what went wrong before.

        Raises:
            AffiantError: the first of what went wrong here.
        """
        self._closed = True
        wrong: list[AffiantError] = []
        try:
            try:
                await self._finish(why)
            except (AffiantError, OSError) as error:
                failed = _coded(error)
                if failed.code != SessionBundleTooLarge.code:  # it is closed: its receipts are exported below
                    wrong.append(failed)
            finally:
                await self._opened.link.stop()
            reclaim_folder(self._opened.home.session(self.id))
            for take in (self._take_output, self._take_bundle, self._take_diff, self._take_branch):
                try:
                    await asyncio.to_thread(take)
                except (AffiantError, OSError) as error:
                    wrong.append(_coded(error))
            if not self._kept:
                self._opened.launch.taken = True
        finally:
            first = because or (wrong[0] if wrong else None)
            expired = "session.expired" if self._expired else None
            await asyncio.to_thread(self._leave_note, expired if first is None else first.code)
        if wrong:
            raise wrong[0]

    def _leave_note(self, code: str | None) -> None:
        in_order, now = self._gathered is not None and self._gathered.in_order, datetime.now(UTC)
        note = SessionNote(
            session=self.id,
            state=SessionState.CLOSED if in_order else SessionState.LOST,
            asked=self._opened.launch.asked,
            ended=int(now.timestamp()),
            exit_code=self._exit_code_told,
            code=code,
            kept=self._kept,
        )
        with suppress(OSError):  # it is for a person's convenience; receipts are elsewhere
            note_killed(self._opened.home.session(self.id), at=now)
            write_note(self._opened.home, note)

    async def _finish(self, why: Why) -> None:
        try:
            async with asyncio.timeout(_FINISHED_WITHIN_S):
                await self._opened.link.tell({"op": "finish", "why": why})
                await self._opened.link.expect({"finished"})
        except TimeoutError as error:
            raise UnreachableError(
                f"the session was not closed within {_FINISHED_WITHIN_S:g} s; its supervisor was ended",
                code="service.silent",
            ) from error

    def _take_bundle(self) -> None:
        opened = self._opened
        key = opened.home.openings_key(random_bytes=secrets.token_bytes)
        self._gathered = gather_whole(opened.home, self.id, key)
        archive = self._gathered.bundle is None
        self._progress("bundled", {"path": str(self.bundle_path), "archive": archive})

    def _take_output(self) -> None:
        output = self._opened.plan.request.output
        if output is None:
            return
        with self._left_behind() as (source, before, exclude):
            self.output = copy_out(source, output, before=before, exclude=exclude)
        self.changes = self.output.changes
        self._progress("output", {"path": str(output), "changes": self.output.changes})

    def _take_diff(self) -> None:
        opened, request = self._opened, self._opened.plan.request
        if request.output_diff is None or self._kept:
            return
        folder = opened.home.session(self.id)
        with self._left_behind() as (source, before, exclude):
            base: FolderBase | tuple[Path, str] = FolderBase(
                stored_input(opened.home, self.id) or folder / BASE, before
            )
            modules: frozenset[str] = frozenset()
            if request.input is not None and opened.copied is not None and opened.copied.commit is not None:
                base = (request.input, opened.copied.commit)
                modules = submodules_of(*base)
            left = fit_for_git(changes_left(source, before=before, exclude=exclude), modules)
            write_user_file(request.output_diff, make_diff(left, source, base=base))
        self.changes = self.changes or left.changes
        self._progress("diff", {"path": str(request.output_diff), "changes": left.changes})

    def _take_branch(self) -> None:
        opened, request = self._opened, self._opened.plan.request
        branch, repository, copied = request.output_branch, request.input, opened.copied
        if branch is None or repository is None or copied is None or copied.commit is None or self._kept:
            return
        with self._left_behind() as (source, before, exclude):
            record = None if self._gathered is None else boundary_record(self._gathered.receipts(), self.id)
            if record is None:
                raise StateError("no receipt is there for the commit to name", code="session.not_gathered")
            left = changes_left(source, before=before, exclude=exclude)
            left = fit_for_git(left, submodules_of(repository, copied.commit))
            self.commit = make_branch(
                left,
                source,
                repository=repository,
                commit=copied.commit,
                branch=branch,
                message=branch_message(
                    session=self.id, agent=request.agent, task=request.task, receipt=record
                ),
                now=int(datetime.now(UTC).timestamp()),
            )
        self.changes = self.changes or left.changes
        self._progress("branch", {"path": f"branch {branch}", "changes": left.changes})

    @contextmanager
    def _left_behind(self) -> Iterator[tuple[Path, tuple[Entry, ...], frozenset[str]]]:
        """Where the agent's files are, what was there before, and what stays out; they are kept if the block fails."""
        opened = self._opened
        assert opened.plan.place is not None  # a plan without a place for files has no output of any form
        source = opened.home.session(self.id) / opened.plan.sandbox.source_of(opened.plan.place)
        before = () if opened.copied is None else opened.copied.entries
        try:
            yield source, before, frozenset(opened.plan.sandbox.carved_out(opened.plan.place))
        except (AffiantError, OSError) as error:
            failed = _coded(error)
            failed.hint = self._keep() or failed.hint
            raise failed from failed.__cause__

    def _keep(self) -> str | None:
        """Keep the agent's files; what to do with them."""
        opened, self._kept = self._opened, True
        opened.launch.ran = True  # also files that only the owner wrote
        try:
            kept = keep_files(opened.home, self.id)
        except OSError as error:
            return (
                f"What the agent left stays in {opened.home.session(self.id)}, because it cannot be kept "
                f"({error.strerror}). The next affiant command tries again"
            )
        opened.launch.taken = True
        if kept is None:
            self._kept = False
            return None
        return f"What the agent left is kept in {kept}, take it with: affiant session recover {self.id} --output DIR"


def _coded(error: AffiantError | OSError) -> AffiantError:
    """``error``; one of the machine's with a code."""
    if isinstance(error, AffiantError):
        return error
    name = None if error.filename is None else one_line(os.fsdecode(error.filename))
    failed = OutputPlaceError("what the session left cannot be copied", where=name, found=error.strerror)
    failed.__cause__ = error
    return failed


def _end(descriptor: int | None, capture: Capture | None) -> int:
    """Where the command writes: the caller's descriptor, or the capture in its place."""
    if capture is not None:
        return capture.writing
    assert descriptor is not None
    return descriptor
