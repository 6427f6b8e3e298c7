"""Captured output: bounded, complete, and never in the command's way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from affiant.sandbox.session_acts.captured import Capture


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
