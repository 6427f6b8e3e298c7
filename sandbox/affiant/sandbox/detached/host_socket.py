"""The socket of a session host: what clients on this machine ask of a session that is held for them.

A connection carries messages of the supervisor's control socket (``control``). Its first message is a request:

- ``run``, ``files``, ``port``, ``metrics``: an act of the supervisor's, as a launcher asks for it, with the same
  descriptors (``supervisor_link``). The host passes it on, and the supervisor's events back. A client tells about its
  own act alone: ``signal`` and ``resize`` of its command, ``port-close`` of its port. When it leaves, its command is
  ended (SIGHUP, and five seconds later SIGKILL) and its port is closed.
- ``detach``: run a command whose output is kept; only ``started`` follows, and the client may leave. ``kill`` sends
  it a signal.
- ``logs``: kept output from a position on; held for a while where there is none yet.
- ``open``: what does not change of the session. ``status``: its commands, too. ``stop``: close it, as ``done`` or
  ``killed``; answered when that is done.

An error is answered with ``refused``. Only processes of one user talk to each other here (``user_socket``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from affiant.attestation.encoding.binary_text import b64u
from affiant.errors import AffiantError, MalformedError, StateError
from affiant.sandbox.base.errors import SessionBusy
from affiant.sandbox.base.user_socket import Connections, listening_user_socket
from affiant.sandbox.detached.kept_output import MOST_KEPT, CommandOutput, no_output
from affiant.sandbox.session.session import Running, Session, Why
from affiant.sandbox.supervisor.acts import MOST_ACTS
from affiant.sandbox.supervisor.launch.control import ControlChannel, Message, refusal_members

__all__ = ["HostServer", "HostedCommand", "host_failed"]

_T = TypeVar("_T")

_CONNECTIONS: Final = 2 * MOST_ACTS
"""As many acts as a session takes, and questions beside them."""
_FIRST_S: Final = 20.0
_BUSY_S: Final = 2.0
_ALWAYS: Final = frozenset({"open", "status", "stop"})
"""Requests that are answered for a client that is one too many, too: the session can always be closed."""
_HELD_S: Final = 20.0
_LAST_S: Final = 2.0
_PIECE: Final = 128 * 1024
_KILLED_AFTER_S: Final = 5.0
_LISTED: Final = 256
"""Commands that ``status`` lists: those that run, and the last that have ended."""
_LISTED_CHARACTERS: Final = 400
"""Of a command that ``status`` lists."""


@dataclass(slots=True)
class HostedCommand:
    """One command of the session."""

    number: int
    argv: tuple[str, ...]
    started: int
    """Unix seconds."""
    detached: bool
    ended: int | None = None
    exit_code: int | None = None
    output: CommandOutput | None = None
    _running: Running | None = field(default=None, repr=False)
    _begun: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def to_json(self) -> Mapping[str, object]:
        """As ``status`` lists it."""
        return {
            "command": _listed(self.argv),
            "detached": self.detached,
            "ended": self.ended,
            "exit_code": self.exit_code,
            "number": self.number,
            "started": self.started,
        }

    def begun(self, running: Running) -> None:
        """The supervisor has been asked to run it."""
        self._running = running
        self._begun.set()

    def over(self, now: int) -> None:
        """It has ended."""
        self._running, self.ended = None, now
        self._begun.set()

    async def signal(self, number: int) -> None:
        """Send a signal to it; one that comes before it was begun waits for that."""
        await self._begun.wait()
        if self._running is not None:
            await self._running.signal(number)

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal; waits as :meth:`signal` does."""
        await self._begun.wait()
        if self._running is not None:
            await self._running.resize(rows, columns)


