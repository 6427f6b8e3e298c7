"""What a runner leaves in the session's folder so that another process can clean up after it.

``isolation/record.json``: the runner, the process that owns it and the enclosure's first process, each by pid
and start time, because a pid alone is reused; and the sandbox's memory cgroup, which alone outlives its processes.
Written before the first namespace is made, removed at the end.

Its reader kills processes by it, perhaps as root, in a folder that others may write to. So no link is
followed on the way, and a record that does not belong to the reader is none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.sandbox.isolation.plan.linux import process_start_time

__all__ = [
    "FOLDER",
    "ProcessName",
    "RunnerRecord",
    "read_record",
    "remove_record",
    "write_file",
    "write_record",
]

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

    @classmethod
    def from_json(cls, value: object) -> ProcessName | None:
        """The process that :meth:`to_json` named; None: it names none."""
        match value:
            case {"pid": int(pid), "started": int(started)} if pid > 1:
                return cls(pid, started)
            case _:
                return None

    def to_json(self) -> Mapping[str, object]:
        """Its members."""
        return {"pid": self.pid, "started": self.started}

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return process_start_time(self.pid) == self.started

    def kill(self, *, group: bool = False) -> bool:
        """SIGKILL to this very process, never to a later one of its number; whether it was there.

        Args:
            group: its process group too.
        """
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                if self.alive():  # asked after the handle was taken: it names this process for good
                    if group:
                        with suppress(ProcessLookupError, PermissionError):
                            os.killpg(self.pid, signal.SIGKILL)
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return True
            finally:
                os.close(handle)
        return False


@dataclass(frozen=True, slots=True)
class RunnerRecord:
    """The processes of one runner. ``init`` and ``memory`` are None until the enclosure is made."""

    runner: ProcessName
    owner: ProcessName
    init: ProcessName | None = None
    memory: str | None = None
    """Path of the memory cgroup; None: it has none."""


def write_record(session_dir: Path, record: RunnerRecord) -> None:
    """Replace the record in one step."""
    processes = {"runner": record.runner, "owner": record.owner, "init": record.init}
    named = {name: None if each is None else each.to_json() for name, each in processes.items()}
    write_file(session_dir, _NAME, canonical({**named, "memory": record.memory}))


def write_file(session_dir: Path, name: str, content: bytes) -> None:
    """Write a file into the runner's folder, which is made if it is missing, in one step."""
    draft = f"{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _folder(session_dir, make=True) as folder:
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def read_record(session_dir: Path) -> RunnerRecord | None:
    """The record in ``session_dir``; None: there is none, or what is there is none of ours."""
    try:
        with _folder(session_dir, make=False) as folder:
            descriptor = os.open(
                _NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
            )
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_uid != os.geteuid():
                return None
            members = parse_object(file.read(_LIMIT + 1), limit=_LIMIT)
    except (OSError, JSONError):
        return None
    runner, owner, init = (ProcessName.from_json(members.get(name)) for name in ("runner", "owner", "init"))
    memory = members.get("memory")
    if runner is None or owner is None:
        return None
    return RunnerRecord(runner, owner, init, memory if isinstance(memory, str) else None)


def remove_record(session_dir: Path) -> None:
    """The runner has cleaned up after itself. Idempotent."""
    with suppress(FileNotFoundError), _folder(session_dir, make=False) as folder:
        os.unlink(_NAME, dir_fd=folder)


@contextmanager
def _folder(session_dir: Path, *, make: bool) -> Iterator[int]:
    """A descriptor of the runner's folder, reached without following a link below ``session_dir``."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    session = os.open(session_dir, flags)
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=session)
        folder = os.open(FOLDER, flags, dir_fd=session)
    finally:
        os.close(session)
    try:
        yield folder
    finally:
        os.close(folder)
