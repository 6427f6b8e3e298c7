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
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle
from affiant.errors import AffiantError, StateError, UnreachableError
from affiant.folders import default_home
from affiant.policy.loading.policy_file import policy_owners
from affiant.sandbox.base.errors import SessionBundleTooLarge
from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.session_note import SessionNote, SessionState, write_note
from affiant.sandbox.session.attested_launch import LaunchedSession, launched
from affiant.sandbox.session.binding import new_session_id
from affiant.sandbox.session.captured import Capture
from affiant.sandbox.session.private_paths import private_inodes, refuse_private
from affiant.sandbox.session.restriction_socket import InForce, RestrictionServer
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest, plan_session
from affiant.sandbox.session.supervisor_link import Act, Progress, run_message
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.session_acts.sandbox_ports import OpenPort, open_port
from affiant.sandbox.session_state.interrupted import reap_leftovers
from affiant.sandbox.session_state.recovery import Gathered, gather_whole
from affiant.sandbox.session_state.session_folder import (
    BUNDLE,
    RESTRICTION_SOCKET,
    keep_files,
    reclaim_folder,
)
from affiant.sandbox.supervisor.launch.control import sent_error
from affiant.sandbox.workspace.copy_out import Taken, copy_out

__all__ = ["CommandResult", "Metrics", "Running", "Session", "Usage"]

_CAPTURE_LIMIT: Final = 1 << 20
_FINISHED_WITHIN_S: Final = 60.0
_TERM_GRACE_S: Final = 5.0

EXIT_LOST: Final = 125
"""Exit code of a command whose end is not known."""

Why = Literal["done", "killed"]


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

    def __init__(self, act: Act, progress: Progress) -> None:
        self._act = act
        self._progress = progress
        self.exit_code: int | None = None
        """Known once it has ended."""
        self._result: CommandResult | None = None

    async def signal(self, number: int) -> None:
        """Send it a signal; one that comes before it has started waits for it."""
        await self._act.tell({"op": "signal", "number": int(number)})

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal."""
        await self._act.tell({"op": "resize", "terminal": [rows, columns]})

    async def wait(self, timeout_s: float | None = None) -> CommandResult:
        """Its end, without what it wrote.

        Args:
            timeout_s: after that, SIGTERM, and five seconds later SIGKILL.

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
        except asyncio.CancelledError:  # whoever waited has left: the command must not go on without anyone
            await self.signal(signal.SIGKILL)
            raise
        finally:
            waiting.cancel()

    async def _ended(self) -> CommandResult:
        if self._result is not None:
            return self._result
        while (message := await self._act.next()).get("event") != "exited":
            self._progress("started", {})
        code, limit = message.get("code"), message.get("limit")
        self.exit_code = code if isinstance(code, int) else None
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


def _quiet(step: str, detail: Mapping[str, object]) -> None:
    """No progress is shown."""


