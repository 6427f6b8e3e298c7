"""A platform as its own process, as a launcher starts it, and children that are other users."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from affiant.attestation.simulated.served.client import PlatformClient

STRANGER = 64_902
"""A user id that owns nothing."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes other users")


class Served:
    """A running platform."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path) -> None:
        self.process = process
        self.path = path
        self.client = PlatformClient(path)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(10)


@contextmanager
def serving(home: Path, *options: str) -> Iterator[Served]:
    """``affiant platform serve`` until the block ends; entered when it listens."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "affiant", "platform", "serve", "--home", str(home)]
    with open(reading, "rb") as ready:
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writing), *options], pass_fds=[writing], stderr=subprocess.PIPE
        )
        os.close(writing)
        try:
            line = ready.readline()
            assert line, (process.wait(10), process.stderr.read() if process.stderr else b"")
            yield Served(process, Path(json.loads(line)["socket"]))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(10)
            if process.stderr is not None:
                process.stderr.close()


def as_user(user: int, attempt: Callable[[], object]) -> str:
    """The outcome of ``attempt`` in a child that has become ``user``: a refusal's name, or what it returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            outcome = str(attempt())
        except BaseException as error:
            outcome = type(error).__name__
        os.write(writing, outcome.encode()[:1000])
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as result:
        return result.read().decode()
