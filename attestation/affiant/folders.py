"""Private folders: where a user's state is, and how a folder is made that no other user may enter."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["default_home", "make_private"]


def default_home() -> str:
    """The state folder where neither ``--home`` nor ``$AFFIANT_HOME`` is given: ``affiant`` in the XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return str(Path(state) / "affiant")


def make_private(folder: Path) -> None:
    """Make ``folder`` and whatever is missing above it, each 0700; what is there already stays as it is.

    ``Path.mkdir(parents=True)`` gives its mode to the last one only, so a state folder that came to be on the way
    could be entered by every user.

    Raises:
        OSError: one cannot be made.
    """
    missing = []
    for each in (folder, *folder.parents):
        if each.is_dir():
            break
        missing.append(each)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
