"""The time that records are dated by: the wall clock's, as long as it does not jump.

A wall clock may be set, forward or back, under a process that signs. Dates that go back break a chain, and dates that
leap leave a hole in its epochs, although no one lied. So small corrections are followed, never backwards; a jump is
not: time goes on by the clock that never goes back, and code that begins something new asks :meth:`SteadyClock.require`
first.

Both clocks of a TD are the host's to influence: this keeps a chain whole, and proves no time. Witnesses do that.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from affiant.errors import UnreachableError

__all__ = ["TOLERANCE_S", "ClockStepped", "SteadyClock"]

TOLERANCE_S: Final = 10.0
"""Seconds by which the wall clock may be set at once and still be followed."""


class ClockStepped(UnreachableError):
    """The wall clock was set while the process ran: one of its times is wrong, and the process cannot know which."""

    code = "clock.stepped"


class SteadyClock:
    """UTC without jumps.

    Args:
        wall: wall-clock time, UTC.
        seconds: a clock that never goes back, whatever the wall clock is set to.
    """

    def __init__(self, wall: Callable[[], datetime], seconds: Callable[[], float]) -> None:
        self._wall, self._seconds = wall, seconds
        self._anchor, self._since = wall(), seconds()
        self._last = self._anchor

    def __call__(self) -> datetime:
        """The present time, UTC; never before what was given before."""
        wall, steady = self._wall(), self._steady()
        if abs((wall - steady).total_seconds()) <= TOLERANCE_S:
            self._anchor, self._since = wall, self._seconds()
            steady = wall
        self._last = max(self._last, steady)
        return self._last

    def require(self) -> None:
        """Return if the wall clock is the one that is followed.

        Raises:
            ClockStepped: it was set by more than :data:`TOLERANCE_S`.
        """
        now = self()
        away = (self._wall() - self._steady()).total_seconds()
        if abs(away) > TOLERANCE_S:
            raise ClockStepped(
                "the machine's clock was set while the gateway ran",
                expected=f"{now:%Y-%m-%dT%H:%M:%SZ}, by the time since the start",
                found=f"{away:+.0f} s",
                hint="See that the clock is right, then start the gateway again. What is under way goes on.",
            )

    def _steady(self) -> datetime:
        return self._anchor + timedelta(seconds=self._seconds() - self._since)
