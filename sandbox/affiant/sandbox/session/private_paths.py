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
from affiant.sandbox.session_acts.private_places import PrivatePlaces, overlap

__all__ = ["private_inodes", "private_places", "refuse_private", "refuse_private_output"]

_STATE = "affiant's own state folder"
_LARGE = frozenset({"inputs", "launches", "output", "sessions"})
"""Folders of the state folder with many entries, none of which is a key; what lies in them has a private path."""


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


def private_places(home: Home, request: SessionRequest) -> PrivatePlaces:
    """What a session's file calls may not read or write on this machine, as it is now: a rewritten file has another
    inode."""
    return PrivatePlaces(private_inodes(home, request), tuple(_places(home, request)))


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
    for path in _entries(home.path):
        yield path
        if path.name not in _LARGE:
            yield from _entries(path)
    if request.decisions is not None:
        yield from rotated_logs(request.decisions)
    if request.secret_store is not None:
        yield from _entries(request.secret_store)


def _entries(folder: Path) -> Iterator[Path]:
    """The files and folders in ``folder``, without links; none, where it is a file or cannot be read."""
    try:
        with os.scandir(folder) as listing:
            yield from [Path(entry.path) for entry in listing if not entry.is_symlink()]
    except OSError:
        return


def _compare(folder: Path, option: str, private: Path, what: str) -> None:
    how = overlap(folder, private)
    if how is None:
        return
    place = "--home (AFFIANT_HOME)" if what == _STATE else what
    raise ConfigurationError(
        f"the {option} {how} {what}, and no agent may reach that",
        where=str(folder),
        found=str(private.resolve()),
        hint=f"Give --{option} another folder, or have {place} elsewhere",
        code="session.input_private",
    )
