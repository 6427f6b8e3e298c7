"""A platform as its own process, as a launcher starts it, and children that are other users."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from affiant.attestation.release.measured_files import installed_portions
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


def closed_installation(folder: Path) -> Path:
    """A Python whose ``affiant`` is a copy of this tree in ``folder``, which only its owner can enter."""
    folder.mkdir(mode=0o700)
    roots = []
    for portion in installed_portions():
        shutil.copytree(portion, folder / portion.parent.name / "affiant")
        roots.append(folder / portion.parent.name)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    lines = [*roots, sysconfig.get_path("purelib")]
    (packages / "copied.pth").write_text("".join(f"{line}\n" for line in lines))
    return folder / "venv" / "bin" / "python"


def users_of(pid: int) -> set[int]:
    """The real, effective, saved and file system user ids of a process."""
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:")
    )
    return {int(each) for each in line.split()[1:]}


@contextmanager
def serving(home: Path, *options: str, python: str | Path = sys.executable) -> Iterator[Served]:
    """``affiant platform serve`` until the block ends; entered when it listens."""
    reading, writing = os.pipe()
    command = [str(python), "-m", "affiant", "platform", "serve", "--home", str(home)]
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
