"""What no agent is ever shown or lets us write over: the state folder, the secret store, the file of a Vault token, the
decision log (an agent that could write it could claim to a reviewer that much more was needed).

Two looks. Before anything starts, paths with all links resolved: a folder that is given to a session may not be one
of these places, hold one, or lie in one. While a folder is read, every entry by device and inode: a bind mount or a
second name (link(2)) of such a place has another path and the same inode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from affiant.errors import ConfigurationError
from affiant.policy.decision_log.rotation import rotated_logs
from affiant.sandbox.processes.home import Home
from affiant.sandbox.session.session_plan import SessionRequest

__all__ = ["private_inodes", "refuse_private", "refuse_private_output"]

_STATE = "affiant's own state folder"


def refuse_private(home: Home, request: SessionRequest) -> None:
    """Return if nothing that the session is given overlaps a private place.

    Raises:
        ``session.input_private``: it does.
    """
    given = (
        (request.input, "input"),
        (request.output, "output"),
        (request.output_diff, "output-diff"),
        (request.runtime, "runtime"),
        (request.rootfs, "rootfs"),
    )
    for folder, option in given:
        if folder is not None:
            for private, what in _places(home, request):
                _compare(folder, option, private, what)


def refuse_private_output(home: Home, output: Path) -> None:
    """Return if nothing that an agent made can land in the state folder.

    Raises:
        ``session.input_private``: ``output`` overlaps it.
    """
    _compare(output, "output", home.path, _STATE)


def private_inodes(home: Home, request: SessionRequest) -> frozenset[tuple[int, int]]:
    """Device and inode of every private place that exists, and of the files that hold keys in them."""
    found = set()
    for path in _kept_apart(home, request):
        try:
            facts = path.stat()
        except OSError:  # it does not exist, so it is nowhere else either
            continue
        found.add((facts.st_dev, facts.st_ino))
    return frozenset(found)


def _places(home: Home, request: SessionRequest) -> Iterator[tuple[Path, str]]:
    yield home.path, _STATE
    if request.secret_store is not None:
        yield request.secret_store, "the secret store"
    if request.vault is not None:
        yield request.vault.token_file, "the file of the Vault token"
    if request.decisions is not None:
        yield request.decisions, "the decision log"


def _kept_apart(home: Home, request: SessionRequest) -> Iterator[Path]:
    for path, _ in _places(home, request):
        yield path
    folders = (home.platform, home.gateway, home.sessions, home.inputs, home.launches, home.secrets)
    yield from folders
    yield from _files(home.path)
    yield from _files(home.platform)
    yield from _files(home.secrets)
    if request.decisions is not None:
        yield from rotated_logs(request.decisions)
    if request.secret_store is not None:
        yield from _files(request.secret_store)


def _files(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as listing:
            yield from [Path(entry.path) for entry in listing if entry.is_file(follow_symlinks=False)]
    except OSError:
        return


def _compare(folder: Path, option: str, private: Path, what: str) -> None:
    ours, theirs = folder.resolve(), private.resolve()
    if ours == theirs:
        how = "is"
    elif theirs.is_relative_to(ours):
        how = "holds"
    elif ours.is_relative_to(theirs):
        how = "lies in"
    else:
        return
    place = "--home (AFFIANT_HOME)" if what == _STATE else what
    raise ConfigurationError(
        f"the {option} {how} {what}, and no agent may reach that",
        where=str(folder),
        found=str(theirs),
        hint=f"Give --{option} another folder, or have {place} elsewhere",
        code="session.input_private",
    )
