"""A sandbox from Python: commands from outside, each attested and recorded.

::

    async with Sandbox.create(profile="profiles.yaml", agent="code_implementer", input=Path(".")) as sandbox:
        tests = await sandbox.run(["python3", "-m", "pytest"], timeout=600)
        async for event in sandbox.stream(["make"]):
            print(event)
    print(tests.exit_code, tests.stdout, sandbox.bundle_path)

One sandbox is one session: one TD, one profile, one chain of receipts, and any number of commands, several at once.
Leaving the block closes the session and writes its bundle. ``SandboxSync`` is the same without asyncio.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from affiant.policy.model.profile import Resources
from affiant.sandbox.api.limits import limits_and_mechanisms
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.session.session import CAPTURE_LIMIT, CommandResult, Metrics, Running, Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.session_acts.sandbox_ports import OpenPort

__all__ = ["Exited", "Opening", "Output", "Sandbox", "Terminal"]

_PIECE: Final = 1 << 16
_LEASE_MARGIN_S: Final = 60
"""So much longer than ``ttl`` the session's lease is: it is closed in order before."""

Input = bytes | str | int | None
"""What a command reads: bytes, text, a descriptor, or nothing."""


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what a command wrote, as it came."""

    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class Exited:
    """The end of a command; the last event of a stream."""

    result: CommandResult


class Terminal:
    """A command on a terminal of its own; made by :meth:`Sandbox.pty` only."""

    def __init__(self, running: Running, reading: asyncio.StreamReader, writing: int) -> None:
        self._running = running
        self._reading = reading
        self._writing = writing

    async def read(self) -> bytes:
        """What the terminal shows next; empty: the command has ended."""
        return await self._reading.read(_PIECE)

    async def write(self, data: bytes) -> None:
        """Type."""
        view = memoryview(data)
        while view:
            view = view[await asyncio.to_thread(os.write, self._writing, view) :]

    async def resize(self, rows: int, columns: int) -> None:
        """Change the terminal's size; the command is told."""
        await self._running.resize(rows, columns)

    async def signal(self, number: int) -> None:
        """Send the command a signal."""
        await self._running.signal(number)

    async def wait(self, timeout: float | None = None) -> CommandResult:
        """The command's end."""
        return await self._running.wait(timeout)


