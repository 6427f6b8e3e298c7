"""A descriptor that a thread makes has an owner, or is closed."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from affiant.sandbox.base.descriptors import descriptor_from_thread


def test_the_caller_gets_the_descriptor():
    async def run() -> None:
        descriptor = await descriptor_from_thread(lambda: os.open(os.devnull, os.O_RDONLY))
        os.close(descriptor)

    asyncio.run(run())


def test_a_cancelled_wait_leaves_no_descriptor_open():
    made: list[int] = []
    go_on = threading.Event()

    def make() -> int:
        go_on.wait(5)
        made.append(os.open(os.devnull, os.O_RDONLY))
        return made[0]

    async def run() -> None:
        waiting = asyncio.ensure_future(descriptor_from_thread(make))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        while not made:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)

    asyncio.run(run())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(made[0])


def test_a_refusal_in_the_thread_reaches_the_caller():
    def refuse() -> int:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        asyncio.run(descriptor_from_thread(refuse))
