"""The system calls that a bubblewrap sandbox may not make, as a classic BPF program. Pure.

bubblewrap shares the machine's kernel, so what namespaces do not cover is closed here: socket families that
no network namespace contains (``AF_VSOCK`` reaches the hypervisor of a VM or TD), new namespaces and mounts,
kernel keyrings, BPF, io_uring, tracing, and terminal injection. The filter comes on top of an empty
capability set and ``no_new_privs``; it is a second lock, and a requirement. Where no memory cgroup counts what the
agent holds, the calls that give memory without mapping it are closed as well.

Program format: ``struct sock_filter`` (linux/filter.h), evaluated over ``struct seccomp_data`` (linux/seccomp.h:
nr at 0, arch at 4, args at 16, little-endian).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["NAMESPACE_FLAGS", "seccomp_program", "supported_machines"]

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_ALLOW: Final = 0x7FFF0000
_KILL_PROCESS: Final = 0x80000000
_ERRNO: Final = 0x00050000

_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24

_X32_BIT: Final = 0x40000000
"""The x32 numbers of x86-64: a second encoding of every call (seccomp(2), "Caveats")."""

NAMESPACE_FLAGS: Final = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME."""

_FAMILIES: Final = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: what a network namespace contains."""

_TERMINAL_INJECTION: Final = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX: type into the terminal that started the session."""

_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_FORBIDDEN: Final[Mapping[str, tuple[int, int]]] = {
    # name: (x86_64, aarch64); -1: the machine has no such call
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),  # the limit of processors is an affinity
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
"""Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h."""

_UNMAPPED_MEMORY: Final[Mapping[str, tuple[int, int]]] = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "msgget": (68, 186),
    "shmget": (29, 194),
}
"""What holds memory that no process has to map."""

_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_CLONE3: Final = 435
_IOCTL: Final = {"x86_64": 16, "aarch64": 29}
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
_SOCKETPAIR: Final = {"x86_64": 53, "aarch64": 199}


def supported_machines() -> Sequence[str]:
    """The machines (``uname -m``) that a program is known for."""
    return tuple(_AUDIT_ARCH)


def seccomp_program(machine: str, *, memory_counted: bool) -> bytes:
    """The filter for ``machine``: 8 bytes an instruction, ready for seccomp(2).

    Args:
        memory_counted: a memory cgroup counts all that the sandbox holds. Without one, there is no memory but mapped.

    Raises:
        ``isolation.unavailable``: no system call numbers are known for the machine.
    """
    if machine not in _AUDIT_ARCH:
        raise ConfigurationError(
            "no system call filter for this kind of machine",
            expected=" or ".join(_AUDIT_ARCH),
            found=machine,
            code="isolation.unavailable",
        )
    program = [_step(_LOAD, _ARCH), *_unless_equal(_AUDIT_ARCH[machine], _KILL_PROCESS), _step(_LOAD, _NR)]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    column = tuple(_AUDIT_ARCH).index(machine)
    forbidden = _FORBIDDEN if memory_counted else {**_FORBIDDEN, **_UNMAPPED_MEMORY}
    for numbers in forbidden.values():
        if numbers[column] >= 0:
            program += _when_equal(numbers[column], errno.EPERM)
    program += _when_equal(_CLONE3, errno.ENOSYS)  # its flags lie in memory; libc falls back to clone
    program += _call(_CLONE[machine], _step(_LOAD, _ARG0), _step(_ANY_BIT, NAMESPACE_FLAGS, 0, 1), _refuse(1))
    for number in (_SOCKET[machine], _SOCKETPAIR[machine]):
        program += _call(number, _step(_LOAD, _ARG0), *_only(_FAMILIES, errno.EAFNOSUPPORT))
    for request in _TERMINAL_INJECTION:
        program += _call(_IOCTL[machine], _step(_LOAD, _ARG1), *_when_equal(request, errno.EPERM))
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _when_equal(value: int, number: int) -> tuple[bytes, ...]:
    return _step(_EQUAL, value, 0, 1), _refuse(number)


def _unless_equal(value: int, action: int) -> tuple[bytes, ...]:
    return _step(_EQUAL, value, 1, 0), _step(_RETURN, action)


def _only(values: Sequence[int], number: int) -> tuple[bytes, ...]:
    """Refuse what is none of ``values``; each test jumps over the rest and the refusal."""
    tests = [_step(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return *tests, _refuse(number)


def _call(number: int, *body: bytes) -> tuple[bytes, ...]:
    """``body`` for call ``number`` only; afterwards the accumulator holds the number again."""
    return _step(_EQUAL, number, 0, len(body) + 1), *body, _step(_LOAD, _NR)
