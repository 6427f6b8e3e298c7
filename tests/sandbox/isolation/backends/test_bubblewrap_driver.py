"""What the driver does to processes, tried on processes of this machine that are in no sandbox."""

import os
import signal
import struct
import subprocess
import time

import pytest

from affiant.sandbox.isolation.backends import bubblewrap_driver
from affiant.sandbox.isolation.backends.bubblewrap_driver import BubblewrapDriver
from affiant.sandbox.isolation.backends.entering import Confinement
from affiant.sandbox.isolation.backends.process_tree import descendants, machine_processes
from affiant.sandbox.isolation.plan.driver import Started
from affiant.sandbox.isolation.plan.errors import SandboxFailed
from affiant.sandbox.isolation.plan.linux import process_start_time
from affiant.sandbox.isolation.plan.plan import Command, Limits


def driver():
    confinement = Confinement("x86_64", Limits(), b"\0" * 8, None)
    return BubblewrapDriver("/bin/false", None, confinement, None)  # type: ignore[arg-type]


def running(pid):
    """A command whose program has reported that it runs; it is looked for in one place."""
    steps = [0] * 10
    steps[5] = 42
    return Started(Command(("/bin/true",)), pid, -1, 0.0, struct.pack("<10q", *steps) + bytes(144))


def family(children):
    """A process with a child, which has ``children`` children, one of them with a child itself."""
    inner = f"for n in $(seq {children}); do sleep 60 & done; sh -c 'sleep 60 & echo up; wait' & wait"
    argv = ["/bin/sh", "-c", 'sh -c "$0" & wait', inner]
    outer = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    assert outer.stdout.read(3) == b"up\n"
    return outer


@pytest.mark.parametrize("children", [1, 40])
def test_a_signal_reaches_all_of_a_command_and_processes_are_listed_twice(monkeypatch, children):
    """However many there are; and what the signal to its parent orphans is reached as well."""
    listed = []
    monkeypatch.setattr(
        bubblewrap_driver, "machine_processes", lambda: listed.append(1) or machine_processes()
    )
    with family(children) as outer:
        below = descendants(outer.pid, machine_processes())[1:]
        assert len(below) == children + 3
        driver().signal(running(outer.pid), signal.SIGKILL)
        deadline = time.monotonic() + 20
        while any(process_start_time(pid) for pid in below) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [pid for pid in below if process_start_time(pid)] == []
    assert len(listed) == 2


def test_a_sandbox_whose_first_process_says_nothing_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(bubblewrap_driver, "START_SECONDS", 0)
    silent = driver()
    silent._report, write = os.pipe()
    with pytest.raises(SandboxFailed):
        silent.first()
    silent.close()
    os.close(write)
