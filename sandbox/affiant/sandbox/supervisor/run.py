"""Running the agent's command: intent, start, live output through the redactor, outcome.

The sandbox never holds a descriptor of the user's: not even a terminal's, into which it could type. It gets pipes;
what it writes goes through the broker's redactor to the user's own descriptors as it comes, what the user types
goes in. The user's descriptors are shared with other programs, so their flags are left alone: threads wait on them
with poll(2), and never write more than a pipe takes without blocking.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import select
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.canonical import canonical
from affiant.attestation.encoding import sha256_name
from affiant.errors import AffiantError
from affiant.sandbox.isolation.client import RunnerClient
from affiant.sandbox.isolation.errors import CommandNotRun, LimitExceeded
from affiant.sandbox.isolation.plan import Command
from affiant.sandbox.supervisor.records import SessionRecords
from affiant.secrets.broker.client import BrokerClient

__all__ = ["AgentRun", "RunServices", "UserStreams"]

_PIECE: Final = 64 * 1024
_ATOMIC: Final = 4096
"""What poll(2) promises that a pipe takes at once (PIPE_BUF)."""

_POLL_MS: Final = 200
_LIMIT_EXIT: Final = 137


@dataclass(frozen=True, slots=True)
class UserStreams:
    """The user's own descriptors; owned here. ``stdin`` None: the command reads nothing."""

    stdin: int | None
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close them."""
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor is not None:
                os.close(descriptor)


@dataclass(frozen=True, slots=True)
class RunServices:
    """What a run needs. ``isolation``: the receipt's ``iso``."""

    runner: RunnerClient
    broker: BrokerClient
    records: SessionRecords
    isolation: str


@dataclass(slots=True)
class AgentRun:
    """One command, once."""

    services: RunServices
    command: Command
    user: UserStreams
    started: asyncio.Event = field(default_factory=asyncio.Event)
    _over: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> int:
        """Run it to its end; the exit code (126 or 127 where it could not be executed).

        Raises:
            AffiantError: the sandbox was lost, or the run could not be recorded.
        """
        intent = await self._record("intent", {}, acknowledged=True)
        end, code, digests = "failed", _LIMIT_EXIT, _nothing()
        try:
            code, digests = await self._run()
            end = "complete"
        except CommandNotRun as refused:
            end, code = "refused", refused.exit_code
            await _write_all(self.user.stderr, f"affiant: {refused}\n".encode(), self._over)
        except LimitExceeded as ended:
            await _write_all(self.user.stderr, f"affiant: {ended}\n".encode(), self._over)
        except asyncio.CancelledError:
            end = "aborted"
            raise
        finally:
            self._over.set()
            self.user.close()
            out = sha256_name(canonical({"exit": code, **digests}))
            await self._record("outcome", {"out": out, "tgt": f"exit {code}"}, par=intent, end=end)
        return code

    async def signal(self, number: int) -> None:
        """Send a signal to the command, if it runs."""
        if self.started.is_set():
            with suppress(AffiantError):  # it has just ended
                await self.services.runner.signal(number)

    async def _record(
        self,
        phase: str,
        hidden: Mapping[str, object],
        *,
        acknowledged: bool = False,
        par: str | None = None,
        end: str | None = None,
    ) -> str:
        act = {"typ": "exec"} if end is None else {"typ": "exec", "end": end}
        members: dict[str, object] = {"act": act, "iso": self.services.isolation, "ph": phase}
        if par is not None:
            members["par"] = [par]
        argv = list(self.command.argv)
        named = {"name": _printable(argv[0]), "arg": sha256_name(canonical(argv)), **hidden}
        return await self.services.records.record("exec", members, {"act": named}, acknowledged=acknowledged)

    async def _run(self) -> tuple[int, Mapping[str, str]]:
        async with AsyncExitStack() as stack:
            stdin = self._stdin()
            outputs = [await self._output(stack, user) for user in (self.user.stdout, self.user.stderr)]
            try:
                await self.services.runner.start(
                    self.command, stdin=stdin, stdout=outputs[0].write_end, stderr=outputs[1].write_end
                )
            finally:
                os.close(stdin)
            for output in outputs:
                output.close_write_end()
            self.started.set()
            copies = [asyncio.create_task(output.copy()) for output in outputs]
            stack.push_async_callback(_end_all, copies)
            ended = await self.services.runner.wait()
            await asyncio.gather(*copies)  # all writers are dead, so this takes as long as the user does
            names = ("stdout", "stderr")
            return ended.code, {name: output.digest for name, output in zip(names, outputs, strict=True)}

    def _stdin(self) -> int:
        """The command's end of its standard input, fed from the user's by a thread."""
        if self.user.stdin is None:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        source = os.dup(self.user.stdin)
        thread = threading.Thread(
            target=_feed, args=(source, write_end, self._over), name="stdin", daemon=True
        )
        thread.start()
        return read_end

    async def _output(self, stack: AsyncExitStack, user: int) -> _Output:
        output = _Output(self.services.broker, user, self._over)
        stack.push_async_callback(output.close)
        await output.open()
        return output


