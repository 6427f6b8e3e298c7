"""Names of sessions: unique among those of one owner that run in a state folder, and matched as a whole.

There is no register of names. A launcher's record of its session holds the name, and ends with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError, StateError
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import Launch, live_launches

__all__ = ["asked_launch", "names_lock", "require_name", "running_session", "same_launch"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ID_LENGTH: Final = 22


def require_name(name: str) -> str:
    """``name``, if a session can have it.

    Raises:
        ``session.name``: other characters, too long, or as long as a session's id.
    """
    if not _NAME.fullmatch(name) or len(name) == _ID_LENGTH:
        raise ConfigurationError(
            "the session name is not valid",
            expected="1 to 63 of a-z 0-9 . _ -, the first a letter or a digit; not 22, as an id has",
            found=ascii(name[:80]),
            code="session.name",
        )
    return name


def names_lock(home: Home) -> Path:
    """What a session host holds from looking for a name until its launch record has it."""
    return home.path / "names.lock"


def asked_launch(home: Home, name: str | None, key: str | None, owner: str | None = None) -> Launch | None:
    """The session that a request for this name and key is about: see :func:`same_launch`; None: there is none."""
    return same_launch(live_launches(home), name, key, owner)


def same_launch(
    running: Iterable[Launch], name: str | None, key: str | None, owner: str | None = None
) -> Launch | None:
    """Of those that run, the owner's session of exactly this key, whatever its name; else the one of this name.

    A key has one session at most: a request that repeats it under another name is about that session too.
    """
    own = [launch for launch in running if launch.asked is not None and launch.asked.owner == owner]
    for value, of in ((key, "key"), (name, "name")):
        for launch in own:
            if value is not None and getattr(launch.asked, of) == value:
                return launch
    return None


def running_session(home: Home, name: str) -> str:
    """The id of the session that runs under this very name, or has this id.

    Names are those of this machine's user: a session that was created over HTTP is found by its id.

    Raises:
        ``session.not_open``: there is none.
    """
    for launch in live_launches(home):
        asked = launch.asked
        if name == launch.session or (asked is not None and asked.is_called(name)):
            return launch.session
    raise StateError(
        "no running session has this name",
        where=str(home.path),
        found=ascii(name[:80]),
        hint="See: affiant session ls",
        code="session.not_open",
    )
