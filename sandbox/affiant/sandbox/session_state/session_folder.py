"""A session's folder between its processes: taken back from the supervisor's user, its working files kept or removed.

The agent worked on copies. They go with the session, unless something that the user asked for is only there: then
they are kept beside the records, as ``files.kept``, for a later copy by the rules of ``copy_out``. Of an input that is
shared, ``shared_input`` keeps the changes. Nothing is copied to be kept.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.sandbox.base.privileges import is_root
from affiant.sandbox.isolation.plan.leftover_record import FOLDER
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.session_state.shared_input import changes_of, release_input, unmount_input
from affiant.sandbox.supervisor.launch.lifecycle import STATES
from affiant.sandbox.workspace.input_store import remove_whole

__all__ = [
    "ARCHIVE",
    "BASE",
    "BUNDLE",
    "HOST_SOCKET",
    "KEPT",
    "RECORDS",
    "RESTRICTION_SOCKET",
    "SEALED",
    "keep_files",
    "reclaim_folder",
    "remove_files",
    "remove_kept",
    "settle_files",
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
KEPT: Final = "files.kept"
"""The agent's files, if they could not be copied out."""


def reclaim_folder(folder: Path) -> None:
    """Take a session's folder back from the supervisor's user, once that is gone. Idempotent."""
    if is_root():
        os.chown(folder, os.getuid(), os.getgid(), follow_symlinks=False)


def settle_files(home: Home, launch: Launch) -> bool:
    """Remove what the agent worked on, or keep it if it is the only copy of what was asked for; whether it was kept.

    Idempotent: a command that was killed amid this is followed by another.

    Raises:
        OSError: it cannot be kept, and nothing was removed.
    """
    kept = launch.only_copy and keep_files(home, launch.session) is not None
    remove_files(home, launch.session)
    return kept


def keep_files(home: Home, session: str) -> Path | None:
    """Keep what the agent left, because it could not be copied out; where it is now. None: it left nothing. Idempotent.

    Raises:
        OSError: it cannot be kept; it is where it was.
    """
    folder, changes = home.session(session), changes_of(home, session)
    unmount_input(home, session)
    try:
        (folder / "files").rename(folder / KEPT)
    except FileNotFoundError:  # an earlier command got as far, or the supervisor's user removed it
        if not os.path.lexists(folder / KEPT):
            if changes is None:
                return None
            (folder / KEPT).mkdir(mode=0o700)
    return changes or folder / KEPT


def remove_files(home: Home, session: str) -> None:
    """Remove what the agent worked on and in, and the socket of a launcher that was killed; not what was kept."""
    folder = home.session(session)
    with suppress(FileNotFoundError):
        reclaim_folder(folder)
    unmount_input(home, session)
    if not os.path.lexists(folder / KEPT):
        release_input(home, session)
    remove_whole(*(folder / name for name in ("files", BASE, "rootfs", RESTRICTION_SOCKET, HOST_SOCKET)))
    if not (folder / RECORDS).exists():
        remove_whole(folder / STATES)
    for empty in (folder / FOLDER, folder):  # a session that never came to be leaves nothing in them
        with suppress(OSError):
            empty.rmdir()


def remove_kept(home: Home, session: str) -> None:
    """Remove what was kept, once it is copied out."""
    release_input(home, session)
    remove_whole(home.session(session) / KEPT)
