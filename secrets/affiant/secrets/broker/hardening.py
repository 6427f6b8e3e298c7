"""What the broker does to itself before it reads a value (prctl(2), mlock(2), getrlimit(2); Linux).

1. another user and group, for good, if it was started as root with a user and a group;
2. no core file, and not dumpable: its memory and descriptors in ``/proc`` belong to root from then on, so that
   neither its own user nor the agent's can read or trace it;
3. no new privileges;
4. its pages stay out of swap, if the machine's limits allow it;
5. no environment, no working folder, no descriptor that it was not given.

What could not be done and must be is a refusal. Locking memory alone is best effort: the status says whether it
worked, and the launcher warns the user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from typing import Final

from affiant.errors import ConfigurationError
from affiant.secrets.broker.client.messages import BrokerStatus

__all__ = ["drop_privileges", "forget_surroundings", "harden"]

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38
_MCL_CURRENT: Final = 1
_MCL_FUTURE: Final = 2
_MCL_ONFAULT: Final = 4
_FIRST_FREE_DESCRIPTOR: Final = 3
_LAST_DESCRIPTOR: Final = 1 << 20


def forget_surroundings(*, keep: int) -> None:
    """Close every descriptor but the standard ones and ``keep``; no environment; the root folder."""
    os.environ.clear()
    os.chdir("/")
    os.umask(0o077)
    os.closerange(_FIRST_FREE_DESCRIPTOR, keep)
    os.closerange(keep + 1, _LAST_DESCRIPTOR)


def drop_privileges(*, uid: int, gid: int) -> None:
    """Become another user for good. Everything that is still to be imported must be imported by now.

    Raises:
        ``broker.configuration``: not started as root, asked to stay root, or the way back is open.
    """
    if os.geteuid() != 0 or uid <= 0 or gid <= 0:
        raise ConfigurationError(
            "only root can start a broker of another user, which is not root", code="broker.configuration"
        )
    _allow_locking()
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid) or os.getgroups():
        raise ConfigurationError("privileges could not be dropped", code="broker.configuration")


def harden() -> BrokerStatus:
    """The rest, as the final user. Returns what holds now.

    Raises:
        ``broker.configuration``: a core file or a dump would still be possible.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    dumpable = libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0
    if dumpable or resource.getrlimit(resource.RLIMIT_CORE) != (0, 0):
        raise ConfigurationError("the broker's memory could still be dumped", code="broker.configuration")
    return BrokerStatus(
        pid=os.getpid(), uid=os.geteuid(), dumpable=dumpable, memory_locked=_lock_memory(libc)
    )


def _allow_locking() -> None:
    """As root: let the user that follows lock all of its memory."""
    with contextlib.suppress(OSError, ValueError):  # then memory is not locked, and the status says so
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _lock_memory(libc: ctypes.CDLL) -> bool:
    """Lock all pages as they are used. Only without a limit: else a later allocation would fail.

    Returns what the kernel says of it afterwards, not what was asked for.
    """
    if os.geteuid() == 0:
        _allow_locking()
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    if hard != resource.RLIM_INFINITY or sys.platform != "linux":
        return False
    return bool(libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) == 0) and _locked_kib() > 0


def _locked_kib() -> int:
    """``VmLck`` of proc(5); 0 where it cannot be read."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            found = [line.split()[1] for line in status if line.startswith("VmLck:")]
    except (OSError, ValueError):
        return 0
    return int(found[0]) if found else 0
