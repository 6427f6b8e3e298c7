"""Running one command of the agent's: intent, start, live output through the redactor, outcome.

The sandbox never holds a descriptor of the user's: not even a terminal's, into which it could type. It gets pipes, or
a terminal of its own; what it writes goes through the broker's redactor to the user's own descriptors as it comes, what
the user types goes in (``user_streams``).

A command has ended when its first process has. What it had written by then is passed on. What it leaves in the
background lives on until the session ends, and its output is discarded.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import signal
import sys
import termios
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan.driver import Ended
from affiant.sandbox.isolation.plan.errors import CommandNotRun, LimitExceeded, SessionBusy, StepError
from affiant.sandbox.isolation.plan.plan import Command
from affiant.sandbox.isolation.runner.client import RunnerClient
from affiant.sandbox.supervisor.launch.user_streams import END_OF_INPUT, UserOutput, UserStreams, feed_input
from affiant.sandbox.supervisor.records.records import SessionRecords
from affiant.secrets.broker.client.client import BrokerClient

__all__ = ["WRITES", "AgentRun", "RunResult", "RunServices"]

_PIECE: Final = 64 * 1024
WRITES: Final = 3
"""At once, of one run: two outputs, and a line of ours."""
_QUIET_S: Final = 0.2
"""Without output, after which a short line is given out that redaction held back."""
LIMIT_EXIT: Final = 137
"""Exit code of a command that a limit of the session ended."""
_DELIVERY_S: Final = 15.0
"""So long a signal is tried, from its first try: a command's first process may not be there yet."""
_DELIVERY_STEP_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class RunServices:
    """What a run needs.

    Args:
        isolation: the receipt's ``iso``.
        writers: threads that write to users, who may not read; :data:`WRITES` for each run at once. No one else uses
            them: a user who does not read holds up neither records nor other commands.
    """

    runner: RunnerClient
    broker: BrokerClient
    records: SessionRecords
    isolation: str
    writers: Executor

    async def write(self, output: UserOutput, data: bytes, over: threading.Event) -> None:
        """Write ``data`` to a user, as :meth:`UserOutput.write`."""
        await asyncio.get_running_loop().run_in_executor(self.writers, output.write, data, over)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a command ended. ``limit``: the limit of the session that ended it, and the sandbox with it."""

    code: int
    ended: Ended | None = None
    limit: LimitExceeded | None = None


@dataclass(slots=True)
class AgentRun:
    """One command, once.

    Args:
        terminal: rows and columns of the terminal that it gets; None: it gets pipes.
        tell_started: called once the command runs.
    """

    services: RunServices
    command: Command
    user: UserStreams
    tell_started: Callable[[], Awaitable[None]]
    terminal: tuple[int, int] | None = None
    _started: asyncio.Event = field(default_factory=asyncio.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _number: int = 0
    _master: int = -1
    _deliveries: set[asyncio.Task[None]] = field(default_factory=set)
    _in_order: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> RunResult:
        """Run it to its end (exit code 126 or 127 where it could not be executed).

        Raises:
            AffiantError: the sandbox was lost, or the run could not be recorded.
        """
        intent = await self._record("intent", {}, acknowledged=True)
        end, result, digests = "failed", RunResult(LIMIT_EXIT), _nothing()
        try:
            ended, digests = await self._run()
            end, result = "complete", RunResult(ended.code, ended)
        except CommandNotRun as refused:
            end, result = "refused", RunResult(refused.exit_code)
            await self._say(str(refused))
        except LimitExceeded as limit:
            result = RunResult(LIMIT_EXIT, limit=limit)
            await self._say(str(limit))
        except asyncio.CancelledError:
            end = "aborted"
            raise
        finally:
            self._over.set()
            self._end_deliveries()
            await asyncio.to_thread(self.user.close)
            out = sha256_name(canonical({"exit": result.code, **digests}))
            await self._record("outcome", {"out": out, "tgt": f"exit {result.code}"}, par=intent, end=end)
        return result

    def signal(self, number: int) -> None:
        """Send a signal to the command; one that comes before its first process is there is sent then."""
        delivery = asyncio.create_task(self._deliver(number))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the command's terminal, if it has one; one that is not made yet is made with this size."""
        if self.terminal is not None:
            self.terminal = (rows, columns)
        if self._master >= 0:
            termios.tcsetwinsize(self._master, (rows, columns))
            self.signal(signal.SIGWINCH)

    async def _deliver(self, number: int) -> None:
        """Have the runner deliver a signal, in the order of the signals; SIGKILL waits for no other."""
        await self._started.wait()
        async with nullcontext() if number == signal.SIGKILL else self._in_order:
            error = await self._try_to_deliver(number)
        if error is not None:
            await self._say(f"signal {number} was not delivered: {error}")

    async def _try_to_deliver(self, number: int) -> AffiantError | None:
        """The reason why the command, which still runs, did not get the signal in time."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _DELIVERY_S
        while True:
            try:
                await self.services.runner.signal(self._number, number)
            except (StepError, SessionBusy) as error:  # no process yet, or the runner could not
                if loop.time() >= due:
                    return error
                await asyncio.sleep(_DELIVERY_STEP_S)
            except AffiantError as error:
                return error
            else:
                return None

    def _end_deliveries(self) -> None:
        for delivery in self._deliveries:
            delivery.cancel()

    async def _say(self, text: str) -> None:
        """A line of ours among the command's errors."""
        await self.services.write(self.user.stderr, f"affiant: {text}\n".encode(), self._over)

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

    async def _run(self) -> tuple[Ended, Mapping[str, str]]:
        async with AsyncExitStack() as stack:
            try:
                stdin, outputs = self._streams(stack)
            except OSError as error:
                raise SessionBusy(
                    "the supervisor cannot make the command's streams",
                    found=error.strerror,
                    hint="Try again when other commands and connections have ended",
                ) from error
            writing = [output.write_end for output in outputs]
            try:
                self._number = await self.services.runner.start(
                    self.command,
                    stdin=stdin,
                    stdout=writing[0],
                    stderr=writing[-1],
                    terminal=self.terminal is not None,
                )
            finally:
                os.close(stdin)
            for output in outputs:
                output.close_write_end()
            self._started.set()
            await self.tell_started()
            copies = [asyncio.create_task(output.copy()) for output in outputs]
            stack.push_async_callback(_end_all, copies)
            try:
                ended = await self.services.runner.wait(self._number)
            finally:
                self._end_deliveries()
                for output in outputs:
                    output.finish()
            await asyncio.gather(
                *copies
            )  # what was written by then is at hand, so this takes as long as the user does
            names = ("stdout", "stderr")
            written = {name: output.digest for name, output in zip(names, outputs, strict=False)}
            return ended, {**_nothing(), **written}

    def _streams(self, stack: AsyncExitStack) -> tuple[int, Sequence[_Output]]:
        """The command's end of its input, and its outputs: two pipes', or one terminal's."""
        if self.terminal is None:
            outputs = []
            for user in (self.user.stdout, self.user.stderr):
                outputs.append(_Output(self.services, user, self._over))
                stack.callback(outputs[-1].close)
            return self._stdin(), outputs
        self._master, slave = os.openpty()
        stack.callback(self._close_terminal)
        try:
            termios.tcsetwinsize(self._master, self.terminal)
            reading = os.dup(self._master)
        except OSError:
            os.close(slave)
            raise
        output = _Output(self.services, self.user.stdout, self._over, ends=(reading, slave))
        stack.callback(output.close)
        stdin = os.dup(slave)
        try:
            if self.user.stdin is not None:
                self._feed(os.dup(self._master), END_OF_INPUT)
        except OSError:
            os.close(stdin)
            raise
        return stdin, [output]

    def _close_terminal(self) -> None:
        os.close(self._master)
        self._master = -1

    def _stdin(self) -> int:
        """The command's end of its standard input, fed from the user's by a thread."""
        if self.user.stdin is None:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        self._feed(write_end)
        return read_end

    def _feed(self, sink: int, last: bytes = b"") -> None:
        """Copy the user's input to ``sink``; both are the thread's from now on."""
        feeding = (self.user.take_stdin(), sink, self._over, last)
        threading.Thread(target=feed_input, args=feeding, name="stdin", daemon=True).start()


