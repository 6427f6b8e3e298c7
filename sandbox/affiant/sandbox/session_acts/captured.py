"""A command's pipes on this side: what it writes, kept up to a bound, and what is typed to it, within a time."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final, Self

from affiant.errors import StateError

__all__ = ["CAPTURE_LIMIT", "Capture", "Typing"]

CAPTURE_LIMIT: Final = 1 << 20
"""Bytes of each stream of a command that are kept, where its caller does not say another number."""
_CHUNK = 1 << 16


class Capture:
    """A pipe whose writing end is for the command. Read until every copy of that end is closed.

    Args:
        limit: bytes kept. Reading goes on beyond, so that a command never blocks on it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated = False
        """Whether there was more than the limit."""
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._read())
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._task is not None:
            self._task.cancel()
        self.close_writing()
        os.close(self._reading)

    def close_writing(self) -> None:
        """Close our copy of the writing end, once the command has its own. Idempotent."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    async def result(self) -> bytes:
        """What was written, up to the limit, once no process can write any more."""
        self.close_writing()
        if self._task is not None:
            await self._task
        return bytes(self._data)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._reading, ready.set)
        try:
            while True:
                await ready.wait()
                ready.clear()
                try:
                    part = os.read(self._reading, _CHUNK)
                except BlockingIOError:
                    continue
                if not part:
                    return
                room = self._limit - len(self._data)
                self._data += part[:room]
                self.truncated = self.truncated or len(part) > room
        finally:
            loop.remove_reader(self._reading)


class Typing:
    """What is typed to a command: the writing end of a pipe, owned here.

    Args:
        descriptor: becomes non-blocking.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._changed = asyncio.Event()
        self._in_turn = asyncio.Lock()

    async def write(self, data: bytes, timeout: float | None) -> None:
        """Write ``data`` as the command reads it; one call at a time.

        Raises:
            ``session.terminal_ended``: nothing reads any more. ``session.terminal_full``: not all was read in time.
        """
        view = memoryview(data)
        try:
            async with asyncio.timeout(timeout), self._in_turn:
                while view:
                    view = view[await self._taken(view) :]
        except TimeoutError as error:
            raise StateError(
                "the command did not read all that was typed",
                expected=f"{len(data)} bytes read within {timeout} seconds",
                found=f"{len(data) - len(view)} bytes",
                code="session.terminal_full",
            ) from error

    async def _taken(self, view: memoryview) -> int:
        """How much the pipe takes, once it takes something."""
        while self._descriptor >= 0:
            try:
                return os.write(self._descriptor, view)
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                raise _ended() from error
        raise _ended()

    async def _writable(self) -> None:
        """Wait until the pipe may take something, or is closed."""
        loop = asyncio.get_running_loop()
        self._changed.clear()
        loop.add_writer(self._descriptor, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if self._descriptor >= 0:
                loop.remove_writer(self._descriptor)

    def close(self) -> None:
        """Close it; a call under way ends. Idempotent."""
        if self._descriptor >= 0:
            with suppress(RuntimeError):  # no loop runs: nothing waits
                asyncio.get_running_loop().remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._changed.set()


def _ended() -> StateError:
    return StateError(
        "the command has ended, so nothing can be typed",
        hint="Read the rest of its output, and wait for its end",
        code="session.terminal_ended",
    )
