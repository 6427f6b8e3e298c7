"""A server that is a command: one process for each connection, with nothing of ours, and no longer than it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.attestation.simulated.served.confinement import PLATFORM_USER
from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.gateway.config.config import socket_of
from affiant.gateway.tool_servers.stdio_host import command_of, served_commands
from affiant.sandbox.base.privileges import (
    BROKER_USER,
    GATEWAY_USER,
    SUPERVISOR_USER,
    WITNESS_USER,
    is_root,
)

USERS = (0, BROKER_USER, GATEWAY_USER, PLATFORM_USER, SUPERVISOR_USER, WITNESS_USER)

TELLS = """
import json, os, sys
def link(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}")
    except OSError: return ""
def seen(path):
    try: return os.listdir(path)
    except OSError as error: return type(error).__name__
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
children = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "300")
print(json.dumps({
    "uid": os.getuid(), "groups": os.getgroups(), "environment": dict(os.environ), "cwd": os.getcwd(),
    "fds": [link(fd) for fd in os.listdir("/proc/self/fd")], "home": seen(sys.argv[1]),
    "core": status["CoreDumping"].strip(), "new": status["NoNewPrivs"].strip(), "pid": os.getpid(), "child": children,
}), flush=True)
for line in sys.stdin:
    print(line, end="", flush=True)
if "stay" in sys.argv:
    import time
    time.sleep(300)
"""


@contextmanager
def hosted(tmp_path: Path, *more: str) -> Iterator[Path]:
    home = tmp_path / "home"
    store = home / "gateway"
    store.mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (store / "receipt.key").write_text("a key")
    command = (sys.executable, "-c", TELLS, str(store), *more)
    server = MCPServerConfig(id="tells", command=command, env=(("TOKEN", "local:TOKEN"),))
    environments = {"tells": {"TOKEN": "a value for this server alone"}}
    with served_commands((server,), environments, home=home, store=store, user=None):
        yield store


def connected(store: Path) -> tuple[socket.socket, dict]:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(15)
    connection.connect(str(socket_of(store, "tells")))
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(65536)
        assert part, "it ended"
        line += part
    return connection, json.loads(line)


def gone(pid: int, within: float = 10) -> bool:
    until = time.monotonic() + within
    while _runs(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _runs(pid: int) -> bool:
    """Whether it is more than an entry that its parent has not read yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the launcher's own")
    monkeypatch.setenv("AFFIANT_HOME", "/somewhere")
    monkeypatch.setenv("LD_PRELOAD_NOT", "x")


def test_a_process_sees_nothing_of_the_gateway_and_ends_with_its_connection(tmp_path: Path) -> None:
    inherited = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(inherited, True)  # noqa: FBT003 - what a careless library leaves
    try:
        with hosted(tmp_path) as store:
            connection, told = connected(store)
            other, second = connected(store)
            if is_root():
                assert told["groups"] == []
                assert len({told["uid"], second["uid"], *USERS}) == 2 + len(USERS)
                assert told["home"] == "PermissionError"
            assert "receipt.key" not in told["home"]
            assert set(told["environment"]) <= {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TOKEN"}
            assert told["environment"]["TOKEN"] == "a value for this server alone"
            assert (told["cwd"], told["new"]) == ("/", "1")
            assert not [name for name in told["fds"] if "memfd" in name or str(tmp_path) in name]
            assert told["pid"] != second["pid"]
            connection.sendall(b"hello\n")
            assert connection.recv(100) == b"hello\n"
            connection.close()
            if is_root():  # in bubblewrap the numbers are its own
                assert gone(told["pid"]) and gone(told["child"])
                assert os.path.exists(f"/proc/{second['pid']}")
            other.close()
    finally:
        os.close(inherited)
    assert not socket_of(store, "tells").exists()


@pytest.mark.slow
def test_a_process_that_stays_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    with hosted(tmp_path, "stay") as store:
        connection, told = connected(store)
        connection.close()
        if is_root():
            assert gone(told["pid"]) and gone(told["child"])
        left, stays = connected(store)
    with left:
        if is_root():
            assert gone(stays["pid"], 1) and gone(stays["child"], 1)


def test_without_root_a_server_is_kept_apart_by_bubblewrap_or_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    command = command_of(("server", "--x"), hidden=tmp_path, root=False)
    assert command[0] == "/usr/bin/bwrap"
    assert command[-3:] == ("--", "server", "--x")
    assert ("--tmpfs", str(tmp_path)) in zip(command, command[1:], strict=False)
    assert command.index("--ro-bind") < command.index(str(tmp_path))
    assert command_of(("server",), hidden=tmp_path, root=True) == ("server",)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with raises_code("gateway.settings", match="bubblewrap"):
        command_of(("server",), hidden=tmp_path, root=False)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine")
def test_in_bubblewrap_the_state_folder_is_empty(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "receipt.key").write_text("a key")
    look = "ls -a $1; cat $1/gateway/receipt.key || echo no key; touch /etc/x || echo read-only"
    command = command_of(("sh", "-c", look, "sh", str(tmp_path)), hidden=tmp_path, root=False)
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if "Operation not permitted" in done.stderr or "No permissions" in done.stderr:
        pytest.skip(f"bubblewrap cannot run here: {done.stderr[:200]}")
    assert done.stdout.split() == [".", "..", "no", "key", "read-only"], done.stderr
