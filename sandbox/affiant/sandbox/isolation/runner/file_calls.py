"""The calls on a session's files that are under way, each in a child of the runner."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan.errors import FrameError, SandboxFailed, SessionBusy
from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall
from affiant.sandbox.isolation.runner.file_child import FilePlace, be_file_child

__all__ = ["FileCalls"]

_MOST: Final = 16


@dataclass(slots=True)
class FileCalls:
    """Starts children and reaps them. The kernel ends them with the runner, and with the sandbox."""

    _under_way: dict[int, tuple[int, int]] = field(default_factory=dict)
    """A pidfd that tells a child's end -> its pid, and the request that it answers."""

    @property
    def ends(self) -> Collection[int]:
        """Descriptors that are readable once a child has ended."""
        return self._under_way.keys()

    def begin(self, request: int, call: FileCall, place: FilePlace, descriptors: Sequence[int]) -> None:
        """Start a call. ``descriptors``: for what comes of it; and of a call that writes, with what it writes.

        Raises:
            FrameError: another number of descriptors. SessionBusy: too many calls at once.
            OSError: the sandbox has ended, or the machine has no process left.
        """
        with_content = call.act in {FileAct.PUT, FileAct.REMOVE}
        if len(descriptors) != 1 + with_content:
            raise FrameError("a call on files with another number of descriptors")
        if len(self._under_way) >= _MOST:
            raise SessionBusy("too many calls on files at once", expected=f"at most {_MOST}")
        pid = os.fork()
        if pid == 0:
            be_file_child(
                call, place, output=descriptors[0], content=descriptors[1] if with_content else None
            )
        try:
            self._under_way[os.pidfd_open(pid)] = (pid, request)
        except OSError:  # a call that is rejected must not go on
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def ended(self, ready: Collection[int]) -> Iterator[tuple[int, AffiantError | None]]:
        """Reap the children whose descriptors are ``ready``: the request of each, and what went wrong."""
        for end in [each for each in self._under_way if each in ready]:
            pid, request = self._under_way.pop(end)
            os.close(end)
            _, status = os.waitpid(pid, 0)
            lost = SandboxFailed("a call on files was lost", found=f"status {status}")
            yield request, None if status == 0 else lost

    def end_all(self) -> None:
        """Kill and reap every child. Idempotent."""
        for pid, _ in self._under_way.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in self.ended(tuple(self._under_way)):
            pass
