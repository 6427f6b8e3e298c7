"""Clients that do not read what their commands write: they slow their own commands, and nothing else."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.raising import raises_code
from tests.sandbox.api.test_sandbox import in_sandbox

from affiant.sandbox import Sandbox


@pytest.mark.slow
def test_a_command_ends_beside_more_unread_ones_than_a_machine_has_threads(warm: Any) -> None:
    unread = min(32, (os.cpu_count() or 1) + 4) + 2

    async def scenario(sandbox: Sandbox) -> str:
        async with AsyncExitStack() as stack:
            for _ in range(unread):
                reading, writing = os.pipe2(os.O_CLOEXEC)
                stack.callback(os.close, reading)
                stack.callback(os.close, writing)
                streams = {"stdin": reading, "stdout": writing, "stderr": writing}
                await stack.enter_async_context(sandbox.session.begin(["yes"], streams))
            blocked = "n=0; for p in /proc/[0-9]*; do read -r w < $p/comm; [ $w != yes ] || n=$((n + 1)); done; echo $n"
            while int((await sandbox.run(["sh", "-c", blocked], timeout=20)).stdout) < unread:
                await asyncio.sleep(0.1)
            await asyncio.sleep(1)  # each has filled its pipe; what comes now would find no thread
            return (await sandbox.run(["echo", "one more"], timeout=20)).stdout

    assert in_sandbox(warm, scenario)[0] == "one more\n"


@pytest.mark.slow
def test_a_terminal_that_is_left_unread_ends_with_its_block(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> str:
        async with asyncio.timeout(30):
            async with sandbox.pty(["yes"]) as terminal:
                assert await terminal.read()
                await asyncio.sleep(1)  # what nobody reads has filled every buffer on its way
            with raises_code("session.terminal_size"):
                await terminal.resize(0, 0)
            return (await sandbox.run(["echo", "next"])).stdout

    assert in_sandbox(warm, scenario)[0] == "next\n"


def descriptors() -> set[str]:
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{each} {os.readlink(f'/proc/self/fd/{each}')}")
        except OSError:
            continue
    return {each for each in found if "pipe:" in each}


@pytest.mark.slow
def test_a_stream_that_is_rejected_leaves_no_descriptor(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> tuple[set[str], set[str]]:
        await sandbox.run(["true"])
        before = descriptors()
        for _ in range(5):
            with raises_code("session.environment"):
                async for _event in sandbox.stream(["true"], env={"HTTP_PROXY": "http://elsewhere"}):
                    pass
        await sandbox.close()
        for _ in range(5):
            with raises_code("session.not_open"):
                async for _event in sandbox.stream(["true"]):
                    pass
        await asyncio.sleep(0)  # a transport closes its pipe when the loop has turned
        return before, descriptors()

    before, after = in_sandbox(warm, scenario)[0]
    assert after <= before
