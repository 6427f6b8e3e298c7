"""Removes what an ended session has left in the state folder, never the only copy of a record or of a file."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from affiant.errors import StateError
from affiant.sandbox.detached.kept_output import remove_output
from affiant.sandbox.processes.home import Home, lock
from affiant.sandbox.processes.launch_records import launch_record
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session_state.interrupted import reap_leftovers
from affiant.sandbox.session_state.session_listing import SessionEntry, find_session
from affiant.sandbox.session_state.shared_input import release_input

__all__ = ["remove_ended"]


def remove_ended(home: Home, name: str, require_copy: Callable[[SessionEntry], None]) -> tuple[str, int]:
    """Remove the session; its id, and how many bytes its kept output was. First, what killed launchers left is ended
    and tidied up, which keeps files that are only there.

    Args:
        require_copy: returns once the session's receipts are elsewhere too, or raises.

    Raises:
        ``session.running``: it has not ended. ``session.only_copy``: its records or files may be nowhere else.
        ``session.not_here``: there is none.
    """
    reap_leftovers(home)
    with lock(home.path / "reap.lock"):
        entry = find_session(home, name)
        session = entry.note.session
        _require_whole(home, entry)
        require_copy(entry)
        release_input(home, session)
        freed = remove_output(home, session)
        shutil.rmtree(home.session(session))
    return session, freed


def _require_whole(home: Home, entry: SessionEntry) -> None:
    session = entry.note.session
    if entry.note.state is SessionState.RUNNING:
        raise StateError(
            "the session runs", found=session, hint=f"affiant session stop {session}", code="session.running"
        )
    if launch_record(home, session).exists():
        raise StateError(
            "the session's folder was not tidied up yet, and may hold the only copy of the agent's files",
            found=session,
            hint="This tries again and says what it found: affiant session list",
            code="session.only_copy",
        )
    if entry.bundle is None or not entry.noted or not entry.note.state.in_order:
        raise StateError(
            "the session's folder may hold the only copy of its records",
            found=entry.note.state.value if entry.noted else "no note of how it ended",
            hint=f"Gather them first: affiant session recover {session} --bundle FILE",
            code="session.only_copy",
        )
    if entry.kept is not None:
        raise StateError(
            "the session's folder holds the only copy of the agent's files",
            where=str(entry.kept),
            hint=f"Copy them first: affiant session recover {session} --output DIR",
            code="session.only_copy",
        )
