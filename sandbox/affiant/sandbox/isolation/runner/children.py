"""The runner's children: each carries out one request that may take long, while the runner serves others."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.errors import SandboxFailed, SessionBusy, error_from_json

__all__ = ["Children"]


@dataclass(slots=True)
class Children:
    """Starts children and reaps them. The kernel ends them with the runner.

    Args:
        named: what they carry out, as errors say it. most: how many may be under way at once.
    """

    named: str
    most: int
    _under_way: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """A pidfd that tells a child's end -> its pid, the request that it answers, and where its error is."""

    @property
    def ends(self) -> Collection[int]:
        """Descriptors that are readable once a child has ended."""
        return self._under_way.keys()

    def begin(self, request: int, work: Callable[[], None]) -> None:
        """Call ``work`` in a child.

        Raises:
            SessionBusy: too many at once. OSError: the machine has no process left.
        """
        if len(self._under_way) >= self.most:
            raise SessionBusy(f"too many {self.named} at once", expected=f"at most {self.most}")
        error = os.memfd_create("affiant-error", os.MFD_CLOEXEC)
        try:
            pid = os.fork()
            if pid == 0:
                _be_child(work, error)
            try:
                self._under_way[os.pidfd_open(pid)] = (pid, request, error)
            except OSError:  # a request that is rejected must not go on
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
        except BaseException:
            os.close(error)
            raise

    def ended(self, ready: Collection[int]) -> Iterator[tuple[int, AffiantError | None]]:
        """Reap the children whose descriptors are ``ready``: the request of each, and what went wrong."""
        for end in [each for each in self._under_way if each in ready]:
            pid, request, error = self._under_way.pop(end)
            os.close(end)
            _, status = os.waitpid(pid, 0)
            with os.fdopen(error, "rb") as stream:
                stream.seek(0)
                said = stream.read()
            if status == 0:
                yield request, None
            elif said:
                yield request, error_from_json(json.loads(said))
            else:
                yield request, SandboxFailed(f"one of the {self.named} was lost", found=f"status {status}")

    def end_all(self) -> None:
        """Kill and reap every child. Idempotent."""
        for pid, _, _ in self._under_way.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in self.ended(tuple(self._under_way)):
            pass


def _be_child(work: Callable[[], None], error: int) -> None:
    """In a child: carry out ``work``, say what went wrong, and end."""
    code = 1
    try:
        linux.die_with_parent()
        work()
        code = 0
    except AffiantError as wrong:
        os.write(error, json.dumps(wrong.to_json()).encode())
    finally:
        os._exit(code)
