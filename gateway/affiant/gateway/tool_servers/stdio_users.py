"""Whom processes of tool servers run as, where root starts them: each a user whom no other process is.

Processes of one user read each other's environment and memory, and signal each other, whatever groups and sessions
they are in: two servers, or two sessions at one server, must never be the same user at the same time. Nor must what one
leaves behind: a user is lent only when nothing runs as that user any more. Several gateways of one machine share the
users by locks in a folder of root's. Without root there is one user only, and bubblewrap keeps processes apart.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
from collections import deque
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.base.privileges import is_root

__all__ = ["ToolUsers"]

_FIRST: Final = 60706
"""User and group, and those after it: 60706 to 61183 are unused (systemd, "Users, Groups, UIDs and GIDs"). A
process that runs as one of them is ended."""
_MAX_USERS: Final = 256
_LOCKS: Final = Path("/run/affiant-tool-users")
_TRIES: Final = 5


class ToolUsers:
    """The users, of whom each is lent to one process at a time.

    Raises:
        ``gateway.settings``: the folder of locks cannot be made, or others may write to it.
    """

    def __init__(self) -> None:
        self._free = deque(range(_FIRST, _FIRST + _MAX_USERS))
        self._locks: dict[int, int] = {}
        if is_root():
            _make_locks(_LOCKS)

    async def take(self) -> int | None:
        """A user whom nothing runs as, the one given back longest ago; None: all are taken."""
        for _ in range(len(self._free)):
            user = self._free.popleft()
            if not is_root() or (self._lock(user) and await asyncio.to_thread(_end_all_of, user)):
                return user
            self._let_go(user)
        return None

    async def give_back(self, user: int) -> None:
        """End whatever still runs as ``user``, who may then be taken again."""
        if is_root():
            await asyncio.to_thread(_end_all_of, user)
        self._let_go(user)

    def _lock(self, user: int) -> bool:
        """Whether no other gateway of this machine has lent that user."""
        try:
            descriptor = os.open(
                _LOCKS / str(user), os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError:
            return False
        self._locks[user] = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _let_go(self, user: int) -> None:
        descriptor = self._locks.pop(user, None)
        if descriptor is not None:
            os.close(descriptor)
        self._free.append(user)


def _make_locks(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise ConfigurationError(
            "the users of tool servers cannot be locked",
            where=str(folder),
            found=error.strerror,
            code="gateway.settings",
        ) from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigurationError(
            "others can reach the locks of tool servers' users",
            where=str(folder),
            expected="a folder of root's alone, mode 0700",
            code="gateway.settings",
        )


def _end_all_of(user: int) -> bool:
    """Kill all processes of a user at once (kill(2), pid -1): it finds those that left their process group.

    Returns:
        Whether that is done. What is hostile may kill the one that kills.
    """
    for _ in range(_TRIES):
        try:
            done = subprocess.run(
                ("/bin/sh", "-c", "kill -KILL -1"),
                user=user,
                group=user,
                extra_groups=(),
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except OSError:  # no process or descriptor is left
            return False
        if done.returncode >= 0:  # 1: there was none
            return True
    return False
