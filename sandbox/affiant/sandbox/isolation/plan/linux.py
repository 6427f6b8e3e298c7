"""The few Linux system calls that Python 3.11 has no name for; everything here talks to the kernel.

Namespaces (namespaces(7)), mounts (mount(2)), prctl(2), the loopback interface (netdevice(7)), the I/O priority
(ioprio_set(2)), and the Landlock version query (landlock_create_ruleset(2)). Each raises ``OSError`` with the
kernel's own errno.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "CLONE_NEWCGROUP",
    "CLONE_NEWIPC",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "CLONE_NEWUTS",
    "Mounted",
    "bind_mount",
    "die_with_parent",
    "drop_capabilities",
    "io_priority",
    "landlock_version",
    "loopback_up",
    "make_mounts_slave",
    "make_read_only",
    "mount",
    "mount_table",
    "open_beneath",
    "process_start_time",
    "set_io_priority",
    "setns",
    "unmount",
    "unshare",
]

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x80000

_MNT_DETACH: Final = 0x2

_PR_SET_PDEATHSIG: Final = 1
_SYS_MOUNT_SETATTR: Final = 442
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_MOUNT_ATTR_RDONLY: Final = 0x1
_MOUNT_ATTR_NOSUID: Final = 0x2
_MOUNT_ATTR_NODEV: Final = 0x4

_SYS_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_CREATE_RULESET_VERSION: Final = 1

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 0x1

_SYS_IOPRIO: Final = {"x86_64": (251, 252), "aarch64": (30, 31)}
"""ioprio_set and ioprio_get: by machine, as system calls of before 2018 are."""
_IOPRIO_WHO_PROCESS: Final = 1

_SYS_OPENAT2: Final = 437
_RESOLVE_NO_XDEV: Final = 0x01
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08
_RESOLVED_AGAIN: Final = 64
"""So often a path is resolved anew when something on its way was moved meanwhile."""

_CAPABILITY_VERSION: Final = 0x20080522
"""_LINUX_CAPABILITY_VERSION_3 (linux/capability.h): sets of 64 bits."""

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")

_libc = ctypes.CDLL(None, use_errno=True)


class Mounted(NamedTuple):
    """One mount of this process's mount namespace."""

    root: str
    """What of the file system is shown, as a path in it."""
    at: str
    kind: str
    options: tuple[str, ...]
    """Those of the file system."""


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces named by ``flags`` for new, empty ones (unshare(2))."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind ``fd``, which must be of ``kind`` (setns(2))."""
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def io_priority(process: int) -> int:
    """Class and level of the I/O priority of ``process``, 0 for this one (ioprio_get(2))."""
    return _io_priority(1, process)


def set_io_priority(value: int, process: int = 0) -> None:
    """Give ``process``, 0 for this one, the I/O priority ``value``, as :func:`io_priority` has it (ioprio_set(2))."""
    _io_priority(0, process, value)


def _io_priority(which: int, process: int, *value: int) -> int:
    numbers = _SYS_IOPRIO.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, "the numbers of ioprio_set and ioprio_get are not known here")
    arguments = (ctypes.c_int(_IOPRIO_WHO_PROCESS), ctypes.c_int(process), *map(ctypes.c_int, value))
    return _checked(_libc.syscall(ctypes.c_long(numbers[which]), *arguments), "I/O priority")


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """Mount a file system of ``kind`` (mount(2))."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _checked(result, f"mount {kind} on {target}")


def unmount(target: str) -> None:
    """Take the mount at ``target`` out of this mount namespace, even if it is in use (umount2(2))."""
    _checked(_libc.umount2(os.fsencode(target), ctypes.c_int(_MNT_DETACH)), f"unmount {target}")


def bind_mount(source: str, target: str) -> None:
    """Show ``source`` and what is mounted below it at ``target`` as well."""
    mount(source, target, "none", MS_BIND | _MS_REC)


def make_read_only(target: str) -> None:
    """Make the mount at ``target`` and all below it read-only, whatever their users believe (mount_setattr(2))."""
    attributes = struct.pack("<QQQQ", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV, 0, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE),
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    _checked(result, f"read-only mount of {target}")


def mount_table() -> Iterator[Mounted]:
    """The mounts that this process sees (proc_pid_mountinfo(5)).

    Paths are bytes to the kernel: what is not UTF-8 is surrogates here, as everywhere in Python (PEP 383).
    """
    for line in Path("/proc/self/mountinfo").read_bytes().rstrip(b"\n").split(b"\n"):
        fields, _, source = os.fsdecode(line).partition(" - ")
        root, at = (_unescaped(field) for field in fields.split(" ")[3:5])
        kind, _, options = source.split(" ", 2)
        yield Mounted(root, at, kind, tuple(options.split(",")))


def _unescaped(field: str) -> str:
    """The kernel writes space, tab, newline and backslash as three octal digits."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)


def make_mounts_slave() -> None:
    """Mounts made here stay here; unmounts of the machine still reach us, so that we never pin its disks."""
    mount("none", "/", "none", _MS_REC | _MS_SLAVE)


def die_with_parent() -> None:
    """SIGKILL for this process as soon as the thread that forked it is gone (PR_SET_PDEATHSIG)."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0), "prctl")


def landlock_version() -> int:
    """The kernel's Landlock ABI; 0 where it has none or has it switched off."""
    result: int = _libc.syscall(
        ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET),
        ctypes.c_void_p(None),
        ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION),
    )
    return max(result, 0)


def loopback_up() -> None:
    """Bring ``lo`` of the present network namespace up; the kernel gives it 127.0.0.1/8 by itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as query:
        request = struct.pack("16sH22x", b"lo", 0)
        answer = fcntl.ioctl(query, _SIOCGIFFLAGS, request)
        flags = struct.unpack_from("H", answer, 16)[0] | _IFF_UP
        fcntl.ioctl(query, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags))


def process_start_time(pid: int) -> int | None:
    """When ``pid`` was started, in clock ticks since boot (proc(5), stat field 22); None: no such process.

    A pid is reused, a pid with its start time is not. A process that only waits to be reaped counts as gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open ``path`` below the descriptor ``directory`` (openat2(2)): no link, ``..`` or mount leads out of it.

    Raises:
        OSError: EXDEV where it would lead out; EAGAIN where that cannot be decided, because too much is being moved.
    """
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_XDEV
    how = struct.pack("<QQQ", flags | os.O_CLOEXEC, 0, resolve)
    fd = -1
    for _ in range(_RESOLVED_AGAIN):
        fd = _libc.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(directory),
            os.fsencode(path),
            how,
            ctypes.c_size_t(len(how)),
        )
        if fd >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    return _checked(fd, "open")


def drop_capabilities() -> None:
    """Have no capability, now or later in this process: none effective, permitted or inheritable (capset(2))."""
    head = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _checked(_libc.capset(head, bytes(24)), "capset")
