"""Confines the serving process before it reads a key: Linux, prctl(2).

No other process of the same user can attach to it or read its memory (PR_SET_DUMPABLE 0), no core file is
written, and, if started as root, it goes on as a user of its own. Root itself can still read
everything: a simulated platform protects against mistakes and other users, not against the machine's owner.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["PLATFORM_USER", "ConfinementError", "become_user", "end_with_parent", "forbid_inspection"]

PLATFORM_USER: Final = 61781
"""The user id of the platform's process where root starts it and names no user; other services have the next ids."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38


class ConfinementError(ConfigurationError):
    """The process cannot be confined as asked."""

    code = "platform.confinement"


def become_user(user: int) -> None:
    """Go on as user and group id ``user``, without other groups, for good. Root only.

    Raises:
        ConfinementError: not root, or the kernel refuses.
    """
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError as error:
        raise ConfinementError(
            "cannot become another user", expected="to be started as root", found=error.strerror
        ) from error


def forbid_inspection() -> None:
    """No core file, no ptrace, no reading of ``/proc/PID/mem``, no new privileges. After :func:`become_user`.

    Raises:
        ConfinementError: the kernel refuses.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_NO_NEW_PRIVS, 1)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise ConfinementError("prctl refuses", found=os.strerror(ctypes.get_errno()))


def end_with_parent() -> None:
    """In a child: be killed when the parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
