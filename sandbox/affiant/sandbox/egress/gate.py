"""The gate before everything that a profile decides: open, or held while the session's profile is being restricted.

A task that is about to judge a request passes first, and is *passing* until the request has its record. While the
gate is held, new ones wait before it and nothing is judged; those that are passing end, or are cut. So what is judged
under a profile is recorded under it, and what waited is judged under the next. One event loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Gate"]


class Gate:
    """One session's gate; open at first."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._passing: set[asyncio.Task[object]] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Wait until the gate is open, and pass for the length of the block; again inside of it is the same."""
        task = asyncio.current_task()
        assert task is not None
        if task in self._passing:
            yield
            return
        while not self._open.is_set():  # it may have been held again before this task came to run
            await self._open.wait()
        self._passing.add(task)
        self._empty.clear()
        try:
            yield
        finally:
            self._passing.discard(task)
            if not self._passing:
                self._empty.set()

    def hold(self) -> None:
        """Let nothing pass from now on."""
        self._open.clear()

    def release(self) -> None:
        """Let all pass again."""
        self._open.set()

    async def empty(self, *, within_s: float) -> bool:
        """Wait until nothing is passing any more; whether that came to be in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def cut(self) -> None:
        """Cancel what is passing: each request still has its record."""
        for task in tuple(self._passing):
            task.cancel()
