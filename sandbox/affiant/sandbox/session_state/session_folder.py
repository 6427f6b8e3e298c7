"""A session's folder between its processes: taken back from the supervisor's user, its working files kept or removed.

The agent worked on copies. They go with the session, unless something that the user asked for is only there: then
they are kept beside the records, as ``files.kept``, for a later copy by the rules of
``copy_out``.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.sandbox.base.privileges import is_root
from affiant.sandbox.isolation.plan.leftover_record import FOLDER
from affiant.sandbox.processes.home import Home
from affiant.sandbox.session_state.shared_input import LAYER, materialise, unmount_input
from affiant.sandbox.supervisor.launch.lifecycle import STATES

__all__ = [
    "ARCHIVE",
    "BASE",
    "BUNDLE",
    "HOST_SOCKET",
    "KEPT",
    "RECORDS",
    "RESTRICTION_SOCKET",
    "SEALED",
    "WORKING",
    "keep_files",
    "reclaim_folder",
    "remove_files",
    "remove_kept",
]

BUNDLE: Final = "bundle.affiant.json"
"""The receipts, hidden values opened: what a user takes home."""
ARCHIVE: Final = "bundle.affiant.zip"
"""The same as a period archive, of a session with more records than a single bundle holds."""
SEALED: Final = "bundle.json"
"""What the supervisor fetched from the gateway when it had closed the session."""
RECORDS: Final = "records.ndjson"
"""The supervisor's own journal."""
RESTRICTION_SOCKET: Final = "narrow.sock"
"""Where a session whose command runs takes requests to restrict its profile."""
HOST_SOCKET: Final = "session.sock"
"""Where a session host takes its session's commands."""
BASE: Final = "base"
"""The input once more, for a diff; the agent never has it."""
WORKING: Final = "files"
"""The agent's files while the session runs."""
KEPT: Final = "files.kept"
"""The agent's files, if they could not be copied out."""


def reclaim_folder(folder: Path) -> None:
    """Take a session's folder back from the supervisor's user, once that is gone. Idempotent."""
    if is_root():
        os.chown(folder, os.getuid(), os.getgid(), follow_symlinks=False)


def keep_files(home: Home, session: str) -> Path:
    """Keep what the agent left, because it could not be copied out; where it is now."""
    kept = home.session(session) / KEPT
    materialise(home, home.session(session))
    (home.session(session) / WORKING).rename(kept)
    return kept


def remove_files(home: Home, session: str) -> None:
    """Remove the copies that the agent worked on and in, and the socket of a launcher that was killed."""
    with suppress(FileNotFoundError):
        reclaim_folder(home.session(session))
    folder = home.session(session)
    unmount_input(folder)
    working = (WORKING, BASE, LAYER, "merged", "rootfs", RESTRICTION_SOCKET, HOST_SOCKET)
    _remove(*(folder / name for name in working))
    if not (folder / RECORDS).exists():
        _remove(folder / STATES)
    for empty in (folder / FOLDER, folder):  # a session that never came to be leaves nothing in them
        with suppress(OSError):
            empty.rmdir()


def remove_kept(home: Home, session: str) -> None:
    """Remove what was kept, once it is copied out."""
    _remove(home.session(session) / KEPT)


def _remove(*paths: Path) -> None:
    """By rm(1): it follows no link and has no limit of depth, and the agent may have nested folders as deep as it
    liked."""
    command = ["rm", "-rf", "--one-file-system", "--", *(str(path) for path in paths)]
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
