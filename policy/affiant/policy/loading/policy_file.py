"""Reads a profile file and the baseline policy beside it from disk. I/O boundary of this package.

An enforcer must not read a file that another user could have written: that user could allow anything. A reviewer may
read any file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from affiant.errors import AffiantError, ConfigurationError
from affiant.policy.canonical.errors import excerpt
from affiant.policy.canonical.strict_yaml import MAX_BYTES
from affiant.policy.loading.all_errors import every_refusal
from affiant.policy.loading.baseline import BaselinePolicy
from affiant.policy.loading.inline_tests import check_tests
from affiant.policy.loading.load import (
    NO_BASELINE,
    HoldTests,
    agent_members,
    at_baseline_key,
    floor_file,
    load_baseline,
    load_profiles,
    read_agent,
    read_profile,
    read_top,
)
from affiant.policy.loading.profile_set import Profile, ProfileSet

__all__ = [
    "BaselineFile",
    "PolicyFile",
    "policy_owners",
    "read_agent_names",
    "read_baseline_file",
    "read_bounded",
    "read_one_profile",
    "read_policy_file",
    "read_profiles",
    "read_refusals",
]


@dataclass(frozen=True, slots=True)
class BaselineFile:
    """The baseline policy that a profile file names, as it was read."""

    path: Path
    data: bytes


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A profile file as it was read, once: its bytes, the profiles that they are, and the baseline policy beside it."""

    data: bytes
    profiles: ProfileSet
    floor: BaselineFile | None = None


def policy_owners(user: int, environ: Mapping[str, str]) -> frozenset[int]:
    """Users whose files ``user`` may enforce: root's, its own, and, for root, those of the user who called sudo.

    Args:
        environ: ``SUDO_UID`` counts for root alone, whose environment only root can set.
    """
    caller = environ.get("SUDO_UID", "") if user == 0 else ""
    return frozenset({0, user} | ({int(caller)} if caller.isascii() and caller.isdecimal() else set()))


def read_refusals(path: Path, *, floor: Path | None = None) -> tuple[AffiantError, ...]:
    """Every independent error of a file with any owner (``all_errors``); none if it loads.

    Args:
        floor: as :func:`read_policy_file`.

    Raises:
        ``policy.file``: as :func:`read_profiles`.
    """
    data = _read(path, None)
    try:
        floor_file(data, source=path.name)
    except AffiantError:  # among those to be reported
        return every_refusal(data, source=path.name)
    try:
        found = _baseline_of(path, data, floor, None)
    except AffiantError as error:
        if error.code == "policy.file":
            raise
        return (error,)
    if found is None:
        return every_refusal(data, source=path.name)
    return every_refusal(data, source=path.name, floor=found.data, floor_source=found.path.name)


def read_profiles(
    path: Path, *, floor: Path | None = None, hold_tests: HoldTests = check_tests
) -> ProfileSet:
    """The profiles of a file with any owner, for review only.

    Args:
        floor: as :func:`read_policy_file`.
        hold_tests: as ``load_profiles``.

    Raises:
        ``policy.file``: a file is missing, unreadable or no regular file.
        MalformedError, ConfigurationError: as ``load_profiles``.
    """
    return _policy_file(path, floor, None, hold_tests).profiles


def read_policy_file(path: Path, *, owners: frozenset[int] | None, floor: Path | None = None) -> PolicyFile:
    """The file at ``path``, with the baseline policy that it names, from the same folder, or that the caller names.

    Args:
        floor: the organisation's baseline policy. A file that names one itself must name the same.
        owners: user ids whose files are accepted (see :func:`policy_owners`), and only if no other user can write
            them. None: any owner, for review only.

    Raises:
        ``policy.file``: a file is missing, unreadable, not a regular file, another user's, or writable by all.
        MalformedError, ConfigurationError: as ``load_profiles``.
    """
    return _policy_file(path, floor, owners, check_tests)


def read_baseline_file(path: Path, *, owners: frozenset[int] | None) -> BaselinePolicy:
    """The baseline policy in the file at ``path``.

    Raises:
        ``policy.file``, MalformedError, ConfigurationError: as :func:`read_policy_file`.
    """
    return load_baseline(_read(path, owners), source=path.name)


