"""``affiant session top`` shows the sessions that answer, and waits for no other."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.conftest import affiant

from affiant.sandbox.cli import live_commands
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked
from affiant.sandbox.session_state.session_folder import HOST_SOCKET
from affiant.socket_address import reachable_address

SESSION = "S" * 22


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Home]:
    """A state folder with a session whose host takes connections, and answers none."""
    home = open_home(tmp_path / "home")
    home.session(SESSION).mkdir()
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    Launch(SESSION, launcher, asked=Asked(agent="a", profile="p", started=1, name="stopped")).write(home)
    with socket.socket(socket.AF_UNIX) as listener:
        with reachable_address(home.session(SESSION) / HOST_SOCKET) as address:
            listener.bind(address)
        listener.listen()
        yield home


def test_a_host_that_does_not_answer_is_named_and_not_waited_for(
    stopped: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_commands, "_ANSWERS_WITHIN_S", 0.2)
    done = affiant("session", "top", "--home", str(stopped.path), "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"sessions": []})
    assert f"session {SESSION}: no answer within 0.2 s".encode() in done.stderr
