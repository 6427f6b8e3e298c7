"""Whether the trees that the agent will see are those that manifest and activation name.

The launcher copied the input below the session's ``files``. A chain of single directories (the place that the profile
lists) leads to exactly one tree there, whose digest is the activation's ``inp``. The prepared environment and the root
file system have the digests of the manifest. The supervisor asks before it extends RTMR3; the runner looks, because
it can read what belongs to the agent's user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from affiant.errors import NotAuthenticError
from affiant.sandbox.isolation.plan.plan import DirectoryRoot
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.workspace.tree import tree_digest
from affiant.sandbox.workspace.walk import read_tree, runtime_digest

__all__ = ["check_input", "check_trees"]

_FILES: Final = "files"
_MAX_DEPTH: Final = 16


def check_trees(
    settings: Settings, *, input_digest: str | None, runtime: str | None, rootfs: str | None
) -> None:
    """Return if all three are as named; None: there is none.

    Raises:
        ``session.provision_mismatch``: another tree.
    """
    given = settings.rootfs.path if isinstance(settings.rootfs, DirectoryRoot) else None
    for what, place, named in (("runtime", settings.runtime, runtime), ("root file system", given, rootfs)):
        found = None if place is None else runtime_digest(Path(place))
        if found != named:
            raise NotAuthenticError(
                f"the {what} is not the one that the manifest names",
                expected=named,
                found=found,
                code="session.provision_mismatch",
            )
    check_input(settings.session_dir, input_digest)


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
