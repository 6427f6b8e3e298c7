"""Inside a bubblewrap sandbox, right before the agent's command: Landlock, limits, then execve.

Started as ``python3 -I -S confine.py FD``, with the standard library of the sandbox's own Python and nothing
of ours: this file is handed in as data. It reads one JSON object from ``FD``::

    {"status": FD, "read": [PATH...], "write": [PATH...], "limits": {"RLIMIT_...": n}, "argv": [...],
     "env": {...}}

and it writes to ``status``: ``confined`` when everything holds, right before execve; after that, or instead,
``landlock ERRNO``, ``limits ERRNO`` or ``exec ERRNO`` if a step fails. Whatever fails, the command is not run.

Landlock (Documentation/userspace-api/landlock.rst): every access right of the kernel's ABI is handled, so
what no rule grants is denied. ABI 3 is the least that governs all ways of writing (truncate); from ABI 6 on,
signals and abstract sockets are scoped as well, which process and network namespaces also do.
"""

import ctypes
import json
import os
import resource
import stat
import struct
import sys

LEAST_ABI = 3

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_QUERY = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15
_RIGHTS_OF_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_RIGHTS_SINCE_5 = (1 << 16) - 1
_SCOPES = 0b11  # abstract Unix sockets, signals (ABI 6)

_READING = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


def main(fd: int) -> None:
    """Confine this process as the object in ``fd`` says, and become the agent's command."""
    with open(fd, encoding="utf-8") as source:
        order = json.load(source)
    status = order["status"]
    os.set_inheritable(status, False)  # noqa: FBT003 - takes no keyword
    os.closerange(3, status)
    os.closerange(status + 1, os.sysconf("SC_OPEN_MAX"))
    step = "landlock"
    try:
        restrict(order["read"], order["write"])
        step = "limits"
        for name, value in order["limits"].items():
            resource.setrlimit(getattr(resource, name), (value, value))
        step = "exec"
        os.write(status, b"confined ")
        argv = order["argv"]
        os.execvpe(argv[0], argv, order["env"])  # noqa: S606 - the agent's command, without a shell
    except OSError as error:
        os.write(status, f"{step} {error.errno}".encode())
    os._exit(127)


def restrict(read: list, write: list) -> None:  # type: ignore[type-arg]  # the sandbox's Python may be 3.8
    """Allow reading below ``read``, everything below ``write``, and nothing else, for ever.

    Raises:
        OSError: the kernel has no Landlock of ABI 3 or later, or refuses a rule.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = _call(libc, _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_QUERY))
    if version < LEAST_ABI:
        raise OSError(95, "Landlock is too old")
    rights = _RIGHTS_OF_ABI.get(version, _RIGHTS_SINCE_5)
    attributes = struct.pack("<QQQ", rights, 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 8
    ruleset = _call(libc, _CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    for paths, granted in ((read, rights & _READING), (write, rights)):
        for path in paths:
            _allow(libc, ruleset, path, granted)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _call(libc, _RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _ON_FILES
        rule = struct.pack("<Qi", rights, place)  # struct landlock_path_beneath_attr is packed: 12 bytes
        _call(
            libc, _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), rule, ctypes.c_uint32(0)
        )
    finally:
        os.close(place)


def _call(libc: ctypes.CDLL, number: int, *arguments: object) -> int:
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock")
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]))
