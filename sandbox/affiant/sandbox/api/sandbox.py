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
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.errors import AffiantError, StateError
from affiant.policy.model.profile import Resources
from affiant.sandbox.detached.client import DetachedSession, KeptPiece
from affiant.sandbox.detached.host_process import create_detached
from affiant.sandbox.detached.names import require_name
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.processes.services import GatewayChoice
from affiant.sandbox.session.session import CommandResult, Metrics, Running, Session, SessionCalls, user_home
from affiant.sandbox.session.session_plan import SessionRequest, VaultChoice, parse_input
from affiant.sandbox.session_acts.captured import CAPTURE_LIMIT, Typing
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.session_acts.sandbox_ports import OpenPort
from affiant.secrets.store.local_store import StoreKey

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

    def __init__(self, running: Running, reading: asyncio.StreamReader, typing: Typing) -> None:
        self._running = running
        self._reading = reading
        self._typing = typing

    async def read(self) -> bytes:
        """What the terminal shows next; empty: the command has ended."""
        return await self._reading.read(_PIECE)

    async def write(self, data: bytes, *, timeout: float | None = None) -> None:
        """Type, as the command reads it.

        Args:
            timeout: seconds; None: without a bound.

        Raises:
            ``session.terminal_ended``: the command has ended. ``session.terminal_full``: it did not read in time; the
            error says how many bytes were typed.
        """
        await self._typing.write(data, timeout)

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

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Sandbox]]) -> None:
        self._make = make
        self._sandbox: Sandbox | None = None

    def __await__(self) -> Generator[Any, None, Sandbox]:
        return self._make().__await__()

    async def __aenter__(self) -> Sandbox:
        self._sandbox = await self._make()
        return self._sandbox

    async def __aexit__(self, *why: object) -> None:
        assert self._sandbox is not None
        await self._sandbox.leave(*why)


