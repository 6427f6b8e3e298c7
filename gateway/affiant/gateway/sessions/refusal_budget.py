"""How many refusals of callers that nobody knows are recorded: a bucket of tokens, and a count of the rest.

Every record is signed and synced to the disk. Whoever can connect could otherwise fill the journal with refusals
of nothing. What a session's key has signed is never counted here: it has its record, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable

from affiant.gateway.wire.errors import Busy

__all__ = ["RefusalBudget"]


class RefusalBudget:
    """One bucket for all unknown callers.

    Args:
        per_second: tokens that come back each second. burst: tokens at first, and at most.
        seconds: a clock that never goes back.
    """

    __slots__ = ("_burst", "_left", "_per_second", "_seconds", "_then", "_unrecorded")

    def __init__(self, *, per_second: float, burst: int, seconds: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._seconds = seconds
        self._then = seconds()
        self._left = float(burst)
        self._unrecorded = 0

    def take(self) -> None:
        """Take one token for one record.

        Raises:
            Busy: there is none; the refusal is told and counted, and not recorded.
        """
        now = self._seconds()
        self._left = min(self._left + (now - self._then) * self._per_second, float(self._burst))
        self._then = now
        if self._left < 1:
            self._unrecorded += 1
            raise Busy("too many refused requests", hint="This refusal has no receipt")
        self._left -= 1

    def take_count(self) -> int:
        """How many were not recorded since this was asked last."""
        count, self._unrecorded = self._unrecorded, 0
        return count
