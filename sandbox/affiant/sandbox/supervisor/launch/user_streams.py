"""The user's own descriptors: shared with other programs, so waited on by threads and never changed.

Making them non-blocking would change them for the user's shell as well. So a thread waits with poll(2), and writes no
more at a time than a pipe takes at once. A descriptor is closed only when no thread uses it any more: its number
could otherwise be another file's by the time of the next write.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from typing import Final

__all__ = ["END_OF_INPUT", "MOST_CELLS", "POLL_MS", "UserOutput", "UserStreams", "feed_input"]

_ATOMIC: Final = 4096
"""What poll(2) promises that a pipe takes at once (PIPE_BUF)."""

POLL_MS: Final = 100
"""How long a thread waits before it looks whether it is still wanted."""
_FULL_S: Final = 0.005

MOST_CELLS: Final = 4096
"""Rows, and columns, of a command's terminal at most."""

END_OF_INPUT: Final = b"\x04"
"""What ends the input of a program that reads from a terminal (termios(3), VEOF)."""


class UserOutput:
    """Where one of the command's outputs goes. Owns the descriptor."""

    __slots__ = ("_descriptor", "_lock", "gone")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.gone = False
        """Whether the user has closed it: nothing more will be read."""
        self._lock = threading.Lock()

    def write(self, data: bytes, over: threading.Event) -> None:
        """Write as the user takes it; blocks. A user who has closed it, or ``over``, ends the writing early."""
        with self._lock:
            if self._descriptor < 0 or not data:
                return
            try:
                _push(self._descriptor, data, over)
            except OSError:
                self.gone = True

    def close(self) -> None:
        """Close it, once nothing writes; blocks for a moment."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class UserStreams:
    """The user's three descriptors; owned here. ``stdin`` None: the command reads nothing."""

    __slots__ = ("stderr", "stdin", "stdout")

    def __init__(self, stdin: int | None, stdout: int, stderr: int) -> None:
        self.stdin = stdin
        self.stdout = UserOutput(stdout)
        self.stderr = UserOutput(stderr)

    def take_stdin(self) -> int | None:
        """The input's descriptor, which is the caller's from now on."""
        descriptor, self.stdin = self.stdin, None
        return descriptor

    def close(self) -> None:
        """Close what is left of them; blocks for a moment."""
        stdin = self.take_stdin()
        if stdin is not None:
            os.close(stdin)
        self.stdout.close()
        self.stderr.close()


def feed_input(source: int, sink: int, over: threading.Event, last: bytes = b"") -> None:
    """Copy the user's input into the command's pipe until either ends, or ``over``. Blocks; owns both.

    Args:
        last: what is written where the user's input has ended.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    try:
        with suppress(OSError):  # the command has closed its input
            while not over.is_set():
                if poll.poll(POLL_MS):
                    data = os.read(source, _ATOMIC)
                    if not data:
                        _push(sink, last, over)
                        return
                    _push(sink, data, over)
    finally:
        os.close(source)
        os.close(sink)


def _push(sink: int, data: bytes, over: threading.Event) -> None:
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    view = memoryview(data)
    while view and not over.is_set():
        if poll.poll(POLL_MS):
            try:
                view = view[os.write(sink, view[:_ATOMIC]) :]
            except (
                BlockingIOError
            ):  # another program made it non-blocking, and a terminal promises less than a pipe
                over.wait(_FULL_S)
