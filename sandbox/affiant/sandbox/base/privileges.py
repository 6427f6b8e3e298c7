"""Drops privileges for good: user, groups, core files, inspection, and outliving one's parent.

The order matters: a change of user clears the parent-death signal and the dumpable flag's old value (prctl(2)),
so both are set afterwards.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from dataclasses import dataclass
from typing import Final

from affiant.errors import StateError

__all__ = [
    "BROKER_USER",
    "GATEWAY_USER",
    "SUPERVISOR_USER",
    "WITNESS_USER",
    "Owner",
    "confine",
    "drop_privileges",
    "end_with_parent",
    "is_root",
]

GATEWAY_USER: Final = 61782
SUPERVISOR_USER: Final = 61783
BROKER_USER: Final = 61784
WITNESS_USER: Final = 61785
"""User and group ids of the services of a development machine, as root starts them: above what accounts are
given by adduser(8) and systemd, below the 16-bit overflow id. None needs an entry in ``/etc/passwd``. The number before
these is the simulated platform's."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns the files of a session on this machine."""

    uid: int
    gid: int


_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


def is_root() -> bool:
    """Whether this process may change its user and its mounts."""
    return os.geteuid() == 0


def drop_privileges(user: int) -> None:
    """Go on as ``user`` (and the group of the same number), without other groups, and :func:`confine`.

    Irreversible: real, effective and saved ids change, and with them every capability goes. Without root nothing
    can be dropped and the process stays who it is, confined all the same.

    Raises:
        ``service.failed``: the kernel refuses, or something is left of the old user.
    """
    if is_root():
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError as error:
            raise StateError(
                "cannot become another user", found=error.strerror, code="service.failed"
            ) from error
        if os.getresuid() != (user, user, user) or os.getresgid() != (user, user, user) or os.getgroups():
            raise StateError("some of the old user's privileges are left", code="service.failed")
    confine()


def confine() -> None:
    """No core file, no ptrace or ``/proc/PID/mem`` for others of the same user, no new privileges by execve(2).

    Raises:
        ``service.failed``: the kernel refuses.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def end_with_parent(number: signal.Signals, *, parent: int) -> None:
    """Get ``number`` when the thread that started this process ends; at once if ``parent`` is gone already.

    Cleared by any later change of user.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    unused = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), unused, unused, unused) != 0:
        raise StateError("prctl refuses", found=os.strerror(ctypes.get_errno()), code="service.failed")
