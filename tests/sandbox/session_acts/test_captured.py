"""A command's pipes: captured output is bounded and complete; what is typed has a bound in time and one owner."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from tests.raising import raises_code

from affiant.errors import StateError
from affiant.sandbox.session_acts.captured import Capture, Typing


def capture(code: str, limit: int) -> tuple[bytes, bool]:
    async def run() -> tuple[bytes, bool]:
        with Capture(limit) as out:
            process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=out.writing)
            data = await out.result()
            process.wait()
            return data, out.truncated

    return asyncio.run(run())


def test_everything_up_to_the_limit_is_kept():
    assert capture("print('x' * 99)", 100) == (b"x" * 99 + b"\n", False)


def test_what_is_beyond_the_limit_is_dropped_and_said():
    data, truncated = capture("import os; [os.write(1, b'y' * 65536) for _ in range(64)]", 1000)
    assert data == b"y" * 1000
    assert truncated


def test_no_descriptor_is_left_open():
    before = len(os.listdir("/proc/self/fd"))
    capture("print(1)", 10)
    assert len(os.listdir("/proc/self/fd")) == before


def test_typing_waits_for_who_reads_and_everything_arrives():
    async def run() -> bytes:
        reading, writing = os.pipe()
        typing = Typing(writing)
        typed = asyncio.create_task(typing.write(b"z" * 300_000, None))
        await asyncio.sleep(0)  # the pipe is full
        found = b""
        while len(found) < 300_000:
            found += await asyncio.to_thread(os.read, reading, 1 << 16)
        await typed
        typing.close()
        os.close(reading)
        return found

    assert asyncio.run(run()) == b"z" * 300_000


def test_typing_to_a_command_that_does_not_read_ends_in_time_and_says_how_much_was_taken():
    async def run() -> StateError:
        reading, writing = os.pipe()
        typing = Typing(writing)
        with raises_code("session.terminal_full") as caught:
            await typing.write(b"z" * 300_000, 0.05)
        typing.close()
        assert len(os.read(reading, 1 << 20)) == 65536
        os.close(reading)
        return caught.value

    assert asyncio.run(run()).found == "65536 bytes"


@pytest.mark.parametrize("data", [b"x", b"x" * 300_000])
def test_typing_to_a_command_that_ends_is_an_error_of_ours(data):
    async def run() -> None:
        reading, writing = os.pipe()
        typing = Typing(writing)
        typed = asyncio.create_task(typing.write(data, None)) if len(data) > 1 else None
        await asyncio.sleep(0)
        os.close(reading)
        with raises_code("session.terminal_ended"):
            await (typed or typing.write(data, None))
        typing.close()

    asyncio.run(run())


def test_what_is_typed_after_the_end_goes_to_no_other_file():
    """The number of a closed descriptor is soon another file's."""

    async def run() -> bytes:
        reading, writing = os.pipe()
        typing = Typing(writing)
        under_way = asyncio.create_task(typing.write(b"x" * 300_000, None))
        await asyncio.sleep(0)
        other, end = os.pipe()
        os.set_blocking(other, False)
        typing.close()
        os.dup2(end, writing)
        typing.close()
        for typed in (under_way, typing.write(b"secret", None)):
            with raises_code("session.terminal_ended"):
                await typed
        for each in (end, writing):
            os.close(each)
        found = os.read(other, 10)
        os.close(other)
        os.close(reading)
        return found

    assert asyncio.run(run()) == b""
