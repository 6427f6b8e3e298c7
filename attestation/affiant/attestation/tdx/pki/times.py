"""Checks validity periods: every dated part of the evidence, at one given time.

The time is an argument; no clock is read. Both ends are included: a part expires when ``now`` is *after*
its last time. A window is kept with what it was verified for, so that a cached result is judged again at
each use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from affiant.errors import ConfigurationError, NotFreshError

__all__ = ["Window", "check_windows", "earliest_expiry", "parse_rfc3339_utc", "utc"]

_RFC3339_UTC: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when one part may be relied on, and how it refuses outside of that."""

    part: str
    not_before: datetime
    not_after: datetime
    too_early: type[NotFreshError]
    too_late: type[NotFreshError]

    def check(self, now: datetime) -> None:
        """Refuse unless ``not_before <= now <= not_after``.

        Raises:
            NotFreshError: ``too_early`` or ``too_late``.
        """
        if now < self.not_before:
            raise self.too_early(
                f"{self.part} is not valid yet",
                expected=f"from {self.not_before:%Y-%m-%dT%H:%M:%SZ} on",
                found=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            )
        if now > self.not_after:
            raise self.too_late(
                f"{self.part} has expired",
                expected=f"until {self.not_after:%Y-%m-%dT%H:%M:%SZ}",
                found=f"{now:%Y-%m-%dT%H:%M:%SZ}",
                hint="Fetch fresh collateral, or judge at the time that the evidence is from.",
            )


def check_windows(windows: Iterable[Window], now: datetime) -> None:
    """Check every window at ``now``.

    Raises:
        NotFreshError: the first that does not hold.
    """
    for window in windows:
        window.check(now)


def earliest_expiry(windows: Iterable[Window]) -> datetime:
    """The last time at which all of ``windows`` (at least one) still hold."""
    return min(window.not_after for window in windows)


def utc(now: datetime) -> datetime:
    """``now`` in UTC.

    Raises:
        ``tdx.naive_time``: it has no zone; comparing it would silently assume one.
    """
    if now.tzinfo is None or now.utcoffset() is None:
        raise ConfigurationError(
            "a time without a zone",
            expected="an aware datetime",
            hint="Use datetime.now(UTC).",
            code="tdx.naive_time",
        )
    return now.astimezone(UTC)


def parse_rfc3339_utc(text: object) -> datetime:
    """The time of ``text`` (RFC 3339, UTC with ``Z``, whole seconds: the one form that Intel signs).

    Raises:
        ValueError: anything else.
    """
    if not isinstance(text, str) or _RFC3339_UTC.match(text) is None:
        raise ValueError("not an RFC 3339 time in UTC")
    return datetime.fromisoformat(text)
