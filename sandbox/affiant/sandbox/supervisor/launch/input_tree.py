"""Is what the agent will find the input that the activation names, and nothing beside it?

The launcher copies the input into the session's folder before the supervisor starts. Here, before privileges are
given up and before the sandbox exists, the copy is read again: below ``files`` there is a chain of single
directories (the place that the profile lists) that leads to exactly one tree, and that tree's digest is the
activation's ``inp``. A session without an input finds nothing there at all.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from affiant.errors import NotAuthenticError
from affiant.sandbox.workspace.tree import tree_digest
from affiant.sandbox.workspace.walk import read_tree

__all__ = ["check_input"]

_FILES: Final = "files"
_MAX_DEPTH: Final = 16


def check_input(session_dir: Path, digest: str | None) -> None:
    """Return if the session's files are exactly the input with ``digest`` (``sha256:`` name), or none.

    Raises:
        ``session.provision_mismatch``: another tree, or anything beside it.
    """
    place = session_dir / _FILES
    if digest is None:
        if os.path.lexists(place):
            raise NotAuthenticError(
                "there are files although the activation names no input", code="session.provision_mismatch"
            )
        return
    for _ in range(_MAX_DEPTH):
        inner = _only_directory(place)
        if inner is None:
            break
        if tree_digest(read_tree(inner)) == digest:
            return
        place = inner
    raise NotAuthenticError(
        "the session's files are not the input that the activation names",
        expected=digest,
        code="session.provision_mismatch",
    )


def _only_directory(place: Path) -> Path | None:
    """The one directory in ``place`` if there is nothing else in it; no link is followed."""
    try:
        names = os.listdir(place)
        found = place / names[0] if len(names) == 1 else None
        if found is None or not stat.S_ISDIR(os.lstat(found).st_mode):
            return None
    except OSError as error:
        raise NotAuthenticError(
            "the session's files cannot be read", found=error.strerror, code="session.provision_mismatch"
        ) from error
    return found