class Opening:
    """A sandbox that is to be made: ``await`` it, or use it in ``async with``."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __await__(self) -> Generator[Any, None, Sandbox]:
        return self._sandbox.open().__await__()

    async def __aenter__(self) -> Sandbox:
        return await self._sandbox.open()

    async def __aexit__(self, *why: object) -> bool | None:
        return await self._sandbox.leave(*why)


class Sandbox:
    """An open sandbox; made by :meth:`create` only."""

    def __init__(
        self, request: SessionRequest, text: bytes | None, ttl: float | None, home: Path | None
    ) -> None:
        self._request = request
        self._text = text
        self._ttl = ttl
        self._home = home
        self._stack = AsyncExitStack()
        self._session: Session | None = None
        self._expiring: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def create(
        cls,
        *,
        profile: Path | str | Mapping[str, object],
        agent: str,
        ttl: float | None = 900,
        resources: Resources | None = None,
        input: Path | None = None,  # noqa: A002 - the word of the command line
        runtime: Path | None = None,
        rootfs: Path | None = None,
        task: Mapping[str, object] | None = None,
        home: Path | None = None,
        **more: Any,
    ) -> Opening:
        """A sandbox of one session.

        Args:
            profile: the path of a profile file; its text, if it has more than one line; or an object, which is
                ``agent``'s profile.
            agent: which profile.
            ttl: seconds until the session is closed in order, whatever runs; None: the session's longest lease.
            resources: bounds of this session, none above the profile's.
            input: a folder to copy in. runtime: a prepared environment. rootfs: an image.
            task: what the session belongs to: ``workflow``, ``task``, ``attempt``, ``parent``.
            home: the state folder; None: ``$AFFIANT_HOME``, else the XDG state folder.
            more: other members of :class:`SessionRequest`.

        Raises:
            AffiantError: when it is opened: something is missing or wrong, before anything of the agent has run.
        """
        place, text = _profile(profile, agent)
        lease = {} if ttl is None else {"lease_s": int(ttl) + _LEASE_MARGIN_S}
        request = SessionRequest(
            profile=place,
            agent=agent,
            resources=resources,
            input=input,
            runtime=runtime,
            rootfs=rootfs,
            task=task,
            **{**lease, **more},
        )
        return Opening(cls(request, text, ttl, home))

    @classmethod
    def connect(cls, name: str, *, home: Path | None = None) -> DetachedSession:
        """A session that `affiant session create` made, by exactly its name, or its id.

        Raises:
            ``session.not_open``: none of this name runs.
        """
        return DetachedSession.connect(name, home=home)

    async def open(self) -> Sandbox:
        """Open it; :class:`Opening` calls this."""
        try:
            request = self._request
            if self._text is not None:
                folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="affiant-")))
                request = _with_profile(request, folder / "profile.yaml", self._text)
            opening = Session.open(request, home=self._home)
            self._session = await self._stack.enter_async_context(opening)
        except BaseException:
            await self._stack.aclose()
            raise
        if self._ttl is not None:
            self._expiring = asyncio.create_task(self._expire(self._ttl))
        return self

    async def _expire(self, ttl: float) -> None:
        await asyncio.sleep(ttl)
        await self.close()

    async def leave(self, *why: Any) -> bool | None:
        """Close it, by an exception as ``killed``; :class:`Opening` calls this."""
        if self._closing is not None:
            await self.close()
            return None
        self._stop_expiring()
        return await self._stack.__aexit__(*why)

    def _stop_expiring(self) -> None:
        if self._expiring is not None and self._expiring is not asyncio.current_task():
            self._expiring.cancel()

    async def close(self) -> None:
        """Close the session in order: commands are ended, the bundle is written. Idempotent.

        Raises:
            AffiantError: what went wrong while it was closed.
        """
        if self._closing is None:
            self._stop_expiring()
            self._closing = asyncio.create_task(self._stack.aclose())
        await asyncio.shield(self._closing)

    @property
    def session(self) -> Session:
        """The session behind the sandbox."""
        assert self._session is not None
        return self._session

    @property
    def id(self) -> str:
        """The session's id, which receipts name."""
        return self.session.id

    @property
    def bundle_path(self) -> Path:
        """Where the bundle is, once the sandbox is closed."""
        return self.session.bundle_path

    @property
    def files(self) -> SandboxFiles:
        """Its files: read, write, list, upload, download and others, as the agent."""
        return self.session.files

    def port(
        self, number: int, *, path: Path | None = None, most_bytes: int = 1 << 30
    ) -> AbstractAsyncContextManager[OpenPort]:
        """Reach the agent's server at ``number``, for the length of a block.

        Args:
            path: where a Unix socket is made; None: a free port of 127.0.0.1, which every user here can reach.
            most_bytes: both ways together; then the port is closed.
        """
        return self.session.port(number, path=path, most_bytes=most_bytes)

    def info(self) -> Mapping[str, object]:
        """What the sandbox is: session, agent, isolation, how it was started, and what enforces each limit."""
        session = self.session
        return {
            "session": self.id,
            "agent": session.plan.request.agent,
            "isolation": session.isolation,
            "started_by": session.started_by,
            "limits": limits_and_mechanisms(session.plan, memory=session.memory),
        }

    async def metrics(self) -> Metrics:
        """What the sandbox uses now: memory, files, commands, processor time.

        Raises:
            ``session.not_open``: it is closed. StateError: a limit has ended its processes.
        """
        return await self.session.metrics()

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: Input = None,
        capture_limit: int = CAPTURE_LIMIT,
    ) -> CommandResult:
        """Run a command to its end. Several may run at once.

        Args:
            env: variables beside those that the supervisor sets; a secret's value is rejected.
            cwd: a path inside; None: where the input is.
            timeout: seconds; then SIGTERM to the command's processes, and five seconds later SIGKILL.
            capture_limit: bytes that are kept of each output.

        Raises:
            StateError: a limit of the session ended the command (``isolation.limit``), or the session has ended.
            ConfigurationError: the command was rejected, by its own code; the session goes on.
        """
        async with _given(stdin) as reading:
            result = await self.session.run(
                argv, env=env, cwd=cwd, timeout_s=timeout, stdin=reading, capture_limit=capture_limit
            )
        if result.limit is not None:
            raise result.limit
        return result

    async def stream(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: Input = None,
    ) -> AsyncIterator[Output | Exited]:
        """Run a command and yield what it writes as it comes; its end is the last event.

        A reader that is slow slows the command. One that leaves ends it.

        Raises:
            As :meth:`run`.
        """
        async with AsyncExitStack() as stack:
            reading = await stack.enter_async_context(_given(stdin))
            pipes = {name: os.pipe2(os.O_CLOEXEC) for name in ("stdout", "stderr")}
            pieces: asyncio.Queue[Output | None] = asyncio.Queue(maxsize=4)
            streams = {"stdin": reading, **{name: ends[1] for name, ends in pipes.items()}}
            readers = [asyncio.create_task(_read(name, ends[0], pieces)) for name, ends in pipes.items()]
            stack.push_async_callback(_stop, readers)
            try:
                running = await stack.enter_async_context(self.session.begin(argv, streams, env=env, cwd=cwd))
            finally:
                for _, writing in pipes.values():
                    os.close(writing)
            ending = asyncio.create_task(running.wait(timeout))
            stack.push_async_callback(_stop, [ending])
            for _ in pipes:
                while (piece := await pieces.get()) is not None:
                    yield piece
            result = await ending
            if result.limit is not None:
                raise result.limit
            yield Exited(result)

    @asynccontextmanager
    async def pty(
        self,
        argv: Sequence[str] = ("/bin/sh",),
        *,
        rows: int = 24,
        columns: int = 80,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> AsyncIterator[Terminal]:
        """Run a command on a terminal of its own for the length of the block, which ends it.

        Raises:
            As :meth:`run`.
        """
        async with AsyncExitStack() as stack:
            to_command, typing = os.pipe2(os.O_CLOEXEC)
            reading, from_command = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, typing)
            shown, transport = await _reader(reading)
            stack.callback(transport.close)
            streams = {"stdin": to_command, "stdout": from_command, "stderr": from_command}
            begun = self.session.begin(
                argv,
                streams,
                env={"TERM": "xterm-256color", **(env or {})},
                cwd=cwd,
                terminal=(rows, columns),
            )
            try:
                running = await stack.enter_async_context(begun)
            finally:
                os.close(to_command)
                os.close(from_command)
            try:
                yield Terminal(running, shown, typing)
            finally:
                if running.exit_code is None:
                    await running.signal(signal.SIGKILL)
                    await running.wait()