class Sandbox:
    """An open sandbox; made by :meth:`create` and :meth:`connect` only."""

    def __init__(
        self, held: SessionCalls, stack: AsyncExitStack, *, ttl: float | None = None, stays: bool = False
    ) -> None:
        self._held = held
        self._stack = stack
        self._stays = stays
        """Whether the session goes on when the block is left."""
        self._expiring = None if ttl is None else asyncio.create_task(self._expire(ttl))
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def create(
        cls,
        *,
        profile: Path | str | Mapping[str, object],
        agent: str,
        name: str | None = None,
        ttl: float | None = 900,
        resources: Resources | None = None,
        input: Path | str | None = None,  # noqa: A002 - the word of the command line
        output: Path | None = None,
        output_diff: Path | None = None,
        output_branch: str | None = None,
        runtime: Path | None = None,
        rootfs: Path | None = None,
        task: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
        min_isolation: IsolationClass = IsolationClass.USERSPACE_KERNEL,
        platform: PlatformName = PlatformName.AUTO,
        gateway: GatewayChoice | None = None,
        hosts: Mapping[str, Sequence[str]] | None = None,
        secret_store: Path | None = None,
        store_key: StoreKey | None = None,
        vault: VaultChoice | None = None,
        extra_roots: Sequence[Path] = (),
        policy_signature: Path | None = None,
        floor: Path | None = None,
        decisions: Path | None = None,
        home: Path | None = None,
    ) -> Opening:
        """A sandbox of one session.

        With a ``name`` or an ``idempotency_key`` a session host holds the session: it goes on when this process ends,
        until it is closed or ``ttl`` is over, and :meth:`connect` finds it. Leaving the block closes it in either case.

        Args:
            profile: the path of a profile file; its text, if it has more than one line; or an object, which is
                ``agent``'s profile.
            agent: which profile.
            name: what the session is called, unique among those that run.
            ttl: seconds until the session is closed in order, whatever runs; None: the session's longest lease.
            resources: bounds of this session, none above the profile's.
            input: what to copy in: a folder, or text as on the command line, ``DIR[:PATH]`` or ``REPO@REF[:PATH]``.
            output: a folder to copy changes out to. output_diff: a file for them as a diff for ``git apply``.
            output_branch: a new branch of the repository for them, where the input is ``REPO@REF``.
            runtime: a prepared environment. rootfs: an image.
            task: what the session belongs to: ``workflow``, ``task``, ``attempt``, ``parent``.
            idempotency_key: where a session of this key runs, under whatever name, it is given back, and none is
                created.
            min_isolation, platform, gateway, hosts, secret_store, store_key, vault, extra_roots, policy_signature,
                floor, decisions: as :class:`SessionRequest` has them.
            home: the state folder; None: ``$AFFIANT_HOME``, else the XDG state folder.

        Raises:
            AffiantError: when it is opened: something is missing or wrong, before anything of the agent has run.
        """
        place, text = _profile(profile, agent)
        folder, at, commit = (input, None, None) if not isinstance(input, str) else parse_input(input)
        request = SessionRequest(
            profile=place,
            agent=agent,
            input=folder,
            input_at=at,
            input_commit=commit,
            output=output,
            output_diff=output_diff,
            output_branch=output_branch,
            runtime=runtime,
            rootfs=rootfs,
            min_isolation=min_isolation,
            platform=platform,
            gateway=gateway or GatewayChoice(),
            hosts=dict(hosts or {}),
            secret_store=secret_store,
            store_key=store_key,
            extra_roots=tuple(extra_roots),
            vault=vault,
            decisions=decisions,
            lease_s=None if ttl is None else int(ttl) + _LEASE_MARGIN_S,
            policy_signature=policy_signature,
            floor=floor,
            task=task,
            resources=resources,
            name=None if name is None else require_name(name),
            key=idempotency_key,
        )
        opened = _opened_here if name is None and idempotency_key is None else _opened_by_a_host
        return Opening(lambda: opened(request, text, ttl, home))

    @classmethod
    def connect(cls, name: str, *, home: Path | None = None) -> Opening:
        """The session of exactly this name, or id, that a session host holds: one of :meth:`create` with a name, or
        of `affiant session create`. Leaving the block leaves the session open; :meth:`close` closes it.

        Raises:
            ``session.not_open``: when it is opened: none of this name runs.
        """
        return Opening(lambda: _connected(name, home))

    async def _expire(self, ttl: float) -> None:
        await asyncio.sleep(ttl)
        if isinstance(self._held, Session) and self._closing is None:
            self._held.note_expired()
        await asyncio.wait(
            {self._begin_closing()}
        )  # what goes wrong is raised where the sandbox is left or closed

    async def leave(self, *why: Any) -> None:
        """Close it, by an exception as ``killed``; :class:`Opening` calls this.

        Raises:
            AffiantError: as :meth:`close`, unless an exception of the block comes before it.
        """
        if self._stays:
            return
        try:
            await asyncio.shield(self._begin_closing(*why))
        except AffiantError:
            if why[0] is None:
                raise

    async def close(self) -> None:
        """Close the session in order: commands are ended, the bundle is written. Idempotent.

        Raises:
            AffiantError: what went wrong while it was closed.
        """
        await asyncio.shield(self._begin_closing())

    def _begin_closing(self, *why: Any) -> asyncio.Task[None]:
        """The one task that closes the session, for the reason that the first caller gives."""
        if self._closing is None:
            if self._expiring is not None and self._expiring is not asyncio.current_task():
                self._expiring.cancel()
            self._closing = asyncio.create_task(self._unwound(*(why or (None, None, None))))
        return self._closing

    async def _unwound(self, *why: Any) -> None:
        await self._stack.__aexit__(*why)

    @property
    def session(self) -> Session:
        """The session behind a sandbox that this process holds.

        Raises:
            ``session.holder``: a session host holds it.
        """
        if not isinstance(self._held, Session):
            raise StateError(
                "a session host holds the session",
                expected="a sandbox that was created without a name",
                code="session.holder",
            )
        return self._held

    @property
    def _hosted(self) -> DetachedSession:
        if not isinstance(self._held, DetachedSession):
            raise StateError(
                "this process holds the session, and ends with it",
                expected="a sandbox that a session host holds",
                hint="Create it with a name",
                code="session.holder",
            )
        return self._held

    @property
    def id(self) -> str:
        """The session's id, which receipts name."""
        return self._held.id

    @property
    def bundle_path(self) -> Path:
        """Where the bundle is, once the sandbox is closed."""
        return self._held.bundle_path

    @property
    def files(self) -> SandboxFiles:
        """Its files: read, write, list, upload, download and others, as the agent."""
        return self._held.files

    def port(
        self, number: int, *, path: Path | None = None, most_bytes: int = 1 << 30
    ) -> AbstractAsyncContextManager[OpenPort]:
        """Reach the agent's server at ``number``, for the length of a block.

        Args:
            path: where a Unix socket is made; None: a free port of 127.0.0.1, which every user here can reach.
            most_bytes: both ways together; then the port is closed.
        """
        return self._held.port(number, path=path, most_bytes=most_bytes)

    def info(self) -> Mapping[str, object]:
        """What the sandbox is: session, agent, isolation, and each limit with what enforces it; of one that a session
        host holds also its name, and when it was started and expires (Unix seconds)."""
        return self._held.info()

    async def metrics(self) -> Metrics:
        """What the sandbox uses now: memory, files, commands, processor time.

        Raises:
            ``session.not_open``: it is closed. StateError: a limit has ended its processes.
        """
        return await self._held.metrics()

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
            result = await self._held.run(
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
            try:
                readers = []
                for name, (reading_end, _) in pipes.items():
                    reader, transport = await _reader(reading_end)
                    stack.callback(transport.close)
                    readers.append(asyncio.create_task(_read(name, reader, pieces)))
                stack.push_async_callback(_stop, readers)
                running = await stack.enter_async_context(self._held.begin(argv, streams, env=env, cwd=cwd))
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

    async def detach(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> int:
        """Start a command that goes on without this process; its number. What it writes is kept: :meth:`kept`.

        Raises:
            ``session.holder``: no session host holds the session. AffiantError: it takes no more commands.
        """
        return await self._hosted.detach(argv, env=env, cwd=cwd, timeout_s=timeout)

    async def kept(self, number: int, at: tuple[int, int] = (0, 0), *, wait: bool = False) -> KeptPiece:
        """What detached command ``number`` wrote, from a position on; see :class:`KeptPiece`.

        Args:
            at: bytes of standard output and of standard error; a piece says where the next begins.
            wait: up to 20 seconds, where there is nothing yet and the command runs.

        Raises:
            ``session.no_output``, ``session.command_unknown``: none is kept. ``session.holder``: as :meth:`detach`.
        """
        return await self._hosted.kept(number, at, wait=wait)

    async def signal(self, number: int, sent: int) -> None:
        """Send the signal ``sent`` to command ``number`` of :meth:`detach`."""
        await self._hosted.kill(number, sent)

    async def status(self) -> Mapping[str, object]:
        """As :meth:`info`, and ``commands``: those that run, and the last that have ended, of every client.

        Raises:
            ``session.holder``: as :meth:`detach`.
        """
        return await self._hosted.status()

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
            typed = Typing(typing)
            stack.callback(typed.close)
            shown, transport = await _reader(reading)
            stack.callback(transport.close)
            streams = {"stdin": to_command, "stdout": from_command, "stderr": from_command}
            begun = self._held.begin(
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
                yield Terminal(running, shown, typed)
            finally:
                transport.close()  # else the command's end would wait until its output is read
                if running.exit_code is None:
                    await running.signal(signal.SIGKILL)
                    await running.wait()


async def _opened_here(
    request: SessionRequest, text: bytes | None, ttl: float | None, home: Path | None
) -> Sandbox:
    """A sandbox that this process holds."""
    async with AsyncExitStack() as stack:
        request = _with_profile(request, text, stack)
        session = await stack.enter_async_context(Session.open(request, home=home))
        return Sandbox(session, stack.pop_all(), ttl=ttl)
    raise AssertionError("nothing here suppresses an error")


async def _opened_by_a_host(
    request: SessionRequest, text: bytes | None, ttl: float | None, home: Path | None
) -> Sandbox:
    """A sandbox that a session host holds."""
    place = user_home(home)
    with ExitStack() as stack:  # the host has read the profile when it is ready
        request = _with_profile(request, text, stack)
        held, _ = await create_detached(place, request, ttl_s=None if ttl is None else max(int(ttl), 1))
    return _of_host(held)


async def _connected(name: str, home: Path | None) -> Sandbox:
    return _of_host(await DetachedSession.connect(name, home=home).opened(), stays=True)


def _of_host(held: DetachedSession, *, stays: bool = False) -> Sandbox:
    async def closed(kind: type[BaseException] | None, *_: object) -> None:
        await held.close("done" if kind is None else "killed")

    stack = AsyncExitStack()
    stack.push_async_exit(closed)
    return Sandbox(held, stack, stays=stays)


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


def _with_profile(
    request: SessionRequest, text: bytes | None, stack: ExitStack | AsyncExitStack
) -> SessionRequest:
    """``request`` with the text of its profile, if it is one, in a file that only this user can have written."""
    if text is None:
        return request
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="affiant-"))) / "profile.yaml"
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


async def _read(name: Any, reader: asyncio.StreamReader, pieces: asyncio.Queue[Output | None]) -> None:
    """Hand on what a pipe gives, until its end."""
    with suppress(OSError):  # nothing more can be read
        while data := await reader.read(_PIECE):
            await pieces.put(Output(name, data))
    await pieces.put(None)


async def _stop(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
