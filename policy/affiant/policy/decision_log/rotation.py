"""Renames decision logs that have grown too large, and begins the next file. I/O boundary.

``decisions.jsonl`` becomes ``decisions.jsonl.000001``, later ones ``.000002`` and so on: a name, once given, stays,
and ``decisions.jsonl.* decisions.jsonl`` are in order. All are kept unless a number of them is asked for: whoever
deletes the oldest lets an agent that causes enough decisions delete what it did first.

Another tool may move the file too (logrotate, without ``copytruncate``): the writer continues in the moved file,
until the next one is begun under the name. No line is lost either way.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.policy.decision_log.file import MAX_BYTES, DecisionFileRefused, open_decision_file

__all__ = ["MAX_SIZE", "RotatingLog", "Rotation", "open_rotated", "rotated_logs"]

MAX_SIZE: Final = MAX_BYTES // 2
"""Bytes at which a log is set aside at the latest: as many may be written until it is."""
_NUMBER: Final = re.compile(r"[0-9]{6,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a log is set aside, and what becomes of it.

    Args:
        size: bytes from which it is, 1 to :data:`MAX_SIZE`.
        keep: how many that were set aside are kept, 1 or more; None: all.
    """

    size: int = 64 << 20
    keep: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.size <= MAX_SIZE or (self.keep is not None and self.keep < 1):
            raise DecisionFileRefused(
                "the rotation settings are wrong",
                expected=f"a size of 1 to {MAX_SIZE} bytes, and 1 or more to keep",
                found=f"{self.size}, {self.keep}",
            )


def rotated_logs(path: Path) -> tuple[Path, ...]:
    """The logs that were set aside, the oldest first.

    Raises:
        DecisionFileRefused: the folder cannot be listed.
    """
    found = {}
    try:
        with os.scandir(path.parent) as entries:
            for entry in entries:
                base, _, number = entry.name.rpartition(".")
                if base == path.name and _NUMBER.fullmatch(number) and entry.is_file(follow_symlinks=False):
                    found[int(number)] = path.parent / entry.name
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise DecisionFileRefused(
            "the folder of the decision log cannot be listed", where=str(path.parent), found=error.strerror
        ) from error
    return tuple(found[number] for number in sorted(found))


def open_rotated(path: Path, rotation: Rotation) -> int:
    """As ``open_decision_file``; what has grown is set aside first.

    Raises:
        DecisionFileRefused: as there, or it cannot be set aside.
    """
    descriptor = open_decision_file(path)
    if os.fstat(descriptor).st_size < rotation.size:
        return descriptor
    try:  # still locked, so that no other process does
        _set_aside(path)
        _drop(path, rotation)
        return open_decision_file(path)
    finally:
        os.close(descriptor)


class RotatingLog:
    """The log of a process that writes for long, as its launcher sees it. Owns the descriptor."""

    def __init__(self, path: Path, rotation: Rotation) -> None:
        """Open the log.

        Raises:
            DecisionFileRefused: as :func:`open_rotated`.
        """
        self._path = path
        self._rotation = rotation
        self.descriptor = open_rotated(path, rotation)

    def due(self) -> bool:
        """Whether the next file is to be begun: this one has grown, or was moved away."""
        return os.fstat(self.descriptor).st_size >= self._rotation.size or not self._in_place()

    def begin(self) -> int:
        """A descriptor of the next file, the caller's to close; lines still go to the one before.

        Raises:
            DecisionFileRefused: it cannot be. Nothing is lost, and it may be tried again.
        """
        if self._in_place():
            _set_aside(self._path)
        return open_decision_file(self._path)

    def follow(self, descriptor: int) -> None:
        """The next file is written: forget the one before, and drop what is not kept.

        Raises:
            DecisionFileRefused: what is not kept cannot be deleted.
        """
        before, self.descriptor = self.descriptor, descriptor
        os.close(before)
        _drop(self._path, self._rotation)

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _in_place(self) -> bool:
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(self.descriptor))


def _set_aside(path: Path) -> None:
    """Give the log its number. The caller holds the log's lock, so that no other process gives the same one."""
    last = max((int(each.name.rpartition(".")[2]) for each in rotated_logs(path)), default=0)
    to = path.with_name(f"{path.name}.{last + 1:06}")
    try:
        if os.path.lexists(to):  # no file, or it would have been counted
            raise FileExistsError(f"{to.name} is something else")
        path.rename(to)
    except OSError as error:
        raise DecisionFileRefused(
            "the decision log cannot be set aside", where=str(path), found=error.strerror or str(error)
        ) from error


def _drop(path: Path, rotation: Rotation) -> None:
    if rotation.keep is None:
        return
    for each in rotated_logs(path)[: -rotation.keep]:
        try:
            each.unlink(missing_ok=True)
        except OSError as error:
            raise DecisionFileRefused(
                "an old decision log cannot be deleted", where=str(each), found=error.strerror
            ) from error