class Session:
    """An open session; made by :meth:`open` only."""

    def __init__(self, opened: LaunchedSession, progress: Progress) -> None:
        self._opened = opened
        self._progress = progress
        self._closed = False
        self._why: Why = "done"
        self._running: set[Running] = set()
        self._gathered: Gathered | None = None
        self._exit_code_told: int | None = None
        self._kept = False
        self.memory: str | None = None
        """What the runner said keeps the memory: ``cgroup`` or ``watchdog``."""
        self.output: Taken | None = None
        """What was copied out, once the session is closed and if an output was asked for."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        request: SessionRequest,
        *,
        home: Path | None = None,
        progress: Progress = _quiet,
        echo: bool = False,
    ) -> AsyncIterator[Session]:
        """Open a session for the length of the block.

        Args:
            home: the state folder; None: ``$AFFIANT_HOME``, else the XDG state folder.
            progress: called with what is being done.
            echo: show what the processes behind the session write to their standard error.

        Raises:
            AffiantError: something is missing or wrong, before anything of the agent has run.
        """
        place = open_home(home or Path(os.environ.get("AFFIANT_HOME") or default_home()))
        for reaped in await abandonable(lambda: reap_leftovers(place)):
            progress("reaped", {"session": reaped.session, "text": reaped.text})
        refuse_private(place, request)
        name = new_session_id(secrets.token_bytes)
        plan = await abandonable(
            lambda: plan_session(
                request,
                session=name,
                folder=place.session(name),
                probe=probe,
                owners=policy_owners(os.geteuid(), os.environ),
            )
        )
        progress("planned", {"session": plan.session, "isolation": plan.backend.value})
        prepared: dict[str, object] = {}

        def listening(step: str, detail: Mapping[str, object]) -> None:
            if step == "sandbox-prepared":
                prepared.update(detail)
            progress(step, detail)

        async with launched(place, plan, listening, random_bytes=secrets.token_bytes, echo=echo) as opened:
            session = cls(opened, progress)
            session.memory = str(prepared.get("memory"))
            try:
                async with session._restrictions():
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
        """How its supervisor was started: ``template`` (forked by a template process) or ``interpreter``."""
        return "template" if self._opened.link.forked else "interpreter"

    @cached_property
    def files(self) -> SandboxFiles:
        """The session's files: read, write, list, upload, download, while the session is open."""
        opened = self._opened
        return SandboxFiles(opened.link.ask, private_inodes(opened.home, opened.plan.request))

    def port(
        self, number: int, *, path: Path | None = None, most_bytes: int = 1 << 30
    ) -> AbstractAsyncContextManager[OpenPort]:
        """Reach the agent's server at ``number``, for the length of the block: see :func:`open_port`."""
        return open_port(self._opened.link.act, number, path=path, most_bytes=most_bytes)

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
            SessionBundleTooLarge: the receipts are an archive: ``PeriodBundle(session.bundle_path)``.
        """
        if self._gathered is None:
            raise StateError(
                "the bundle is made when the session is closed",
                expected="leave the block first",
                code="session.not_open",
            )
        if self._gathered.bundle is None:
            raise SessionBundleTooLarge(self.id, limit=MAX_BUNDLE)
        return self._gathered.bundle

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
        capture_limit: int = _CAPTURE_LIMIT,
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
            ``session.supervisor_lost``: as named. StateError: the supervisor's error, under its code.
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
        """Start a command, beside those that run, for the length of the block.

        Args:
            streams: descriptors ``stdin``, ``stdout`` and ``stderr``; they stay the caller's.
            terminal: rows and columns of the terminal that the command gets; None: it gets pipes.

        Raises:
            ``session.not_open``: the session is closed.
        """
        if self._closed:
            raise StateError("the session is closed", expected="one that is open", code="session.not_open")
        place = self._opened.plan.place if cwd is None else cwd
        with suppress(OSError):  # a full disk will be noticed where it matters
            await asyncio.to_thread(self._opened.launch.note_command, self._opened.home)
        with self._opened.link.act() as act:
            running = Running(act, self._progress)
            await act.tell(run_message(argv, env or {}, place, terminal), streams)
            self._running.add(running)
            try:
                yield running
            finally:
                self._running.discard(running)
                self._exit_code_told = running.exit_code

    def _restrictions(self) -> AbstractAsyncContextManager[None]:
        """Listen for ``affiant session narrow`` while the session is open."""
        opened = self._opened
        in_force = InForce(opened.plan.request.agent, opened.plan.profile.normal_form, 0)
        server = RestrictionServer(opened.link, in_force, self._progress)
        return server.listening(opened.home.session(self.id) / RESTRICTION_SOCKET)

    async def metrics(self) -> Metrics:
        """What the session uses now.

        Raises:
            ``session.not_open``: the session is closed. StateError: its sandbox has ended.
        """
        if self._closed:
            raise StateError("the session is closed", expected="one that is open", code="session.not_open")
        return Metrics.of(await self._opened.link.ask({"op": "metrics"}))

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
            await self._finish(why)
        except AffiantError as error:
            if error.code != SessionBundleTooLarge.code:  # closed in order: its receipts are exported below
                wrong.append(error)
        finally:
            await self._opened.link.stop()
        reclaim_folder(self._opened.home.session(self.id))
        for take in (self._take_output, self._take_bundle):
            try:
                await asyncio.to_thread(take)
            except AffiantError as error:
                wrong.append(error)
        first = because or (wrong[0] if wrong else None)
        await asyncio.to_thread(self._leave_note, None if first is None else first.code)
        if wrong:
            raise wrong[0]

    def _leave_note(self, code: str | None) -> None:
        in_order = self._gathered is not None and self._gathered.in_order
        note = SessionNote(
            session=self.id,
            state=SessionState.CLOSED if in_order else SessionState.LOST,
            asked=self._opened.launch.asked,
            ended=int(datetime.now(UTC).timestamp()),
            exit_code=self._exit_code_told,
            code=code,
            kept=self._kept,
        )
        with suppress(OSError):  # it is for a person's convenience; receipts are elsewhere
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
        opened, output = self._opened, self._opened.plan.request.output
        if output is None or opened.plan.place is None:
            return
        source = opened.home.session(self.id) / opened.plan.sandbox.source_of(opened.plan.place)
        try:
            self.output = copy_out(
                source,
                output,
                before=() if opened.copied is None else opened.copied.entries,
                exclude=frozenset(opened.plan.sandbox.carved_out(opened.plan.place)),
            )
        except AffiantError as error:
            if source.exists():
                kept = keep_files(opened.home, self.id)
                self._kept = True
                error.hint = (
                    f"What the agent left is kept in {kept}, "
                    f"take it with: affiant session recover {self.id} --output DIR"
                )
            raise
        self._progress("output", {"path": str(output), "changes": self.output.changes})


def _end(descriptor: int | None, capture: Capture | None) -> int:
    """Where the command writes: the caller's descriptor, or the capture in its place."""
    if capture is not None:
        return capture.writing
    assert descriptor is not None
    return descriptor
