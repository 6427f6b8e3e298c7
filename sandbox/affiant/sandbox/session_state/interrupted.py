"""What the next command does about sessions whose launcher was killed: end, tidy up, gather, and say so.

For each, under a lock of its own so that two commands do not do it at once and none waits for another's:

1. what still runs is ended, within five seconds (``launch_records``);
2. the agent's working files are removed, as with every session; if changes were to be copied out and the agent had
   begun, its files are kept instead, because they are the only copy of what was asked for. If they cannot be kept,
   nothing is removed, and the record of the launch stays for the next command;
3. the receipts are gathered if that needs no gateway to be started: the supervisor has closed the session and left
them,
   or a gateway of this state folder runs (``recovery``; else ``affiant session recover``);
4. a note of how it ended replaces the record of its launch.

Nothing of the user's own is touched: input and output folders are no part of a session's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from affiant.errors import AffiantError, StateError
from affiant.sandbox.processes.home import Home, lock
from affiant.sandbox.processes.launch_records import Launch, end_leftovers, launch_record
from affiant.sandbox.processes.session_note import SessionNote, SessionState, read_note, write_note
from affiant.sandbox.session_state.bundle_out import read_spooled
from affiant.sandbox.session_state.recovery import Gathered, gather_now
from affiant.sandbox.session_state.session_folder import RECORDS, reclaim_folder, settle_files
from affiant.sandbox.supervisor.launch.lifecycle import note_killed

__all__ = ["InterruptedSession", "reap_leftovers"]

_GATHERED_WITHIN_S: Final = 60.0
"""A command that only tidies up waits no longer for one session's archive."""


@dataclass(frozen=True, slots=True)
class InterruptedSession:
    """One session whose launcher was killed."""

    session: str
    text: str
    """One line: how it ended, where its receipts are, and what was not done."""


def reap_leftovers(home: Home) -> tuple[InterruptedSession, ...]:
    """End and tidy up what killed launchers left; what cannot be tidied up is said, and tried again next time.

    A session that another command tidies up now is left to that command.
    """
    with lock(home.path / "reap.lock"):
        leftovers = end_leftovers(home)
    found = []
    for launch in leftovers:
        with _alone(home, launch.session) as alone:
            if alone:
                try:
                    text = _settled(home, launch)
                    launch.remove(home)
                except OSError as error:
                    text = f"session {launch.session} was interrupted, and cannot be tidied up: {error}"
                found.append(InterruptedSession(launch.session, text))
    return tuple(found)


@contextmanager
def _alone(home: Home, session: str) -> Iterator[bool]:
    """Whether this command is the one that tidies the session up, for the length of the block."""
    path = home.launches / f"{session}.lock"
    with ExitStack() as held:
        try:
            held.enter_context(lock(path, wait=False))
        except StateError:
            yield False
            return
        yield launch_record(home, session).exists()
        if not launch_record(
            home, session
        ).exists():  # one that waits with the removed file finds no record either
            path.unlink(missing_ok=True)


def _settled(home: Home, launch: Launch) -> str:
    folder = home.session(launch.session)
    named = f"session {launch.session}" + (f" (agent {launch.asked.agent})" if launch.asked else "")
    if not folder.is_dir():
        return f"{named} was interrupted before it began: its launcher was killed"
    reclaim_folder(folder)
    kept = settle_files(home, launch)
    if not (folder / RECORDS).exists():
        return f"{named} was interrupted before its agent ran: its launcher was killed"
    left = read_note(folder)
    if left is not None:  # its launcher ended it in order, except for its files
        write_note(home, replace(left, kept=kept))
        return f"{named} is tidied up{_files(replace(left, kept=kept))}"
    note_killed(folder, at=datetime.now(UTC))
    gathered = gather_now(home, launch.session, within_s=_GATHERED_WITHIN_S)
    closed = gathered is not None and gathered.in_order
    note = SessionNote(
        session=launch.session,
        state=SessionState.INTERRUPTED if closed else SessionState.LOST,
        asked=launch.asked,
        ended=int(datetime.now(UTC).timestamp()),
        kept=kept,
    )
    write_note(home, note)
    return f"{named} {_how(closed=closed)}; {_where(home, launch.session, gathered)}{_files(note)}"


def _how(*, closed: bool) -> str:
    if closed:
        return "was interrupted: its launcher was killed, its supervisor ended the agent and closed it"
    return "was lost: its launcher was killed, and it was not closed"


def _where(home: Home, session: str, gathered: Gathered | None) -> str:
    if gathered is not None:
        return f"receipts in {gathered.path}"
    place = home.session(session) / RECORDS
    try:
        signed = f"{len(read_spooled(place))} signed records"
    except AffiantError:  # the folder was the supervisor's while the session ran
        signed = "no readable records"
    return f"{signed} in {place}, gather its receipts with: affiant session recover {session}"


def _files(note: SessionNote) -> str:
    if not note.kept or note.asked is None:
        return ""
    take = f"affiant session recover {note.session} --output DIR"
    return f". Its changes were not copied to {note.asked.output}; its files are kept, take them with: {take}"
