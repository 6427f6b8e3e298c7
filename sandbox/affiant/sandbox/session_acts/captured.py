"""What a command writes, kept in memory up to a bound: the rest is read and dropped, and said."""

from __future__ import annotations

import asyncio
import os
from typing import Final, Self

__all__ = ["CAPTURE_LIMIT", "Capture"]

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
