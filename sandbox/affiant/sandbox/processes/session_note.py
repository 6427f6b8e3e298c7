"""What is remembered of a session once its processes have ended: ``sessions/ID/session.json``.

``{"typ":"affiant-session/1", ...}``, written when it ended, by its launcher or by the next command after a launcher
that was killed. It is in a folder that belonged to the supervisor's user while the session ran, so it is written
only after the folder was taken back, and read without following a link. Nothing in it is evidence; receipts are.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import MalformedError
from affiant.sandbox.processes.home import Home, write_file

__all__ = ["Asked", "SessionNote", "SessionState", "asked_from_json", "read_note", "write_note"]

_TYP: Final = "affiant-session/1"
_NAME: Final = "session.json"
_LIMIT: Final = 64 * 1024


class SessionState(enum.Enum):
    """Whether a session runs, or how it ended."""

    RUNNING = "running"
    CLOSED = "closed"
    """By its supervisor, for its launcher."""
    INTERRUPTED = "interrupted"
    """Its launcher was killed; its supervisor closed it all the same."""
    LOST = "lost"
    """Ended without a signed close."""

    @property
    def in_order(self) -> bool:
        """Whether its supervisor closed it."""
        return self in {SessionState.CLOSED, SessionState.INTERRUPTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, as far as another process must know it to end the session.

    Args:
        agent, profile: which profile, and of which file. started: Unix seconds.
        gateway: the address of a gateway that the caller named; None: the state folder's own.
        output: where changes were to be copied. source: from where, below the session's folder.
        exclude: what is never copied out.
        name: of a session that is held by a session host. key: of the request to create it.
        owner: the caller who created it over HTTP; None: this machine's user.
        file: digest of the profile file's bytes.
    """

    agent: str
    profile: str
    started: int
    gateway: str | None = None
    output: str | None = None
    source: str | None = None
    exclude: tuple[str, ...] = ()
    name: str | None = None
    key: str | None = None
    owner: str | None = None
    file: str | None = None

    def is_called(self, name: str, owner: str | None = None) -> bool:
        """Whether the session has exactly this name among those of ``owner``: each owner has names of its own."""
        return (self.name, self.owner) == (name, owner)

    def to_json(self) -> Mapping[str, object]:
        """Its members."""
        return {**asdict(self), "exclude": list(self.exclude)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNote:
    """One session.

    Args:
        asked: None if its record did not say.
        ended: Unix seconds. exit_code: the command's, if it is known. code: why affiant ended it, a stable code.
        kept: whether files of the agent's were kept.
    """

    session: str
    state: SessionState
    asked: Asked | None = None
    ended: int | None = None
    exit_code: int | None = None
    code: str | None = None
    kept: bool = False

    def to_json(self) -> Mapping[str, object]:
        """The note's members."""
        asked = None if self.asked is None else self.asked.to_json()
        return {**asdict(self), "asked": asked, "state": self.state.value}


def write_note(home: Home, note: SessionNote) -> None:
    """Write ``note`` whole or not at all, into a folder that was taken back."""
    write_file(home.session(note.session) / _NAME, canonical({"typ": _TYP, **note.to_json()}))


def read_note(folder: Path) -> SessionNote | None:
    """The note in a session's ``folder``; None: there is none, or none of ours."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(folder / _NAME, flags), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
                return None
            members = parse_object(file.read(_LIMIT + 1), limit=_LIMIT)
    except (OSError, MalformedError):
        return None
    match members:
        case {"typ": "affiant-session/1", "session": str(session), "state": str(state), "kept": bool(kept)}:
            if session != folder.name or state not in {each.value for each in SessionState}:
                return None
            return SessionNote(
                session=session,
                state=SessionState(state),
                asked=asked_from_json(members.get("asked")),
                ended=_int(members.get("ended")),
                exit_code=_int(members.get("exit_code")),
                code=_text(members.get("code")),
                kept=kept,
            )
        case _:
            return None


def asked_from_json(value: object) -> Asked | None:
    """What :class:`Asked` says in JSON; None: nothing, or something else."""
    match value:
        case {
            "agent": str(agent),
            "profile": str(profile),
            "started": int(started),
            "exclude": list(exclude),
            **rest,
        }:
            return Asked(
                agent=agent,
                profile=profile,
                started=started,
                gateway=_text(rest.get("gateway")),
                output=_text(rest.get("output")),
                source=_text(rest.get("source")),
                exclude=tuple(str(path) for path in exclude),
                name=_text(rest.get("name")),
                key=_text(rest.get("key")),
                owner=_text(rest.get("owner")),
                file=_text(rest.get("file")),
            )
        case _:
            return None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
