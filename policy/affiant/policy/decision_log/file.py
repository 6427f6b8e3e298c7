"""Opens the file of a decision log and appends lines to it. I/O boundary.

Two halves, because they are two processes. The launcher opens the file with its own rights, looks at it and locks it
(:func:`open_decision_file`); the process that decides gets the descriptor and nothing else (:class:`DecisionFile`), so
that it needs no way to any folder. A line is in the file before the decided action happens. One that cannot be written
whole is taken back, and from then on nothing is appended: every decision after it is refused (negative test L5).

The log is for reviewers, and no evidence: it is not synchronised to the disk line by line, and a machine that loses
power may lose its end. Receipts are the evidence.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError, StateError

__all__ = ["MAX_BYTES", "DecisionFile", "DecisionFileRefused", "DecisionsUnavailable", "open_decision_file"]

MAX_BYTES: Final = 256 << 20
"""Of one file, with what was in it before. One that reaches it was not set aside in time (``rotation``): a
mistake, or an attack."""


_CAREFUL: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DecisionFileRefused(ConfigurationError):
    """The file of a decision log is not one that may be appended to."""

    code = "decisions.file"


class DecisionsUnavailable(StateError):
    """A decision cannot be written to the log that was asked for, so what it is about does not happen."""

    code = "decisions.unavailable"


def open_decision_file(path: Path) -> int:
    """A locked descriptor that appends to ``path``, which is made if it is not there; the caller's to close.

    Raises:
        DecisionFileRefused: it is no regular file of this user's alone, does not end with a whole line, is in use, or
            the machine does not let us.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _CAREFUL
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise DecisionFileRefused(
            "cannot open the decision log", where=str(path), found=error.strerror
        ) from error
    try:
        _check(descriptor, path)
        _check_end(descriptor, path)
    except BaseException:  # raised again
        os.close(descriptor)
        raise
    return descriptor


def _check(descriptor: int, path: Path) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise DecisionFileRefused("the decision log is not a regular file", where=str(path))
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or status.st_nlink != 1:
        raise DecisionFileRefused(
            "others can reach the decision log",
            where=str(path),
            expected="a file that only this user can access, mode 0600, with one link",
            found=f"user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}, {status.st_nlink} names",
        )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DecisionFileRefused(
            "another process writes this decision log", where=str(path), hint="Give each its own file"
        ) from error


def _check_end(descriptor: int, path: Path) -> None:
    """The last line is whole. Read through a descriptor of its own: the appending process may lack permission to
    read.
    """
    try:
        reading = os.open(path, os.O_RDONLY | _CAREFUL)
    except OSError as error:
        raise DecisionFileRefused("cannot read the decision log", where=str(path)) from error
    try:
        if not os.path.sameopenfile(descriptor, reading):
            raise DecisionFileRefused("the decision log was replaced just now", where=str(path))
        size = os.fstat(reading).st_size
        whole = size == 0 or os.pread(reading, 1, size - 1) == b"\n"
    finally:
        os.close(reading)
    if not whole:
        raise DecisionFileRefused(
            "the decision log does not end with a whole line",
            where=str(path),
            hint="Name another file; take the last line out of this one before it is read",
        )


class DecisionFile:
    """Appends lines to a descriptor that :func:`open_decision_file` made, and owns it.

    Args:
        most: bytes that the file may have.
    """

    def __init__(self, descriptor: int, *, most: int = MAX_BYTES) -> None:
        self._descriptor = descriptor
        self._most = most
        self._size = os.fstat(descriptor).st_size
        self._failed = False

    def append(self, line: bytes) -> None:
        """Write one line, whole.

        Raises:
            DecisionsUnavailable: it is not in the file; nor is any after it.
        """
        if self._failed:
            raise DecisionsUnavailable("the decision log has failed")
        if self._size + len(line) > self._most:
            self._failed = True
            raise DecisionsUnavailable("the decision log is full", expected=f"at most {self._most} bytes")
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self._failed = True
            self._take_back(len(line) - len(left))
            raise DecisionsUnavailable(
                "the decision log cannot be written",
                found=error.strerror,
                hint="See to the disk that holds it",
            ) from error
        self._size += len(line)

    def follow(self, descriptor: int) -> None:
        """Append to another file from now on, and own its descriptor.

        Raises:
            DecisionsUnavailable: the log has failed, and stays so: it would go on after a hole. Nothing is owned.
        """
        if self._failed:
            raise DecisionsUnavailable("the decision log has failed")
        size = os.fstat(descriptor).st_size
        before, self._descriptor, self._size = self._descriptor, descriptor, size
        os.close(before)

    def close(self) -> None:
        """Close the file; later appends fail. Idempotent."""
        self._failed = True
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _take_back(self, written: int) -> None:
        """Leave no part of a line, if the disk lets us; if not, the next process that opens the file gets an error.

        The part is at the file's end, wherever that is: another process may have truncated the file (logrotate's
        ``copytruncate``).
        """
        with suppress(OSError):
            os.ftruncate(self._descriptor, max(os.fstat(self._descriptor).st_size - written, 0))