def _nothing() -> Mapping[str, str]:
    return dict.fromkeys(("stdout", "stderr"), sha256_name(b""))


class _Output:
    """One of the command's outputs on its way to the user.

    Args:
        ends: descriptors to read from and to write to; both are owned here. None: a pipe's.
    """

    def __init__(
        self,
        services: RunServices,
        user: UserOutput,
        over: threading.Event,
        *,
        ends: tuple[int, int] | None = None,
    ) -> None:
        self._services = services
        self._user = user
        self._over = over
        self._hash = hashlib.sha256()
        self._reading, self.write_end = ends or os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._left: int | None = None
        """Bytes that were at hand when the command ended, and are still to be read."""
        self._ready = asyncio.Event()

    @property
    def digest(self) -> str:
        """``sha256:`` of what was passed on."""
        return f"sha256:{self._hash.hexdigest()}"

    def close_write_end(self) -> None:
        """Ours; the command has its own."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def finish(self) -> None:
        """The command has ended: pass on what it has written, and wait for no more."""
        if self._reading >= 0:
            count = fcntl.ioctl(self._reading, termios.FIONREAD, bytes(4))
            self._left = int.from_bytes(count, sys.byteorder)
            self._ready.set()

    async def copy(self) -> None:
        """Pass on until the command has ended, or its end is closed everywhere, or the user reads no more.

        A user who has closed the output (``| head -1``) closes it for the command as well, which then gets the
        broken pipe that it would have had without us.
        """
        async with self._services.broker.redactor(live=True) as redactor:
            async for data in self._pieces():
                await self._pass_on(await (redactor.feed(data) if data else redactor.settle()))
                if self._user.gone:
                    self.close()
                    return
            rest, _ = await redactor.flush()
            await self._pass_on(rest)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """What comes; empty, once, where nothing has come for a while after it."""
        quiet = False
        while (data := self._read()) != b"":
            if data is None:
                try:
                    async with asyncio.timeout(None if quiet else _QUIET_S):
                        await self._something()
                except TimeoutError:
                    quiet = True
                    yield b""
            else:
                quiet = False
                yield data

    async def _something(self) -> None:
        """Wait until something comes, or the end. Watched only meanwhile: at its end a pipe is ready for ever."""
        loop = asyncio.get_running_loop()
        self._ready.clear()
        loop.add_reader(self._reading, self._ready.set)
        try:
            await self._ready.wait()
        finally:
            loop.remove_reader(self._reading)

    def _read(self) -> bytes | None:
        """What is at hand; None: nothing is yet; empty: nothing comes any more."""
        most = _PIECE if self._left is None else min(_PIECE, self._left)
        try:
            data = os.read(self._reading, most)
        except BlockingIOError:
            return None if self._left is None else b""
        except OSError:  # a terminal that no process has open any more (EIO)
            return b""
        if self._left is not None:
            self._left -= len(data)
        return data

    async def _pass_on(self, data: bytes) -> None:
        self._hash.update(data)
        if data:
            await self._services.write(self._user, data, self._over)

    def close(self) -> None:
        """Give the descriptors back. Idempotent."""
        self.close_write_end()
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1


async def _end_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _printable(text: str) -> str:
    return "".join(char if 0x20 <= ord(char) < 0x7F else "?" for char in text)[:256]