@dataclass(frozen=True, slots=True)
class _Exec:
    """A request to run a command, read strictly.

    Args:
        terminal: rows and columns. timeout_s: of a detached command; the client of another one keeps the time itself.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    terminal: tuple[int, int] | None = None
    timeout_s: float | None = None

    @classmethod
    def of(cls, members: Mapping[str, object]) -> _Exec:
        match members:
            case {"op": op, "argv": list(argv), "env": dict(env), "cwd": cwd, **rest}:
                words = tuple(word for word in argv if isinstance(word, str))
                named = {name: value for name, value in env.items() if isinstance(value, str)}
                whole = 0 < len(words) == len(argv) and len(named) == len(env)
                if whole and (cwd is None or isinstance(cwd, str)):
                    match op, rest:
                        case ("run", {"terminal": None}) | ("detach", {"timeout_ms": None}) if len(rest) == 1:
                            return cls(words, named, cwd)
                        case "run", {"terminal": [int(rows), int(columns)]} if len(rest) == 1:
                            return cls(words, named, cwd, (rows, columns))
                        case "detach", {"timeout_ms": int(timeout)} if len(rest) == 1 and timeout > 0:
                            return cls(words, named, cwd, timeout_s=timeout / 1000)
        raise MalformedError("not a request to run a command", where="run", code="session.control")


class HostServer:
    """Serves the clients of one session.

    Args:
        output: the folder for the output of detached commands. clock: Unix seconds.
        facts: what ``status`` says of the session itself.
    """

    def __init__(
        self, session: Session, output: Path, clock: Callable[[], int], facts: Mapping[str, object]
    ) -> None:
        self._session = session
        self._output = output
        self._clock = clock
        self._facts = facts
        self._commands: dict[int, HostedCommand] = {}
        self._kept: deque[HostedCommand] = deque()
        """Detached commands in the order in which they ended, as far as their output is kept."""
        self._number = 0
        self._connections = Connections(self._serve, most=_CONNECTIONS)
        self._detached: set[asyncio.Task[None]] = set()
        self._outcome: asyncio.Future[Mapping[str, object]] = asyncio.get_running_loop().create_future()
        self.stop_asked = asyncio.Event()
        """Set when a client asks for the session to be closed."""
        self.stop_why: Why = "done"
        """How; ``killed``, if one of them says so."""

    @property
    def running(self) -> Sequence[HostedCommand]:
        """The commands that run."""
        return [command for command in self._commands.values() if command.ended is None]

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Take connections at ``path`` for the length of the block; those that are open then stay until
        :meth:`finish`.

        Raises:
            ``session.no_socket``: no socket can be made there.
        """
        with listening_user_socket(path) as listener:
            if listener is None:
                raise StateError(
                    "the session's socket cannot be made", where=str(path), code="session.no_socket"
                )
            accepting = asyncio.create_task(self._connections.accept(listener))
            try:
                yield
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)

    async def finish(self, outcome: Mapping[str, object]) -> None:
        """The session has ended: answer who waits for that, and close every connection."""
        self._outcome.set_result(outcome)
        detached = tuple(self._detached)
        if detached:
            await asyncio.wait(detached, timeout=_LAST_S)
        for task in detached:
            task.cancel()
        await asyncio.gather(*detached, return_exceptions=True)
        await self._connections.close(within_s=_LAST_S)
        for command in self._commands.values():
            if command.output is not None:
                command.output.close()

    async def _serve(self, connection: socket.socket, busy: bool) -> None:  # noqa: FBT001
        channel = ControlChannel(connection)
        try:
            while True:
                async with asyncio.timeout(_BUSY_S if busy else _FIRST_S):
                    message = await channel.receive()
                if message is None:
                    return
                streams = contextlib.ExitStack()
                streams.callback(message.close)
                with streams:
                    try:
                        if busy and message.members.get("op") not in _ALWAYS:
                            raise SessionBusy(
                                "the session has too many clients",
                                expected=f"at most {_CONNECTIONS}",
                                hint="Wait until one has left",
                            )
                        await self._answer(channel, message, streams)
                    except Exception as error:  # noqa: BLE001 - answered: a host says nothing anywhere else
                        await channel.send({"event": "refused", **refusal_members(host_failed(error))})
                if busy:
                    return
        except (AffiantError, OSError, TimeoutError):
            return  # it speaks another protocol, or is gone: no answer would be read
        finally:
            channel.close()

    async def _answer(self, channel: ControlChannel, message: Message, streams: contextlib.ExitStack) -> None:
        """Answer one request; ``streams`` closes its descriptors, as soon as the supervisor has them."""
        members = message.members
        match members:
            case {"op": "run"}:
                await self._exec(channel, message, _Exec.of(members), streams)
            case {"op": "files" | "metrics"}:
                await channel.send(_event(await self._session.ask(members, message.descriptors)))
            case {"op": "port"}:
                await self._port(channel, message, streams)
            case {"op": "detach"}:
                await channel.send({"event": "started", "number": await self._detach(_Exec.of(members))})
            case {"op": "logs", "number": int(number), "stdout": int(out), "stderr": int(err), "wait": wait}:
                at = {"stdout": out, "stderr": err}
                await channel.send(await self._logs(number, at, wait=wait is True))
            case {"op": "kill", "number": int(number), "signal": int(sent), **rest} if not rest:
                await self._known(number).signal(sent)
                await channel.send({"event": "sent"})
            case {"op": "open", **rest} if not rest:
                private = await self._session.private()
                await channel.send({"event": "open", **self._facts, "private": private.to_json()})
            case {"op": "status", **rest} if not rest:
                await channel.send(self._status())
            case {"op": "stop", "why": "done" | "killed" as why, **rest} if not rest:
                if why == "killed":
                    self.stop_why = "killed"
                self.stop_asked.set()
                await channel.send(await asyncio.shield(self._outcome))
            case _:
                raise MalformedError("not a request of this socket", code="session.control")

    def _status(self) -> Mapping[str, object]:
        ended = [command for command in self._commands.values() if command.ended is not None]
        listed = sorted([*self.running, *ended[-_LISTED:]], key=lambda command: command.number)
        return {"event": "status", **self._facts, "commands": [command.to_json() for command in listed]}

    def _known(self, number: int) -> HostedCommand:
        command = self._commands.get(number)
        if command is None:
            raise StateError(
                "the session has no command with this number", found=number, code="session.command_unknown"
            )
        return command

    # -- commands ------------------------------------------------------------------------------------------

    async def _exec(
        self, channel: ControlChannel, message: Message, asked: _Exec, streams: contextlib.ExitStack
    ) -> None:
        if set(message.descriptors) != {"stdin", "stdout", "stderr"}:
            raise MalformedError("a command without its streams", where="run", code="session.control")
        command = self._command(asked, detached=False)
        run = self._run(command, asked, message.descriptors, Running.exited, streams.close)
        running = asyncio.create_task(run)
        listening = asyncio.create_task(self._notices(channel, command))
        try:
            await channel.send({"event": "started", "number": command.number})
            await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():  # the client has left
                await self._end(command, running)
                return
            await channel.send(_event(running.result()))
        finally:
            for task in (running, listening):
                task.cancel()
            await asyncio.gather(running, listening, return_exceptions=True)

    async def _notices(self, channel: ControlChannel, command: HostedCommand) -> None:
        """Pass on what the client tells about its command, until it is gone or says something else."""
        with suppress(AffiantError):
            while (message := await channel.receive()) is not None:
                message.close()
                match message.members:
                    case {"op": "signal", "number": int(number), **rest} if not rest:
                        await command.signal(number)
                    case {"op": "resize", "terminal": [int(rows), int(columns)], **rest} if not rest:
                        await command.resize(rows, columns)
                    case _:
                        return

    async def _port(self, channel: ControlChannel, message: Message, streams: contextlib.ExitStack) -> None:
        """Pass a port on until the supervisor closes it, or the client says anything or leaves."""
        with self._session.act() as act:
            await act.tell(message.members, message.descriptors)
            streams.close()
            await channel.send(_event(await act.next()))
            closed, asked = asyncio.ensure_future(act.next()), asyncio.ensure_future(_anything(channel))
            try:
                await asyncio.wait({closed, asked}, return_when=asyncio.FIRST_COMPLETED)
                await act.tell({"op": "port-close"})
                await channel.send(_event(await closed))
            finally:
                for task in (closed, asked):
                    task.cancel()
                await asyncio.gather(closed, asked, return_exceptions=True)

    async def _end(self, command: HostedCommand, running: asyncio.Task[Mapping[str, object]]) -> None:
        for number in (signal.SIGHUP, signal.SIGKILL):
            await command.signal(number)
            await asyncio.wait({running}, timeout=_KILLED_AFTER_S)

    async def _detach(self, asked: _Exec) -> int:
        """Start a command that outlives its client; its number.

        Raises:
            ``session.no_output``: what it writes cannot be kept.
        """
        command, ours = self._command(asked, detached=True), contextlib.ExitStack()
        try:
            while len(self._kept) >= MOST_KEPT:
                self._forget(self._kept.popleft())
            output = command.output = CommandOutput(self._output, command.number)
            streams = {"stdin": os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)}
            ours.callback(os.close, streams["stdin"])
            for name in ("stdout", "stderr"):
                streams[name] = output.pipe(name)
                ours.callback(os.close, streams[name])
        except OSError as error:
            ours.close()
            self._forget(command)
            command.over(self._clock())
            raise StateError(
                "what the command writes cannot be kept", found=error.strerror, code="session.no_output"
            ) from error
        task = asyncio.create_task(self._run_detached(command, asked, output, streams, ours))
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        return command.number

    async def _run_detached(
        self,
        command: HostedCommand,
        asked: _Exec,
        output: CommandOutput,
        streams: Mapping[str, int],
        ours: contextlib.ExitStack,
    ) -> None:
        try:
            await self._run(
                command, asked, streams, lambda running: running.wait(asked.timeout_s), ours.close
            )
        except Exception as error:  # noqa: BLE001 - no client waits for it, so its kept output says why
            failed = host_failed(error)
            output.say(f"{failed} [{failed.code}]")
        finally:
            ours.close()
            self._kept.append(command)
            await output.end({"code": command.exit_code, "command": list(command.argv)})

    def _forget(self, command: HostedCommand) -> None:
        """Keep the output of a command no longer."""
        output, command.output = command.output, None
        if output is not None:
            output.remove()

    def _command(self, asked: _Exec, *, detached: bool) -> HostedCommand:
        self._number += 1
        command = HostedCommand(self._number, asked.argv, self._clock(), detached)
        self._commands[command.number] = command
        ended = [each for each in self._commands.values() if each.ended is not None and each.output is None]
        for each in ended[:-_LISTED]:
            del self._commands[each.number]
        return command

    async def _run(
        self,
        command: HostedCommand,
        asked: _Exec,
        streams: Mapping[str, int],
        ended: Callable[[Running], Awaitable[_T]],
        passed: Callable[[], None] = lambda: None,
    ) -> _T:
        """Run it, and return what ``ended`` waits for. ``passed`` is called once the supervisor has the streams."""
        begun = self._session.begin(
            asked.argv, streams, env=asked.env, cwd=asked.cwd, terminal=asked.terminal
        )
        try:
            async with begun as running:
                command.begun(running)
                passed()
                try:
                    return await ended(running)
                finally:
                    command.exit_code = running.exit_code
        finally:
            command.over(self._clock())

    async def _logs(self, number: int, at: Mapping[str, int], *, wait: bool) -> Mapping[str, object]:
        output = self._known(number).output
        if output is None:
            raise no_output(number)
        if wait:
            await output.more(at, within_s=_HELD_S)
        ended = output.ended
        ends, read = output.ends(), output.read(at, _PIECE)
        return {
            "event": "logs",
            "ended": ended,
            "code": self._known(number).exit_code,
            "failed": output.failed,
            "missing": output.missing(at),
            **{
                name: {"at": position, "data": b64u(data), "end": ends[name]}
                for name, (position, data) in read.items()
            },
        }


def host_failed(error: Exception) -> AffiantError:
    """``error``; one that is none of ours as a failure of the session host, by its type alone."""
    if isinstance(error, AffiantError):
        return error
    found = type(error).__name__
    if isinstance(error, OSError) and error.strerror is not None:
        found = f"{found}: {error.strerror}"
    return StateError("the session host failed", found=found, code="session.host_failed")


def _listed(argv: Sequence[str]) -> list[str]:
    """The words of a command as ``status`` has them: all commands fit into one message."""
    words: list[str] = []
    left = _LISTED_CHARACTERS
    for word in argv:
        if len(word) >= left:
            return [*words, word[:left] + "…"]
        words.append(word)
        left = max(left - len(word) - 1, 0)
    return words


def _event(event: Mapping[str, object]) -> Mapping[str, object]:
    """An event of the supervisor's, without the number of its act, which is the host's."""
    return {name: value for name, value in event.items() if name != "id"}


async def _anything(channel: ControlChannel) -> None:
    """Return when the client has said anything, or is gone."""
    with suppress(AffiantError):
        message = await channel.receive()
        if message is not None:
            message.close()