def _profile(given: Path | str | Mapping[str, object], agent: str) -> tuple[Path, bytes | None]:
    """The profile file's path, and its text where it is none yet."""
    match given:
        case Path():
            return given, None
        case str() if "\n" not in given:
            return Path(given), None
        case str():
            return Path("profile.yaml"), given.encode()
    lines = json.dumps({"agent_configs": {agent: given}}, indent=1, default=dict)
    return Path("profile.yaml"), lines.encode()


def _with_profile(request: SessionRequest, place: Path, text: bytes) -> SessionRequest:
    """``request`` with its profile in a file that only this user can have written."""
    place.touch(mode=0o600)
    place.write_bytes(text)
    return replace(request, profile=place)


@asynccontextmanager
async def _given(stdin: Input) -> AsyncIterator[int]:
    """A descriptor of what the command reads, for the length of the block."""
    if isinstance(stdin, int):
        yield stdin
        return
    descriptor = _memory(b"" if stdin is None else stdin.encode() if isinstance(stdin, str) else stdin)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _memory(content: bytes) -> int:
    """An anonymous file, to be read from its start."""
    descriptor = os.memfd_create("affiant-stdin", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _reader(reading: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """A pipe's end, read without a thread; closing the transport closes the descriptor."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_PIECE)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
    )
    return reader, transport


async def _read(name: Any, reading: int, pieces: asyncio.Queue[Output | None]) -> None:
    """Hand on what a pipe gives, until its end."""
    reader, transport = await _reader(reading)
    try:
        while data := await reader.read(_PIECE):
            await pieces.put(Output(name, data))
    finally:
        transport.close()
    await pieces.put(None)


async def _stop(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
