"""How long an upstream that said it has too much is not asked: ``Retry-After`` of its 429 or 503. Sans I/O.

The key that it is reached with is this gateway's, so its word holds for every session. It is asked again after five
minutes at the latest, whatever it said.

>>> from datetime import UTC, datetime
>>> now = datetime(2026, 11, 21, 12, tzinfo=UTC)
>>> seconds_of(b"20", now=now), seconds_of(b"Sat, 21 Nov 2026 12:01:00 GMT", now=now), seconds_of(b"soon", now=now)
(20, 60, 0)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from affiant.gateway.wire.errors import QueueError

__all__ = ["PAUSES", "Cooldown", "seconds_of"]

_LONGEST_S: Final = 300
_SECONDS: Final = re.compile(rb"[0-9]{1,9}\Z")
_RATE_LIMITED: Final = 429
PAUSES: Final = (_RATE_LIMITED, 503)
"""Statuses with which an upstream may ask for a pause."""


def seconds_of(value: bytes, *, now: datetime) -> int:
    """What ``Retry-After`` says (RFC 9110, section 10.2.3), 0 to 300 seconds; 0 for what is of no known form."""
    if _SECONDS.match(value):
        return min(int(value), _LONGEST_S)
    try:
        until = parsedate_to_datetime(value.decode("ascii"))
    except (ValueError, TypeError, OverflowError):
        return 0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max(0, math.ceil((until - now).total_seconds())), _LONGEST_S)


class Cooldown:
    """Of one upstream.

    Args:
        seconds: a clock that never goes back.
    """

    __slots__ = ("_rated", "_seconds", "_until")

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._until = 0.0
        self._rated = False

    @property
    def left_s(self) -> int:
        """Whole seconds until it is asked again; 0: now."""
        return max(0, math.ceil(self._until - self._seconds()))

    def take(self, status: int, retry_after: bytes | None, *, now: datetime) -> None:
        """Take in a response of the upstream's; a shorter wait does not end a longer one."""
        if status not in PAUSES or retry_after is None:
            return
        until = self._seconds() + seconds_of(retry_after.strip(), now=now)
        if until > self._until:
            self._until, self._rated = until, status == _RATE_LIMITED

    def require_over(self) -> None:
        """Return if the upstream may be asked.

        Raises:
            ``upstream.rate_limited``, ``upstream.overloaded``: not yet.
        """
        if self._until > self._seconds():
            raise QueueError(
                "the upstream asked the gateway to wait before the next request",
                retry_after_s=self.left_s,
                code="upstream.rate_limited" if self._rated else "upstream.overloaded",
            )
