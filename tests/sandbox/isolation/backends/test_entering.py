"""The programs that run before anything of the agent's: what they hold, and the one that signals, run here."""

import os
import platform
import signal
import struct
import subprocess

import pytest

from affiant.sandbox.isolation.backends.call_program import program_machines
from affiant.sandbox.isolation.backends.entering import (
    Confinement,
    Namespaces,
    command_program,
    signalling,
)
from affiant.sandbox.isolation.backends.executing import sealed
from affiant.sandbox.isolation.backends.seccomp import seccomp_program
from affiant.sandbox.isolation.plan.plan import Command, Limits

MACHINE = platform.machine()
pytestmark = pytest.mark.skipif(MACHINE not in program_machines(), reason=f"no program for {MACHINE}")

FORK, EXECVE, KILL, PRCTL, SETNS = 57, 59, 62, 157, 308
NOT_DUMPABLE = (PRCTL, 4, 0, 0, 0, 0)


def confinement():
    return Confinement(MACHINE, Limits(), seccomp_program(MACHINE, memory_counted=True), None)


def calls_of(program):
    """The calls of an executable's table, with their first five arguments, up to the table's end."""
    (entry,) = struct.unpack_from("<Q", program, 24)
    (loaded,) = struct.unpack_from("<Q", program, 80)
    (table,) = struct.unpack_from("<I", program, entry - loaded + 1)
    for at in range(table - loaded, len(program) - 88, 88):
        yield struct.unpack_from("<6Q", program, at)


COMMAND = Command(("/bin/true",))


@pytest.mark.parametrize(
    "program",
    [
        lambda: command_program(confinement(), COMMAND, report=3, namespaces=None),
        lambda: command_program(confinement(), COMMAND, report=9, namespaces=Namespaces(4, 5, 6, 7, {})),
        lambda: signalling(confinement(), [1], 9),
    ],
    ids=["command inside", "command that enters", "signal"],
)
def test_what_the_agent_could_look_into_is_not_dumpable_before_it_enters_or_starts_anything(program):
    """Else /proc/PID/mem, fd and environ of it are the agent's to open."""
    before = []
    for call in calls_of(program()):
        if call[0] in {FORK, EXECVE, KILL, SETNS}:
            break
        before.append(call)
    assert NOT_DUMPABLE in before


def run(program):
    """Run an executable; its exit status."""
    fd = sealed(program)
    try:
        return subprocess.run([f"/proc/self/fd/{fd}"], pass_fds=(fd,), check=False, timeout=10).returncode
    finally:
        os.close(fd)


def gone():
    """The pid of a process that has ended."""
    with subprocess.Popen(["/bin/true"]) as child:
        return child.pid


def test_a_signal_reaches_those_that_are_left_and_says_so():
    with subprocess.Popen(["/bin/sleep", "60"]) as one, subprocess.Popen(["/bin/sleep", "60"]) as two:
        assert run(signalling(confinement(), [gone(), one.pid, gone(), two.pid], signal.SIGTERM)) == 0
        assert (one.wait(10), two.wait(10)) == (-signal.SIGTERM, -signal.SIGTERM)


def test_a_signal_that_reaches_no_process_does_not_count_as_delivered():
    assert run(signalling(confinement(), [gone(), gone()], signal.SIGTERM)) != 0


def test_what_the_agent_has_stopped_goes_on_and_reports_the_end():
    with subprocess.Popen(["/bin/sleep", "60"]) as inner, subprocess.Popen(["/bin/sleep", "60"]) as outer:
        os.kill(outer.pid, signal.SIGSTOP)
        os.waitpid(outer.pid, os.WUNTRACED)
        assert run(signalling(confinement(), [inner.pid], signal.SIGTERM, outer=outer.pid)) == 0
        assert os.WIFCONTINUED(os.waitpid(outer.pid, os.WCONTINUED)[1])
        assert inner.wait(10) == -signal.SIGTERM
        outer.kill()


@pytest.mark.parametrize("inner", ["runs", "is gone"])
def test_sigkill_ends_a_command_whose_outer_process_does_not_report(inner):
    with subprocess.Popen(["/bin/sleep", "60"]) as first, subprocess.Popen(["/bin/sleep", "60"]) as outer:
        target = first.pid if inner == "runs" else gone()
        assert run(signalling(confinement(), [target], signal.SIGKILL, outer=outer.pid)) == 0
        assert outer.wait(10) == -signal.SIGKILL
        first.kill()


def test_no_other_signal_ends_the_outer_process():
    with subprocess.Popen(["/bin/sleep", "60"]) as outer:
        assert run(signalling(confinement(), [gone()], signal.SIGTERM, outer=outer.pid)) != 0
        assert outer.poll() is None
        outer.kill()