def read_agent_names(path: Path) -> tuple[str, ...]:
    """The agents of a file with any owner; the profiles are not read.

    Raises:
        ``policy.file``: as :func:`read_profiles`.
        MalformedError: not YAML as we read it, or a name that no agent has.
    """
    top = read_top(_read(path, None), source=path.name)
    return tuple(read_agent(member)[0] for member in agent_members(top))


def read_one_profile(path: Path, agent: str, *, floor: Path | None = None) -> Profile:
    """One profile of a file with any owner, for review only; the others are not read, and its tests not tried.

    Args:
        floor: as :func:`read_policy_file`.

    Raises:
        ``policy.file``: as :func:`read_profiles`.
        ``policy.unknown_agent``: the file has no profile for ``agent``.
        MalformedError, ConfigurationError: as ``load_profiles``.
    """
    data = _read(path, None)
    found = _baseline_of(path, data, floor, None)
    denials = NO_BASELINE if found is None else load_baseline(found.data, source=found.path.name)
    for member in agent_members(read_top(data, source=path.name)):
        if member.key.text == agent:
            return read_profile(*read_agent(member), denials, lambda *_: None)
    raise ConfigurationError(f"no profile for the agent {excerpt(agent)}", code="policy.unknown_agent")


def read_bounded(path: Path) -> bytes:
    """The bytes of a YAML file with any owner; one byte more than its limit where there are too many.

    Raises:
        ``policy.file``: as :func:`read_profiles`.
    """
    return _read(path, None)


def _policy_file(
    path: Path, floor: Path | None, owners: frozenset[int] | None, hold_tests: HoldTests
) -> PolicyFile:
    data = _read(path, owners)
    found = _baseline_of(path, data, floor, owners)
    if found is None:
        profiles = load_profiles(data, source=path.name, hold_tests=hold_tests)
    else:
        profiles = load_profiles(
            data, source=path.name, floor=found.data, floor_source=found.path.name, hold_tests=hold_tests
        )
    return PolicyFile(data, profiles, found)


def _baseline_of(
    path: Path, data: bytes, floor: Path | None, owners: frozenset[int] | None
) -> BaselineFile | None:
    """The baseline policy of the file at ``path``: that which it names, or else ``floor``."""
    named = floor_file(data, source=path.name)
    own = (
        None
        if named is None
        else BaselineFile(path.parent / named, _read_baseline(path, data, named, owners))
    )
    if floor is None:
        return own
    if floor.name == path.name:  # places in errors name files without their folders
        raise ConfigurationError(
            "the baseline policy has the same file name as the profile file",
            code="policy.floor",
            found=excerpt(floor.name),
            hint="Rename one of the two",
        )
    given = BaselineFile(floor, _read(floor, owners))
    baseline = load_baseline(given.data, source=floor.name)
    if own is not None and load_baseline(own.data, source=own.path.name).digest != baseline.digest:
        with at_baseline_key(data, source=path.name):
            raise ConfigurationError(
                f"the file names another baseline policy than the one given, {excerpt(floor.name)}",
                code="policy.floor",
                found=excerpt(own.path.name),
                hint="Remove that line from the file, or give the same baseline policy",
            )
    return own or given


def _read_baseline(path: Path, data: bytes, floor: str, owners: frozenset[int] | None) -> bytes:
    """The baseline policy's bytes; an error has the place where ``data``, the file at ``path``, names it."""
    with at_baseline_key(data, source=path.name):
        return _read(path.parent / floor, owners)


def _read(path: Path, owners: frozenset[int] | None) -> bytes:
    """The bytes of one policy file; one byte more than the limit where there are too many."""
    name = excerpt(path.name or str(path))
    try:
        with open(path, "rb", opener=_open) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigurationError(f"{name} is not a regular file", code="policy.file")
            if owners is not None:
                _check_owner(status, name, owners)
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {name}: {error.strerror}", code="policy.file") from error


def _open(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _check_owner(status: os.stat_result, name: str, owners: frozenset[int]) -> None:
    if status.st_uid not in owners:
        raise ConfigurationError(
            f"{name} belongs to another user, who could change what it allows",
            code="policy.file",
            expected=" or ".join("root" if owner == 0 else f"user {owner}" for owner in sorted(owners)),
            found=f"user {status.st_uid}",
            hint="Read it, then run a copy of your own",
        )
    if status.st_mode & stat.S_IWOTH:
        raise ConfigurationError(f"{name} can be written by every user", code="policy.file", hint="chmod o-w")
