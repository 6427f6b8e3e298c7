"""The sessions of a state folder, those that run and those that ended; read from it alone.

Where a session's processes still run, the record of its launch says so. Of the others there is a note
(``session_note``), a bundle, or at least the records that its supervisor signed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import Launch, live_launches
from affiant.sandbox.processes.session_note import SessionNote, SessionState, read_note
from affiant.sandbox.session_state.session_folder import ARCHIVE, BUNDLE, KEPT, RECORDS
from affiant.sandbox.session_state.shared_input import changes_of
from affiant.sandbox.supervisor.launch.lifecycle import Step, read_steps

__all__ = ["SessionEntry", "find_session", "is_session_id", "list_sessions"]

_OF_REQUEST: Final = ("agent", "gateway", "name", "output", "owner", "profile", "started")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{21}")


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session. ``bundle``, ``records`` and ``kept`` are None where there is no such file or folder. ``kept`` has
    the agent's files; of a shared input, the changes to it."""

    note: SessionNote
    bundle: Path | None
    records: Path | None
    kept: Path | None
    noted: bool = True
    """Whether there is a note; else the state is a guess."""
    steps: tuple[Step, ...] = ()
    """The transitions of its life cycle, as far as they were recorded."""

    def to_json(self) -> Mapping[str, object]:
        """The entry's members."""
        asked, files = self.note.asked, {"bundle": self.bundle, "kept": self.kept, "records": self.records}
        return {
            **{name: getattr(asked, name, None) for name in _OF_REQUEST},
            **{name: _shown(path) for name, path in files.items()},
            "code": self.note.code,
            "ended": self.note.ended,
            "exit_code": self.note.exit_code,
            "session": self.note.session,
            "state": self.note.state.value,
            "steps": [step.to_json() for step in self.steps],
        }


def is_session_id(text: str) -> bool:
    """Whether ``text`` has the form of a session's id, which no name has."""
    return _ID.fullmatch(text) is not None


def list_sessions(home: Home) -> tuple[SessionEntry, ...]:
    """Every session of ``home``, the last started first."""
    running = {launch.session: launch for launch in live_launches(home) if not launch.pooled}
    names = {path.name for path in home.sessions.iterdir() if _ID.fullmatch(path.name)} | set(running)
    entries = [entry for name in names if (entry := _entry(home, name, running)) is not None]
    return tuple(sorted(entries, key=_order, reverse=True))


def find_session(home: Home, session: str) -> SessionEntry:
    """The session with this id, or exactly this name: of several, the one that runs, else the last that was started.

    Names are those of this machine's user: a session that was created over HTTP is found by its id.

    Raises:
        ``session.not_here``: there is none.
    """
    running = {launch.session: launch for launch in live_launches(home)}
    entry = _entry(home, session, running) if _ID.fullmatch(session) else None
    if entry is None:
        entry = _named(home, session)
    if entry is None:
        raise ConfigurationError(
            "no such session in this state folder",
            where=str(home.path),
            found=ascii(session[:60]),
            hint="See: affiant session list",
            code="session.not_here",
        )
    return entry


def _named(home: Home, name: str) -> SessionEntry | None:
    named = [e for e in list_sessions(home) if e.note.asked is not None and e.note.asked.is_called(name)]
    named.sort(key=lambda entry: entry.note.state is not SessionState.RUNNING)
    return named[0] if named else None


def _entry(home: Home, session: str, running: Mapping[str, Launch]) -> SessionEntry | None:
    folder = home.session(session)
    archive, single, records, kept = (_existing(folder / name) for name in (ARCHIVE, BUNDLE, RECORDS, KEPT))
    bundle = single if archive is None else archive
    if kept is not None:
        kept = changes_of(home, session) or kept
    steps = read_steps(folder)
    if session in running:
        note = SessionNote(session=session, state=SessionState.RUNNING, asked=running[session].asked)
        return SessionEntry(note, bundle, records, kept, steps=steps)
    found = read_note(folder)
    if found is not None:
        return SessionEntry(found, bundle, records, kept, steps=steps)
    if bundle is None and records is None:  # it never came to be
        return None
    state = SessionState.LOST if bundle is None else SessionState.CLOSED
    note = SessionNote(session=session, state=state)
    return SessionEntry(note, bundle, records, kept, noted=False, steps=steps)


def _order(entry: SessionEntry) -> tuple[int, str]:
    return (0 if entry.note.asked is None else entry.note.asked.started, entry.note.session)


def _existing(path: Path) -> Path | None:
    try:
        path.lstat()
    except OSError:
        return None
    return path


def _shown(path: Path | None) -> str | None:
    return None if path is None else str(path)
