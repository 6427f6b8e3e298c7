from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.secrets.conftest import HOST, fetched, request_to
from tests.secrets.upstream_server import answer

from affiant.secrets.broker.client.client import BrokerClient, broker_command
from affiant.secrets.broker.client.messages import BrokerPart

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"
USE = (("TOKEN", "header:authorization"),)
BROKER_UID, OTHER_UID = 64_123, 64_124

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def bearer(placeholder: str) -> tuple[bytes, bytes]:
    return (b"Authorization", b"Bearer " + placeholder.encode())


def proc(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def memory_holds(pid: int, needle: bytes) -> bool:
    """Whether any writable memory of the process holds ``needle``."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if not line.split()[1].startswith("rw"):
                continue
            try:
                memory.seek(start)
                if needle in memory.read(end - start):
                    return True
            except OSError:
                continue
    return False


def locked(status: str) -> bool:
    """Whether the kernel says that memory of a process is locked."""
    return int(re.search(r"VmLck:\s+([0-9]+) kB", status)[1]) > 0


def test_the_broker_has_no_environment_no_core_and_is_not_dumpable(harness, serve) -> None:
    server = serve(lambda _: answer(b"ok"))
    harness.grant("TOKEN", VALUE, server.port)
    harness.own_process = True

    async def scenario(client: BrokerClient) -> None:
        pid = harness.process.pid
        status = harness.resolution.status
        assert (status.pid, status.dumpable) == (pid, False)
        limits = proc(pid, "limits").decode()
        assert re.search(r"Max core file size +0 +0 ", limits)
        shown = proc(pid, "status").decode()
        assert "NoNewPrivs:\t1" in shown
        assert status.memory_locked == locked(shown)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        descriptors = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
        assert not any(str(harness.folder) in target for target in descriptors), "the store is closed again"
        assert VALUE not in proc(pid, "environ") + proc(pid, "cmdline")
        assert os.stat(f"/proc/{pid}/mem").st_uid == 0

    harness.run(scenario)
    assert harness.process.returncode == 0
    assert harness.stderr == b""


@pytest.mark.root
@needs_root
def test_as_root_the_broker_becomes_another_user_and_still_works(harness, serve) -> None:
    server = serve(lambda received: answer(received.head))
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    harness.uid, harness.own_process = BROKER_UID, True

    async def scenario(client: BrokerClient) -> None:
        status = proc(harness.process.pid, "status").decode()
        assert f"Uid:\t{BROKER_UID}\t{BROKER_UID}\t{BROKER_UID}\t{BROKER_UID}\n" in status
        assert f"Gid:\t{BROKER_UID}\t{BROKER_UID}\t{BROKER_UID}\t{BROKER_UID}\n" in status
        assert re.search(r"Groups:\s*\n", status)
        assert re.search(r"CapEff:\s0+\n", status)
        assert harness.resolution.status.uid == BROKER_UID
        assert harness.resolution.status.memory_locked == locked(status)
        got = await fetched(client, request_to(server.port, bearer(placeholder), uses=USE))
        assert placeholder.encode() in got.body

    harness.run(scenario)
    assert server.received[0].header("authorization") == b"Bearer " + VALUE


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("reader", [BROKER_UID, OTHER_UID])
def test_no_other_user_nor_its_own_reads_the_brokers_memory(harness, serve, reader: int) -> None:
    server = serve(lambda _: answer(b"ok"))
    harness.grant("TOKEN", VALUE, server.port)
    harness.uid, harness.own_process = BROKER_UID, True
    probe = """
import os, sys
pid, uid = int(sys.argv[1]), int(sys.argv[2])
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
for name in ("mem", "environ", "maps", "auxv", "stack", "syscall"):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            file.read(1)
        print("read", name)
    except OSError:
        pass
try:
    print("listed", os.listdir(f"/proc/{pid}/fd"))
except OSError:
    pass
"""

    async def scenario(client: BrokerClient) -> None:
        command = (sys.executable, "-c", probe, str(harness.process.pid), str(reader))
        probed = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
        assert probed.stdout == b""

    harness.run(scenario)


@pytest.mark.skipif(os.geteuid() != 0, reason="reading another process's memory needs root")
@pytest.mark.root
def test_the_supervisors_memory_never_holds_the_value(harness, serve, authority) -> None:
    """The whole of it: a supervisor in a process of its own, scanned from outside after an exchange."""
    value = hashlib.sha256(os.urandom(32)).hexdigest().encode()
    server = serve(lambda received: answer(received.head + b" " + value.hex().encode()))
    placeholder = harness.grant("TOKEN", value, server.port)
    supervisor = subprocess.Popen(
        [
            sys.executable,
            "-c",
            SUPERVISOR,
            str(harness.folder),
            placeholder,
            HOST,
            str(server.port),
            authority.pem,
        ],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    try:
        line = supervisor.stdout.readline()
        assert line.startswith(b"exchanged ")
        assert server.received[0].header("authorization") == b"Bearer " + value
        assert memory_holds(supervisor.pid, placeholder.encode()), "the scan sees what is there"
        assert not memory_holds(supervisor.pid, value)
        assert not memory_holds(supervisor.pid, value.hex().encode())
        broker = int(line.split()[1])
        assert memory_holds(broker, value), "and the broker alone has it"
    finally:
        supervisor.communicate(b"done\n", timeout=10)
    assert supervisor.returncode == 0


SUPERVISOR = """
import asyncio, os, socket, subprocess, sys
from pathlib import Path
from affiant.secrets.broker.client.client import BrokerClient, broker_command
from affiant.secrets.broker.client.messages import Configuration, UpstreamRequest, Grant
from affiant.secrets.store.private_files import open_private_file
from affiant.secrets.injection.placeholder import Binding, Endpoint

folder, placeholder, host, port, root = sys.argv[1:]
port = int(port)

async def main():
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            broker_command(control_fd=theirs.fileno()), pass_fds=(theirs.fileno(),), env={}, stdin=subprocess.DEVNULL
        )
    store = tuple(open_private_file(Path(folder) / "secrets" / name) for name in ("store", "key"))
    async with BrokerClient(ours) as client:
        binding = Binding("TOKEN", placeholder, frozenset({Endpoint(host, port)}))
        await client.configure(
            Configuration(grants=(Grant(binding, "local:TOKEN"),), roots=(root,), local=True), local_store=store
        )
        request = UpstreamRequest(
            id="1", scheme="https", host=host, port=port, address="127.0.0.1", method="GET", target=b"/",
            headers=((b"Authorization", b"Bearer " + placeholder.encode()),), uses=(("TOKEN", "header:authorization"),),
        )
        async with client.exchange(request) as exchange:
            await exchange.head()
            body = b"".join([chunk async for chunk in exchange.chunks()])
        assert body.count(placeholder.encode()) == 2
        print("exchanged", process.pid, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    process.wait(10)

asyncio.run(main())
"""


def started(*arguments: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            (*broker_command(control_fd=theirs.fileno()), *arguments),
            pass_fds=(theirs.fileno(),),
            env={},
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
    return process, ours


def until(holds: Callable[[], bool]) -> None:
    """Wait for it; machines that run tests are busy."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_broker_ends_when_its_parent_goes() -> None:
    process, ours = started()
    time.sleep(0.3)
    ours.close()
    _, stderr = process.communicate(timeout=10)
    assert (process.returncode, stderr) == (0, b"")


def test_an_interrupt_from_the_terminal_does_not_end_it() -> None:
    process, ours = started()
    until(lambda: b"NoNewPrivs:\t1" in proc(process.pid, "status"))
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert process.poll() is None
    ours.close()
    process.communicate(timeout=10)
    assert process.returncode == 0


@pytest.mark.parametrize(
    "sent", [b"\xff\xff\xff\xff", b"\0\0\0\x02{]", b"\0\0\0\x0d" + b'{"op":"open"}', b"\0\0\0\x02{}"]
)
def test_a_parent_that_talks_nonsense_ends_it_without_a_traceback(sent: bytes) -> None:
    process, ours = started()
    with ours:
        ours.sendall(sent)
        _, stderr = process.communicate(timeout=10)
    assert process.returncode != 0
    assert b"Traceback" not in stderr
    assert stderr.count(b"\n") <= 1


@pytest.mark.parametrize("user", [("--uid", "0", "--gid", "0"), ("--uid", "-5", "--gid", "1")])
def test_it_does_not_stay_root_when_told_to_become_somebody(user) -> None:
    process, ours = started(*user)
    with ours:
        _, stderr = process.communicate(timeout=10)
    assert process.returncode != 0
    assert b"[broker.configuration]" in stderr


def test_a_user_without_a_group_is_refused() -> None:
    with raises_code("broker.configuration"):
        broker_command(control_fd=3, uid=1000)


HEAVY = ("hvac", "requests", "jwt", "cryptography")


@pytest.mark.parametrize(
    ("parts", "loaded"),
    [
        ((), set()),
        ((BrokerPart.VAULT,), {"hvac", "requests"}),
        ((BrokerPart.LOCAL_STORE,), {"cryptography"}),
        ((BrokerPart.ASSERTIONS,), {"jwt", "cryptography"}),
    ],
)
def test_libraries_are_loaded_only_for_the_part_that_uses_them(parts, loaded) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        _, *command = broker_command(control_fd=theirs.fileno(), parts=parts)
        done = subprocess.run(
            (sys.executable, "-X", "importtime", *command),
            pass_fds=(theirs.fileno(),),
            check=True,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {name for name in HEAVY if name in imported} == loaded