def _nothing() -> Mapping[str, str]:
    return dict.fromkeys(("stdout", "stderr"), sha256_name(b""))


class _Output:
    """One of the command's outputs on its way to the user."""

    def __init__(self, broker: BrokerClient, user: int, over: threading.Event) -> None:
        self._broker = broker
        self._user = user
        self._over = over
        self._hash = hashlib.sha256()
        read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        self._file = os.fdopen(read_end, "rb", buffering=0)
        self._transport: asyncio.BaseTransport | None = None
        self._reader = asyncio.StreamReader(limit=_PIECE)

    @property
    def digest(self) -> str:
        """``sha256:`` of what was passed on."""
        return f"sha256:{self._hash.hexdigest()}"

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport, _ = await loop.connect_read_pipe(lambda: protocol, self._file)

    def close_write_end(self) -> None:
        """Ours; the command has its own."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    async def copy(self) -> None:
        """Pass on until the command's end is closed everywhere."""
        async with self._broker.redactor(live=True) as redactor:
            async for data in self._pieces():
                await self._pass_on(await redactor.feed(data))
            rest, _ = await redactor.flush()
            await self._pass_on(rest)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while data := await self._reader.read(_PIECE):
            yield data

    async def _pass_on(self, data: bytes) -> None:
        self._hash.update(data)
        await _write_all(self._user, data, self._over)

    async def close(self) -> None:
        self.close_write_end()
        if self._transport is not None:
            self._transport.close()
        else:
            self._file.close()


async def _end_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _write_all(descriptor: int, data: bytes, over: threading.Event) -> None:
    """Write ``data`` as the user takes it; a user who has gone is not waited for."""
    if data:
        await asyncio.to_thread(_write, descriptor, data, over)


def _write(descriptor: int, data: bytes, over: threading.Event) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    view = memoryview(data)
    with suppress(OSError):  # the user has closed it: the command goes on
        while view:
            if poll.poll(_POLL_MS):
                view = view[os.write(descriptor, view[:_ATOMIC]) :]
            elif over.is_set():
                return


def _feed(source: int, sink: int, over: threading.Event) -> None:
    """Copy the user's input into the command's pipe until either ends. Owns both."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    try:
        with suppress(OSError):  # the command has closed its input
            while not over.is_set():
                if poll.poll(_POLL_MS):
                    data = os.read(source, _ATOMIC)
                    if not data:
                        return
                    _push(sink, data, over)
    finally:
        os.close(source)
        os.close(sink)


def _push(sink: int, data: bytes, over: threading.Event) -> None:
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    while data and not over.is_set():
        if poll.poll(_POLL_MS):
            data = data[os.write(sink, data) :]


def _printable(text: str) -> str:
    return "".join(char if 0x20 <= ord(char) < 0x7F else "?" for char in text)[:256]
