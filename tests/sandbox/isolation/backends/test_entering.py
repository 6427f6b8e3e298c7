"""The programs that run before anything of the agent's: what they hold, and the one that signals, run here."""

import ctypes
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
    read_reports,
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


PTRACE_TRACEME, PTRACE_CONT, PTRACE_DETACH, PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG = 0, 7, 17, 0x4200, 0x4201
TRACE_FORK_AND_KILL = 0x100002


def ptrace(request, pid, data=0):
    """ptrace(2)."""
    message = ctypes.c_ulong()
    last = ctypes.byref(message) if request == PTRACE_GETEVENTMSG else ctypes.c_void_p(data)
    if ctypes.CDLL(None, use_errno=True).ptrace(request, pid, None, last) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return message.value


def stopped_as_it_is_forked(program, report):
    """The program's outer process, which runs on, and its inner one, stopped before its first step."""
    executable = sealed(program)
    outer = os.fork()
    if outer == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as the runner does, whose child it is
            os.set_inheritable(report, True)
            ptrace(PTRACE_TRACEME, 0)
            os.execv(f"/proc/self/fd/{executable}", ["program"])
        finally:
            os._exit(99)
    os.close(executable)
    assert os.WIFSTOPPED(os.waitpid(outer, 0)[1])
    ptrace(PTRACE_SETOPTIONS, outer, TRACE_FORK_AND_KILL)
    ptrace(PTRACE_CONT, outer)
    assert os.WIFSTOPPED(os.waitpid(outer, 0)[1])
    inner = ptrace(PTRACE_GETEVENTMSG, outer)
    assert os.WIFSTOPPED(os.waitpid(inner, 0x40000000)[1])
    ptrace(PTRACE_DETACH, outer)
    return outer, inner


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_comes_before_the_command_is_executed_is_not_lost(number):
    """The outer process says that the command runs when it has forked; the inner one may not have begun by then."""
    reading, report = os.pipe()
    program = command_program(confinement(), Command(("/bin/true",)), report=report, namespaces=None)
    outer, inner = stopped_as_it_is_forked(program, report)
    os.close(report)
    said = b""
    while read_reports(said, COMMAND).pid == 0:
        said += os.read(reading, 4096)
    os.kill(inner, number)
    ptrace(PTRACE_DETACH, inner)
    while piece := os.read(reading, 4096):
        said += piece
    os.close(reading)
    assert os.waitstatus_to_exitcode(os.waitpid(outer, 0)[1]) == 0
    status = read_reports(said, COMMAND).status
    assert status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == number


def test_the_command_takes_every_signal_as_usual():
    reading, report = os.pipe()
    command = Command(("/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"))
    fd = sealed(command_program(confinement(), command, report=report, namespaces=None))
    try:
        done = subprocess.run(
            [f"/proc/self/fd/{fd}"], pass_fds=(fd, report), capture_output=True, check=False, timeout=10
        )
    finally:
        for each in (fd, reading, report):
            os.close(each)
    _, blocked, _, ignored = done.stdout.split()
    of_the_library = 0b11 << 31  # signals 32 and 33, which no program can ask for (signal(7))
    assert (int(blocked, 16), int(ignored, 16) & ~of_the_library) == (0, 0)
