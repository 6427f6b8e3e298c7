"""Two clients on one session: both act at once, and one that dies amid its acts takes only those with it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.conftest import Machine, made_machine

from affiant.errors import AffiantError
from affiant.sandbox.detached.client import DetachedSession

PROFILE = """agent_configs:
  writer:
    filesystem_access: "read-write:/workspace"
    ports: [8080]
"""

SERVER = """
import socket
listening = socket.create_server(("0.0.0.0", 8080))
while True:
    connection, _ = listening.accept()
    connection.sendall(b"server")
    connection.close()
"""

LEAVING = """
import asyncio, sys
from pathlib import Path
from affiant.sandbox import Sandbox

async def acts():
    async with Sandbox.connect("shared", home=Path(sys.argv[1])) as sandbox, sandbox.port(8080):
        begun = 0
        async def stream():
            nonlocal begun
            async for _ in sandbox.stream(["sh", "-c", "exec yes leaving"]):
                begun += 1
        async def move():
            nonlocal begun
            while True:
                await sandbox.files.upload(Path(sys.argv[2]), "/workspace/moved")
                begun += 1
        tasks = [asyncio.create_task(each()) for each in (stream, move, move)]
        while begun < 6:
            await asyncio.sleep(0.05)
        print("up", flush=True)
        await asyncio.gather(*tasks)

asyncio.run(acts())
"""
"""Holds a port open, streams without end and uploads without pause, until it is killed."""


@pytest.fixture
def shared(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder in which a session host holds the session ``shared``."""
    with made_machine(isolation) as made:
        (made.folder / "profiles.yaml").write_text(PROFILE)
        created = subprocess.run(
            [
                *(sys.executable, "-m", "affiant", "session", "create", "--home", str(made.home)),
                *("--profile", str(made.folder / "profiles.yaml"), "--agent", "writer", "--ttl", "300"),
                *("--min-isolation", isolation, "--name", "shared"),
            ],
            capture_output=True, timeout=60, check=False, cwd="/",
        )  # fmt: skip
        assert created.returncode == 0, created.stderr
        yield made


async def freed(session: DetachedSession) -> bytes:
    """What the server says through its port, once the other client's is closed."""
    for _ in range(200):
        try:
            async with session.port(8080) as port:
                assert isinstance(port.address, tuple)
                reader, writer = await asyncio.open_connection(*port.address)
                answer = await reader.read()
                writer.close()
                return answer
        except AffiantError as error:
            assert error.code.startswith("ports."), error
            await asyncio.sleep(0.1)
    raise AssertionError("the port of a client that is gone stays open")


@pytest.mark.slow
def test_a_client_that_dies_amid_its_acts_takes_no_other_with_it(shared: Machine, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    for number in range(20):
        (tmp_path / "moved" / str(number)).write_bytes(bytes(100_000))

    async def scenario() -> None:
        stays = await DetachedSession.connect("shared", home=shared.home).opened()
        await stays.detach(["python3", "-c", SERVER])
        await stays.files.write("/workspace/mine", b"mine")
        leaves = subprocess.Popen(
            [sys.executable, "-c", LEAVING, str(shared.home), str(tmp_path / "moved")],
            stdout=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        shared.started.append(leaves)
        assert leaves.stdout is not None
        assert await asyncio.to_thread(leaves.stdout.readline) == b"up\n"
        beside = [asyncio.create_task(stays.run(["sh", "-c", f"sleep 1; echo {n}"])) for n in range(4)]
        leaves.kill()
        assert [(await each).stdout for each in beside] == [f"{n}\n" for n in range(4)]
        assert await freed(stays) == b"server"
        for _ in range(200):
            if (await stays.metrics()).commands_running == 1:  # the server alone
                break
            await asyncio.sleep(0.1)
        assert (await stays.metrics()).commands_running == 1
        assert (await stays.run(["sh", "-c", "ps ax 2>/dev/null | grep -c '[y]es leaving'"])).stdout in {
            "0\n",
            "",
        }
        assert await stays.files.read("/workspace/mine") == b"mine"
        names = {entry.path for entry in (await stays.files.list("/workspace")).entries}
        assert "mine" in names
        assert (await stays.close()).exists()

    asyncio.run(scenario())
    assert shared.quiet_within(10), shared.processes()


@pytest.mark.slow
def test_acts_of_two_clients_at_once_are_all_answered_and_none_by_anothers_answer(shared: Machine) -> None:
    async def acts(client: str) -> None:
        session = await DetachedSession.connect("shared", home=shared.home).opened()
        for number in range(8):
            content = f"{client} {number}\n" * 1000
            path = f"/workspace/{client}-{number}"
            await session.files.write(path, content)
            done = await session.run(["sh", "-c", f"cat {path}; exit {number}"])
            assert (done.exit_code, done.stdout) == (number, content)
            assert await session.files.read(path) == content.encode()

    async def both() -> None:
        await asyncio.gather(*(acts(client) for client in ("one", "two", "three")))
        await DetachedSession.connect("shared", home=shared.home).close()

    asyncio.run(both())
    assert shared.quiet_within(10), shared.processes()
