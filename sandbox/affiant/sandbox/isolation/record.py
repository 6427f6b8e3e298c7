"""What a runner leaves in the session's folder so that somebody else can clean up after it.

``isolation/record.json``: the runner, the process that owns it and the enclosure's first process, each by pid
and start time, because a pid alone is reused. Written before the first namespace is made, removed at the end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.canonical import JSONError, canonical, parse_object
from affiant.sandbox.isolation.linux import process_start_time

__all__ = ["FOLDER", "ProcessName", "RunnerRecord", "read_record", "remove_record", "write_record"]

FOLDER: Final = "isolation"
"""The runner's own folder in the session's."""

_NAME: Final = "record.json"
_LIMIT: Final = 4096


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process, named so that no later one is mistaken for it."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessName | None:
        """The process ``pid``; None: there is none."""
        started = process_start_time(pid)
        return None if started is None else cls(pid, started)

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return process_start_time(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class RunnerRecord:
    """The processes of one runner. ``init`` is None until the enclosure stands."""

    runner: ProcessName
    owner: ProcessName
    init: ProcessName | None = None


def write_record(session_dir: Path, record: RunnerRecord) -> None:
    """Replace the record in one step."""
    folder = session_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    draft = folder / f"{_NAME}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(canonical({name: _members(getattr(record, name)) for name in ("runner", "owner", "init")}))
    draft.replace(folder / _NAME)


def read_record(session_dir: Path) -> RunnerRecord | None:
    """The record in ``session_dir``; None: there is none, or what is there is no record."""
    try:
        descriptor = os.open(session_dir / FOLDER / _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            members = parse_object(file.read(_LIMIT + 1), limit=_LIMIT)
    except (FileNotFoundError, NotADirectoryError, JSONError):
        return None
    runner, owner = _process(members.get("runner")), _process(members.get("owner"))
    return (
        None
        if runner is None or owner is None
        else RunnerRecord(runner, owner, _process(members.get("init")))
    )


def remove_record(session_dir: Path) -> None:
    """The runner has cleaned up after itself. Idempotent."""
    (session_dir / FOLDER / _NAME).unlink(missing_ok=True)


def _members(process: ProcessName | None) -> Mapping[str, object] | None:
    return None if process is None else {"pid": process.pid, "started": process.started}


def _process(value: object) -> ProcessName | None:
    if not isinstance(value, dict):
        return None
    pid, started = value.get("pid"), value.get("started")
    if isinstance(pid, int) and isinstance(started, int) and pid > 1:
        return ProcessName(pid, started)
    return None
