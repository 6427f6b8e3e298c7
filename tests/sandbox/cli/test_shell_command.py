"""``affiant session shell`` on a real terminal: its size, Ctrl-C, its exit code, and how it leaves the terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.sandbox.api.test_sandbox import PROFILE, isolation
from tests.sandbox.conftest import affiant

from affiant.errors import AffiantError
from affiant.sandbox import Sandbox
from affiant.sandbox.cli import shell_command


@pytest.fixture
def named(warm: Any) -> Iterator[str]:
    async def create() -> Sandbox:
        given = {"profile": PROFILE, "agent": "dev", "name": "shelled", "ttl": 300, "home": warm.home}
        return await Sandbox.create(**given, **isolation(warm))

    sandbox = asyncio.run(create())
    yield "shelled"
    with suppress(AffiantError):  # it was stopped
        asyncio.run(sandbox.close())


class Screen:
    """A terminal, with a command of ours on it."""

    def __init__(self, *argv: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(11, 55)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "affiant", *argv],
            stdin=slave, stdout=slave, stderr=slave, cwd="/", preexec_fn=self._lead,  # noqa: PLW1509
        )  # fmt: skip
        self.slave = slave
        self.shown = b""

    @staticmethod
    def _lead() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def until(self, text: bytes) -> None:
        deadline = time.monotonic() + 20
        while text not in self.shown:
            assert time.monotonic() < deadline, (text, self.shown)
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65536)
        self.shown = self.shown.partition(text)[2]

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    @property
    def as_before(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before


def test_a_shell_has_a_terminal_of_its_own_with_size_signals_and_exit_code(warm: Any, named: str) -> None:
    screen = Screen("session", "shell", "--home", str(warm.home), "--env", "PS1=>", named, "--", "sh")
    screen.until(b">")
    assert not screen.as_before, "it is raw"
    screen.type(b"stty size; tty\n")
    screen.until(b"11 55")
    screen.resize(22, 66)
    screen.type(b"until stty size | grep '22 66'; do sleep 0.1; done; echo si''zed\n")
    screen.until(b"sized")
    screen.type(b"trap 'echo cau''ght; exit 7' INT; echo tra''pped; while :; do sleep 0.1; done\n")
    screen.until(b"trapped")
    screen.type(b"\x03")
    screen.until(b"caught")
    assert screen.process.wait(20) == 7
    assert screen.as_before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "stop"])
def test_the_terminal_is_as_before_whatever_ended_the_shell(warm: Any, named: str, how: str) -> None:
    screen = Screen("session", "shell", "--home", str(warm.home), named)
    screen.type(b"echo u''p\n")
    screen.until(b"up")
    if how == "SIGTERM":
        screen.process.send_signal(signal.SIGTERM)
    else:
        affiant("session", "stop", "--home", str(warm.home), named)
    assert screen.process.wait(20) != 0
    assert screen.as_before


@pytest.mark.slow
def test_without_a_terminal_it_says_what_to_use(warm: Any, named: str) -> None:
    command = [sys.executable, "-m", "affiant", "session", "shell", "--home", str(warm.home), named]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert done.returncode == 125 and b"[session.no_terminal]" in done.stderr
    assert f"affiant session exec {named} COMMAND".encode() in done.stderr


@pytest.mark.parametrize(
    ("columns", "rows", "size"),
    [(5000, 24, (24, 4096)), (80, 9999, (4096, 80)), (120, 50, (50, 120)), (0, 0, (24, 80))],
)
def test_a_terminal_of_any_size_is_shown_as_one_that_a_command_can_have(
    monkeypatch: pytest.MonkeyPatch, columns: int, rows: int, size: tuple[int, int]
) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, rows)))
    assert shell_command._size() == size
