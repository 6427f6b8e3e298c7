"""Each process of a tool server is a user of its own, and nothing of it is left when that user is lent again."""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="mcp is not installed: make setup")

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.gateway.config.config import socket_of
from affiant.gateway.tool_servers import stdio_users
from affiant.gateway.tool_servers.stdio_host import served_commands

SECRET = "hunter2-of-another-server"
KEEPS = "import time; print('ready', flush=True); time.sleep(60)"
LOOKS = """
import os
found = set()
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        for name in ("environ", "mem"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if name == "mem" or b"hunter2" in file.read():
                        found.add(name)
            except OSError:
                pass
print(sorted(found), flush=True)
"""
STAYS = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


@contextmanager
def hosted(folder: Path, programs: dict[str, str]) -> Iterator[None]:
    store = folder / "gateway"
    store.mkdir(mode=0o700, exist_ok=True)
    servers = [
        MCPServerConfig(id=name, command=(sys.executable, "-c", program), env=(("TOKEN", "local:TOKEN"),))
        for name, program in programs.items()
    ]
    environments = {"keeps": {"TOKEN": SECRET}}
    with served_commands(servers, environments, home=folder, store=store, user=None):
        yield


@contextmanager
def connected(folder: Path, name: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(socket_of(folder / "gateway", name)))
        yield connection


def said(connection: socket.socket) -> str:
    return connection.recv(1000).decode().strip()


def test_a_server_sees_nothing_of_another_servers_process(tmp_path: Path) -> None:
    with hosted(tmp_path, {"keeps": KEEPS, "looks": LOOKS}), connected(tmp_path, "keeps") as other:
        assert said(other) == "ready"
        with connected(tmp_path, "looks") as connection:
            assert said(connection) == "[]"


def test_what_a_server_started_ends_with_it_wherever_it_went(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root it has process numbers of its own, and bubblewrap ends them all")
    with hosted(tmp_path, {"stays": STAYS}):
        with connected(tmp_path, "stays") as connection:
            pid = int(said(connection))
            assert os.path.exists(f"/proc/{pid}")
        deadline = time.monotonic() + 10
        while _runs(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _runs(pid)


def test_nobody_elses_user_is_ever_lent() -> None:
    first, most = stdio_users._FIRST, stdio_users._MAX_USERS
    assert (
        60706 <= first and first + most - 1 <= 61183
    )  # below those that systemd makes up, which would be ended


def test_two_gateways_of_one_machine_lend_no_user_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        hosted(tmp_path / "one", {"keeps": KEEPS}),
        hosted(tmp_path / "two", {"looks": LOOKS}),
        connected(tmp_path / "one", "keeps") as first,
    ):
        assert said(first) == "ready"
        with connected(tmp_path / "two", "looks") as second:
            assert said(second) == "[]"
        with pytest.raises(TimeoutError):  # and nobody has ended it
            first.settimeout(0.3)
            first.recv(1)


def test_a_launcher_that_is_out_of_descriptors_goes_on_when_it_has_some(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with hosted(tmp_path, {"keeps": KEEPS}), connected(tmp_path, "keeps") as first:
        assert said(first) == "ready"
        with socket.socket(socket.AF_UNIX) as second:
            second.settimeout(10)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                second.connect(str(socket_of(tmp_path / "gateway", "keeps")))
                time.sleep(0.3)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert said(second) == "ready"


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
