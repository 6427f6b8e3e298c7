"""A static program of system calls: run here, outside of any sandbox."""

import os
import platform
import struct
import subprocess

import pytest
from tests.raising import raises_code

from affiant.sandbox.isolation.backends.call_program import CallProgram, program_machines

MACHINE = platform.machine()
pytestmark = pytest.mark.skipif(MACHINE not in program_machines(), reason=f"no program for {MACHINE}")

WRITE, EXIT, GETPID, CHDIR, EXECVE = 1, 231, 39, 80, 59


def run(tmp_path, program):
    path = tmp_path / "program"
    path.write_bytes(program.elf())
    path.chmod(0o755)
    return subprocess.run([path], capture_output=True, check=False, timeout=10)


def test_calls_are_made_in_turn_with_their_arguments(tmp_path):
    program = CallProgram(MACHINE)
    for text in (b"first ", b"second"):
        program.call(WRITE, 1, program.data(text), len(text))
    program.call(EXIT, 7)
    done = run(tmp_path, program)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"first second", b"")


@pytest.mark.parametrize(
    ("number", "argument", "taken"),
    [(CHDIR, "/nowhere", b"error"), (CHDIR, "/", b"zero"), (GETPID, "", b"positive")],
)
def test_the_result_of_a_call_decides_what_follows_and_is_stored(tmp_path, number, argument, taken):
    program = CallProgram(MACHINE)
    slot = program.data(bytes(8))
    program.call(number, program.text(argument), error="error", zero="zero", positive="positive", result=slot)
    for name in ("error", "zero", "positive"):
        program.label(name)
        program.call(WRITE, 1, slot, 8)
        program.call(WRITE, 1, program.data(name.encode()), len(name))
        program.call(EXIT, 0)
    told = run(tmp_path, program).stdout
    (value,) = struct.unpack_from("<q", told)
    assert told[8:] == taken
    assert {b"error": value == -2, b"zero": value == 0, b"positive": value > 1}[taken]


def test_it_becomes_another_program_with_arguments_and_environment(tmp_path):
    program = CallProgram(MACHINE)
    words = program.pointers([program.text(word) for word in ("sh", "-c", 'echo "$0 $A"', "zero")])
    program.call(EXECVE, program.text("/bin/sh"), words, program.pointers([program.text("A=b c")]))
    program.call(EXIT, 1)
    assert run(tmp_path, program).stdout == b"zero b c\n"


def test_it_runs_from_an_anonymous_file():
    program = CallProgram(MACHINE)
    program.call(WRITE, 1, program.data(b"up"), 2)
    program.call(EXIT, 0)
    fd = os.memfd_create("program")
    try:
        os.write(fd, program.elf())
        done = subprocess.run(
            [f"/proc/self/fd/{fd}"], pass_fds=(fd,), capture_output=True, check=True, env={}, timeout=10
        )
    finally:
        os.close(fd)
    assert done.stdout == b"up"


def test_another_machine_is_refused():
    with raises_code("isolation.unavailable", match="static program"):
        CallProgram("vax")
