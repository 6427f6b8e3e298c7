"""Running the agent's command: intent, start, live output through the redactor, outcome.

The sandbox never holds a descriptor of the user's: not even a terminal's, into which it could type. It gets pipes;
what it writes goes through the broker's redactor to the user's own descriptors as it comes, what the user types
goes in (``user_streams``).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan.errors import CommandNotRun, LimitExceeded, SandboxFailed, StepError
from affiant.sandbox.isolation.plan.plan import Command
from affiant.sandbox.isolation.runner.client import RunnerClient
from affiant.sandbox.supervisor.launch.user_streams import UserOutput, UserStreams, feed_input
from affiant.sandbox.supervisor.records.records import SessionRecords
from affiant.secrets.broker.client.client import BrokerClient

__all__ = ["AgentRun", "RunServices"]

_PIECE: Final = 64 * 1024
_QUIET_S: Final = 0.2
"""Without output, after which a short line is given out that redaction held back."""
_LIMIT_EXIT: Final = 137
_HARMLESS: Final = frozenset({signal.SIGSTOP, signal.SIGCONT})
"""Signals that never end a command."""
_DELIVERY_TRIES: Final = 60
_DELIVERY_STEP_S: Final = 0.05


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
    tell_started: Callable[[], Awaitable[None]]
    """Called once the command runs."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _delivered: int | None = None
    _deliveries: set[asyncio.Task[None]] = field(default_factory=set)

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
            await self._say(str(refused))
        except LimitExceeded as ended:
            await self._say(str(ended))
        except SandboxFailed:
            if self._delivered is None:
                raise
            end, code = "complete", 128 + self._delivered  # a signal ended it before the command had begun
        except asyncio.CancelledError:
            end = "aborted"
            raise
        finally:
            self._over.set()
            for delivery in self._deliveries:
                delivery.cancel()
            await asyncio.to_thread(self.user.close)
            out = sha256_name(canonical({"exit": code, **digests}))
            await self._record("outcome", {"out": out, "tgt": f"exit {code}"}, par=intent, end=end)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the command; one that comes before its first process is there is sent then."""
        delivery = asyncio.create_task(self._deliver(number))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)

    async def _deliver(self, number: int) -> None:
        await self.started.wait()
        for _ in range(_DELIVERY_TRIES):
            try:
                await self.services.runner.signal(number)
                if number not in _HARMLESS:
                    self._delivered = number
            except StepError:  # no process yet, or none any more
                await asyncio.sleep(_DELIVERY_STEP_S)
            except AffiantError:
                return
            else:
                return

    async def _say(self, text: str) -> None:
        """A line of ours among the command's errors."""
        await asyncio.to_thread(self.user.stderr.write, f"affiant: {text}\n".encode(), self._over)

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
            await self.tell_started()
            copies = [asyncio.create_task(output.copy()) for output in outputs]
            stack.push_async_callback(_end_all, copies)
            code = await self.services.runner.wait()
            await asyncio.gather(*copies)  # all writers are dead, so this takes as long as the user does
            names = ("stdout", "stderr")
            return code, {name: output.digest for name, output in zip(names, outputs, strict=True)}

    def _stdin(self) -> int:
        """The command's end of its standard input, fed from the user's by a thread."""
        source = self.user.take_stdin()
        if source is None:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        feeding = (source, write_end, self._over)
        threading.Thread(target=feed_input, args=feeding, name="stdin", daemon=True).start()
        return read_end

    async def _output(self, stack: AsyncExitStack, user: UserOutput) -> _Output:
        output = _Output(self.services.broker, user, self._over)
        stack.push_async_callback(output.close)
        await output.open()
        return output


def _nothing() -> Mapping[str, str]:
    return dict.fromkeys(("stdout", "stderr"), sha256_name(b""))


class _Output:
    """One of the command's outputs on its way to the user."""

    def __init__(self, broker: BrokerClient, user: UserOutput, over: threading.Event) -> None:
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
        """Pass on until the command's end is closed everywhere, or the user reads no more.

        A user who has closed the output (``| head -1``) closes it for the command as well, which then gets the
        broken pipe that it would have had without us.
        """
        async with self._broker.redactor(live=True) as redactor:
            async for data in self._pieces():
                await self._pass_on(await (redactor.feed(data) if data else redactor.settle()))
                if self._user.gone:
                    self._stop_reading()
                    return
            rest, _ = await redactor.flush()
            await self._pass_on(rest)

    def _stop_reading(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        """What comes; empty, once, where nothing has come for a while after it."""
        quiet = False
        while True:
            try:
                async with asyncio.timeout(None if quiet else _QUIET_S):
                    data = await self._reader.read(_PIECE)
            except TimeoutError:
                quiet = True
                yield b""
                continue
            if not data:
                return
            quiet = False
            yield data

    async def _pass_on(self, data: bytes) -> None:
        self._hash.update(data)
        await asyncio.to_thread(self._user.write, data, self._over)

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


def _printable(text: str) -> str:
    return "".join(char if 0x20 <= ord(char) < 0x7F else "?" for char in text)[:256]
