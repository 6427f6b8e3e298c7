"""Commands that write without end: what is kept is bounded and says so, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import Machine, made_machine, stat_of
from tests.sandbox.detached.test_host import create, until

from affiant.sandbox import Exited, IsolationClass, Output, Sandbox
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.detached.kept_output import KEPT_BYTES

MIB = 1 << 20
KEPT = MIB
"""Of each stream, where the caller says no other number."""
PIECE = "0123456789abcdef" * 64
PROFILE = """
agent_configs:
  dev:
    filesystem_access: [read-write:/workspace]
    resources: {memory: 512MiB, pids: 200}
"""


def flood(mebibytes: int) -> list[str]:
    """A command that writes so much to both streams, as fast as it goes, and then ends with 7."""
    script = f"yes {PIECE} | head -c {mebibytes * MIB} >&$1"
    return ["sh", "-c", f"w() {{ {script}; }}; w 2 & w 1; wait; exit 7", "sh"]


def endless() -> list[str]:
    """One that writes to both streams until it is ended."""
    return ["sh", "-c", f"yes {PIECE} >&2 & exec yes {PIECE}"]


def sandbox_of(machine: Machine) -> Any:
    floor = IsolationClass(machine.isolation)
    return Sandbox.create(profile=PROFILE, agent="dev", home=machine.home, min_isolation=floor)


async def goes_on(sandbox: Sandbox, word: str) -> None:
    """Its supervisor answers, and its commands run."""
    done = await sandbox.run(["sh", "-c", f"echo {word}; ls /workspace"])
    assert (done.exit_code, done.stdout.split()[0]) == (0, word)
    assert (await sandbox.metrics()).commands_ended > 0


@pytest.mark.slow
def test_one_flood_and_twenty_at_once_are_truncated_and_a_neighbour_goes_on(warm: Machine) -> None:
    async def scenario() -> None:
        async with sandbox_of(warm) as flooded, sandbox_of(warm) as neighbour:
            await neighbour.files.write("/workspace/kept", b"kept")
            one = await flooded.run(flood(48))
            assert (one.exit_code, one.truncated) == (7, True)
            assert (len(one.stdout_bytes), len(one.stderr_bytes)) == (KEPT, KEPT)
            many = [asyncio.create_task(flooded.run(flood(4))) for _ in range(20)]
            for number in range(5):
                await goes_on(neighbour, f"n{number}")
                await goes_on(flooded, f"f{number}")
            for each in await asyncio.gather(*many):
                assert (each.exit_code, each.truncated) == (7, True)
                assert (len(each.stdout_bytes), len(each.stderr_bytes)) == (KEPT, KEPT)
            await goes_on(flooded, "after")
            assert await neighbour.files.read("/workspace/kept") == b"kept"

    asyncio.run(scenario())


@pytest.mark.slow
def test_streams_that_nobody_reads_hold_up_no_other_command(warm: Machine) -> None:
    async def scenario() -> None:
        async with sandbox_of(warm) as flooded, sandbox_of(warm) as neighbour:
            streams = [flooded.stream(endless()) for _ in range(20)]
            for stream in streams:  # each has begun; from here on nobody reads
                assert isinstance(await anext(stream), Output)
            for number in range(3):
                await goes_on(flooded, f"f{number}")
                await goes_on(neighbour, f"n{number}")
            for stream in streams:
                await stream.aclose()
            assert (await flooded.metrics()).commands_running == 0
            seen, last = 0, None
            async for event in flooded.stream(flood(16)):
                seen, last = seen + len(getattr(event, "data", b"")), event
            assert seen == 32 * MIB, "a stream that is read has every byte"
            assert isinstance(last, Exited) and last.result.exit_code == 7
            await goes_on(flooded, "after")

    asyncio.run(scenario())


@pytest.fixture
def place(isolation: str, release: None) -> Iterator[Machine]:
    with made_machine(isolation) as made:
        made.keep_services()
        yield made


def kept_bytes(home: Path, session: str) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (home / "output" / session).iterdir()}


@pytest.mark.slow
def test_detached_floods_are_kept_within_their_bound_and_two_sessions_go_on(place: Machine) -> None:
    for name in ("flooded", "neighbour"):
        assert create(place, "--name", name, "--ttl", "300").returncode == 0
    flooded, neighbour = (DetachedSession.connect(name, home=place.home) for name in ("flooded", "neighbour"))

    async def scenario() -> None:
        host = int(str((await flooded.status())["pid"]))
        numbers = [await flooded.detach(flood(12)) for _ in range(4)]
        endless_ones = [await flooded.detach(endless()) for _ in range(16)]
        for number in range(5):
            for session, word in ((flooded, f"f{number}"), (neighbour, f"n{number}")):
                done = await session.run(["echo", word])
                assert (done.exit_code, done.stdout) == (0, f"{word}\n")
        for number in numbers:
            await ended(flooded, number, code=7)
        for number in endless_ones:
            await flooded.kill(number, 9)
            await ended(flooded, number, code=137)
        sizes = kept_bytes(place.home, flooded.id)
        streams = [size for name, size in sizes.items() if not name.endswith(".json")]
        assert KEPT_BYTES <= max(streams) <= 2 * KEPT_BYTES + 64 * 1024
        assert stat_of(host) is not None
        assert (await flooded.run(["true"])).exit_code == 0
        for session in (flooded, neighbour):
            assert (await session.close()).name == "bundle.affiant.json"

    asyncio.run(scenario())
    assert until(lambda: place.quiet_within(10))


async def ended(session: DetachedSession, number: int, *, code: int) -> None:
    for _ in range(1200):
        commands = (await session.status())["commands"]
        assert isinstance(commands, list)
        (found,) = (each for each in commands if each["number"] == number)
        if found["ended"] is not None:
            assert found["exit_code"] == code, found
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"command {number} does not end")
