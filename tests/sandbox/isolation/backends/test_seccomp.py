"""The filter program, run by an interpreter of our own: what each call gets, on both machines."""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.sandbox.isolation.backends import seccomp
from affiant.sandbox.isolation.backends.seccomp import NAMESPACE_FLAGS, seccomp_program, supported_machines

ALLOW = 0x7FFF0000
KILL = 0x80000000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def judge(machine, number, *arguments, arch=None, memory_counted=True):
    """Interpret the program over one seccomp_data, as linux/net/core/filter.c does."""
    data = struct.pack(
        "<IIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *arguments, *[0] * (6 - len(arguments))
    )
    program = [
        struct.unpack_from("<HBBI", step)
        for step in chunks(seccomp_program(machine, memory_counted=memory_counted))
    ]
    place, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[
                code
            ]
            place += if_true if holds else if_false


def chunks(program):
    assert len(program) % 8 == 0
    return [program[at : at + 8] for at in range(0, len(program), 8)]


def refused(number):
    return 0x00050000 | number


@pytest.mark.parametrize("machine", supported_machines())
def test_memory_without_a_mapping_is_refused_where_nothing_else_counts_it(machine):
    column = list(supported_machines()).index(machine)
    for name, numbers in seccomp._UNMAPPED_MEMORY.items():
        assert judge(machine, numbers[column]) == ALLOW, name
        assert judge(machine, numbers[column], memory_counted=False) == refused(errno.EPERM), name


@pytest.mark.parametrize("machine", supported_machines())
def test_every_forbidden_call_is_refused(machine):
    column = list(supported_machines()).index(machine)
    for name, numbers in seccomp._FORBIDDEN.items():
        if numbers[column] >= 0:
            assert judge(machine, numbers[column]) == refused(errno.EPERM), name


@pytest.mark.parametrize("machine", supported_machines())
def test_what_programs_live_on_is_allowed(machine):
    calls = {"x86_64": [0, 1, 2, 9, 59, 60, 257, 318, 444], "aarch64": [63, 64, 56, 222, 221, 93, 278, 444]}[
        machine
    ]
    assert {judge(machine, number) for number in calls} == {ALLOW}


@pytest.mark.parametrize("machine", supported_machines())
@pytest.mark.parametrize(("family", "verdict"), [(1, ALLOW), (2, ALLOW), (10, ALLOW), (16, ALLOW)])
def test_socket_families_of_the_namespace_are_allowed(machine, family, verdict):
    assert judge(machine, seccomp._SOCKET[machine], family) == verdict


@pytest.mark.parametrize("machine", supported_machines())
@pytest.mark.parametrize("family", [0, 17, 38, 40, 44, 29, 31, 1 << 31])
def test_other_socket_families_are_not(machine, family):
    for number in (seccomp._SOCKET[machine], seccomp._SOCKETPAIR[machine]):
        assert judge(machine, number, family) == refused(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("machine", supported_machines())
@thorough(60)
@given(flags=st.integers(0, 2**32 - 1))
def test_clone_makes_processes_and_threads_but_no_namespace(machine, flags):
    verdict = judge(machine, seccomp._CLONE[machine], flags)
    assert verdict == (refused(errno.EPERM) if flags & NAMESPACE_FLAGS else ALLOW)


@pytest.mark.parametrize("machine", supported_machines())
def test_clone3_looks_not_implemented(machine):
    assert judge(machine, 435) == refused(errno.ENOSYS)


@pytest.mark.parametrize("machine", supported_machines())
def test_nothing_can_be_typed_into_the_terminal(machine):
    assert judge(machine, seccomp._IOCTL[machine], 1, 0x5412) == refused(errno.EPERM)
    assert judge(machine, seccomp._IOCTL[machine], 1, 0x541C | (7 << 32)) == refused(errno.EPERM)
    assert judge(machine, seccomp._IOCTL[machine], 1, 0x5413) == ALLOW


def test_another_architectures_calls_kill():
    assert judge("x86_64", 0, arch=0x40000003) == KILL
    assert judge("aarch64", 0, arch=ARCH["x86_64"]) == KILL


def test_the_second_spelling_of_x86_calls_is_closed():
    assert judge("x86_64", 0x40000000 | 165) == refused(errno.ENOSYS)


def test_an_unknown_machine_is_refused():
    with raises_code("isolation.unavailable"):
        seccomp_program("pdp11", memory_counted=True)
