"""Reads a profile file, and the floor beside it, from disk: the only module of this component with I/O.

A file that somebody else could have written is refused, not read: what it allows would be theirs to say.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from affiant.policy.load import floor_file, load_profiles
from affiant.policy.profile_set import ProfileSet
from affiant.policy.refusals import PolicyFileRefused, excerpt
from affiant.policy.strict_yaml import MAX_BYTES

__all__ = ["read_policy_bytes", "read_profiles"]


def read_profiles(path: Path) -> ProfileSet:
    """The profiles of the file at ``path``, with the floor that it names, from the same folder.

    Raises:
        PolicyFileRefused: a file is missing, unreadable, no regular file, somebody else's, or writable by all.
        MalformedError, ConfigurationError: as :func:`~affiant.policy.load.load_profiles`.
    """
    data = read_policy_bytes(path)
    floor = floor_file(data, source=path.name)
    floor_data = None if floor is None else read_policy_bytes(path.parent / floor)
    return load_profiles(data, source=path.name, floor=floor_data)


def read_policy_bytes(path: Path) -> bytes:
    """The bytes of one policy file; one byte more than the limit where there are too many.

    Raises:
        PolicyFileRefused: as :func:`read_profiles`.
    """
    name = excerpt(path.name)
    try:
        with open(path, "rb", opener=_open) as file:
            _check_owner(os.fstat(file.fileno()), name)
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyFileRefused(f"cannot read {name}: {error.strerror}") from error


def _open(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _check_owner(status: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PolicyFileRefused(f"{name} is no regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise PolicyFileRefused(
            f"{name} belongs to another user",
            expected=f"root or user {os.geteuid()}",
            found=f"user {status.st_uid}",
            hint="Take it over with chown once you have read it",
        )
    if status.st_mode & stat.S_IWOTH:
        raise PolicyFileRefused(f"{name} can be written by everybody", hint="chmod o-w")
