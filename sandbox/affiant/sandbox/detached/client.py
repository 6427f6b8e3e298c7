"""A session that a session host holds, from another process: run commands, read kept output, close it.

::

    session = DetachedSession.connect("build")
    result = await session.run(["make", "test"], timeout_s=600)

Each request is a connection of its own to the host, so any number can be under way at once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.errors import StateError
from affiant.folders import default_home
from affiant.sandbox.detached.names import running_session
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.session.captured import Capture
from affiant.sandbox.session.restriction_socket import connected
from affiant.sandbox.session.session import CommandResult, Metrics
from affiant.sandbox.session_state.session_folder import HOST_SOCKET
from affiant.sandbox.supervisor.launch.control import ControlChannel, sent_error

__all__ = ["DetachedSession", "KeptPiece", "RunningCommand"]

_CAPTURE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptPiece:
    """A piece of the kept output of a command, and where the next one begins."""

    stdout: bytes
    stderr: bytes
    at: tuple[int, int]
    ended: bool
    exit_code: int | None


class RunningCommand:
    """A command of a detached session, in the foreground of this process. It ends if this process does."""

    def __init__(self, channel: ControlChannel, number: int) -> None:
        self._channel = channel
        self.number = number

    async def signal(self, number: int) -> None:
        """Send a signal to it."""
        with suppress(OSError):  # a host that is gone is noticed where its answer is awaited
            await self._channel.send({"op": "signal", "number": int(number)})

    async def exited(self) -> CommandResult:
        """How it ended; without what it wrote.

        Raises:
            AffiantError: the session has ended, or the command could not be run.
        """
        event = await _next(self._channel, "exited")
        return CommandResult(exit_code=_number(event, "code"), timed_out=event.get("timed_out") is True)


class DetachedSession:
    """A session that a host holds; made by :meth:`connect` only."""

    def __init__(self, home: Home, session: str) -> None:
        self._path: Path = home.session(session) / HOST_SOCKET
        self.id = session

    @classmethod
    def connect(cls, name: str, *, home: Path | None = None) -> DetachedSession:
        """The session that runs under exactly this name, or has this id.

        Args:
            home: the state folder; None: ``$AFFIANT_HOME``, else the XDG state folder.

        Raises:
            ``session.not_open``: there is none.
        """
        place = open_home(home or Path(os.environ.get("AFFIANT_HOME") or default_home()))
        return cls(place, running_session(place, name))

    async def info(self) -> Mapping[str, object]:
        """The session, its time to live, and its commands: those that run, and the last that have ended."""
        status = dict(await self._ask({"op": "status"}, "status"))
        del status["event"]
        return status

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        capture_limit: int = _CAPTURE_LIMIT,
    ) -> CommandResult:
        """Run a command and wait for its end, with nothing at its standard input.

        Args:
            env, cwd, timeout_s, capture_limit: as :meth:`~.session.Session.run`.

        Raises:
            AffiantError: the session has ended, or the command could not be run.
        """
        with ExitStack() as stack:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, stdin)
            out, err = (stack.enter_context(Capture(capture_limit)) for _ in range(2))
            streams = (stdin, out.writing, err.writing)
            async with self.started(argv, env=env, cwd=cwd, timeout_s=timeout_s, streams=streams) as command:
                for capture in (out, err):
                    capture.close_writing()
                ended = await command.exited()
            return CommandResult(
                exit_code=ended.exit_code,
                stdout_bytes=await out.result(),
                stderr_bytes=await err.result(),
                truncated=out.truncated or err.truncated,
                timed_out=ended.timed_out,
            )

    @asynccontextmanager
    async def started(
        self,
        argv: Sequence[str],
        *,
        streams: tuple[int, int, int],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[RunningCommand]:
        """A command that runs with these ``streams``, which stay the caller's; ended with the block.

        Raises:
            AffiantError: the session has ended, or takes no more commands.
        """
        named: dict[str, int] = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
        async with connected(self._path) as channel:
            await channel.send(_command("exec", argv, env, cwd, timeout_s), named)
            yield RunningCommand(channel, _number(await _next(channel, "started"), "number"))

    async def detach(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Start a command that outlives this process; its number. What it writes is kept, see :meth:`kept`."""
        return _number(await self._ask(_command("detach", argv, env, cwd, timeout_s), "started"), "number")

    async def kept(self, number: int, at: tuple[int, int] = (0, 0), *, wait: bool = False) -> KeptPiece:
        """The kept output of command ``number`` from position ``at`` on.

        Args:
            wait: for a while, where there is none yet and the command runs.

        Raises:
            ``session.no_output``, ``session.command_unknown``: none is kept.
        """
        asked = {"op": "logs", "number": number, "stdout": at[0], "stderr": at[1], "wait": wait}
        event = await self._ask(asked, "logs")
        code = event.get("code")
        (stdout, out_at), (stderr, err_at) = (_piece(event.get(name)) for name in ("stdout", "stderr"))
        return KeptPiece(
            stdout=stdout,
            stderr=stderr,
            at=(out_at, err_at),
            ended=event.get("ended") is True,
            exit_code=code if isinstance(code, int) else None,
        )

    async def kill(self, number: int, sent: int) -> None:
        """Send the signal ``sent`` to command ``number``."""
        await self._ask({"op": "kill", "number": number, "signal": int(sent)}, "sent")

    async def upload(self, local: Path | str, path: str) -> Mapping[str, object]:
        """Copy a local file or folder to ``path`` (:meth:`~.sandbox_files.SandboxFiles.upload`).

        Returns:
            ``digest`` of the tree, ``files``, ``length`` in bytes, and ``left_out``: how many entries cannot be copied.
        """
        return await self._move({"op": "upload", "local": _absolute(local), "path": path})

    async def download(self, path: str, local: Path | str) -> Mapping[str, object]:
        """Copy a file or folder of the session to ``local``; what it returns is as of :meth:`upload`."""
        return await self._move({"op": "download", "local": _absolute(local), "path": path})

    async def _move(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        moved = dict(await self._ask(asked, "moved"))
        del moved["event"]
        return moved

    async def metrics(self) -> Metrics:
        """What the session uses now."""
        return Metrics.of(await self._ask({"op": "metrics"}, "metrics"))

    async def close(self) -> Path:
        """Close the session, which ends its commands; where its bundle is.

        Raises:
            AffiantError: it could not be closed in order.
        """
        return Path(str((await self._ask({"op": "stop"}, "stopped")).get("bundle")))

    async def _ask(self, members: Mapping[str, object], event: str) -> Mapping[str, object]:
        async with connected(self._path) as channel:
            await channel.send(members)
            return await _next(channel, event)


def _absolute(local: Path | str) -> str:
    """The host has a working directory of its own."""
    return str(Path(local).absolute())


def _command(
    op: str, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, timeout_s: float | None
) -> Mapping[str, object]:
    timeout = None if timeout_s is None else max(int(timeout_s * 1000), 1)
    return {"op": op, "argv": list(argv), "env": dict(env or {}), "cwd": cwd, "timeout_ms": timeout}


async def _next(channel: ControlChannel, event: str) -> Mapping[str, object]:
    message = await channel.receive()
    if message is None:
        raise StateError(
            "the session ended meanwhile", hint="See: affiant session ls", code="session.not_open"
        )
    message.close()
    if message.members.get("event") == "refused":
        raise sent_error(message.members)
    if message.members.get("event") != event:
        raise StateError("not an answer of a session host", expected=event, code="session.not_open")
    return message.members


def _number(members: Mapping[str, object], name: str) -> int:
    value = members.get(name)
    if not isinstance(value, int):
        raise StateError("not an answer of a session host", expected=name, code="session.not_open")
    return value


def _piece(value: object) -> tuple[bytes, int]:
    match value:
        case {"data": str(data), "at": int(at)}:
            return from_b64u(data), at
    raise StateError("not an answer of a session host", expected="a piece of output", code="session.not_open")
