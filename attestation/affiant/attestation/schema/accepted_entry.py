"""Reads one accepted value and its period: ``{"value": ..., "from"?, "until"?, "revoked_at"?}``, RFC 3339 in UTC.

Trust files, the gateway's configuration and files of profile signers are lists of these (trust rules, 11).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

__all__ = ["PERIOD", "Entry", "entry_of", "instant_of"]

PERIOD: Final = ("from", "until", "revoked_at")
"""The members of an entry beside ``value``."""

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
"""RFC 3339; ``strptime`` alone reads ``2026-1-1T3:0:0Z`` too, and digits of other scripts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One accepted thing and when it is accepted."""

    value: str
    valid_from: datetime | None
    until: datetime | None
    revoked_at: datetime | None

    def counts_at(self, at: datetime) -> bool:
        """Whether it is accepted at ``at``: from <= at < until, and at < revoked_at."""
        return self.counts_for(at, known=at)

    def counts_for(self, at: datetime, *, known: datetime) -> bool:
        """Whether it is accepted for a thing that says ``at``, and is known to have existed at ``known``.

        What was revoked may date its things back; so ``revoked_at`` is judged at ``known``.
        """
        return (
            (self.valid_from is None or self.valid_from <= at)
            and (self.until is None or at < self.until)
            and (self.revoked_at is None or known < self.revoked_at)
        )


def instant_of(text: object) -> datetime:
    """``2026-11-21T03:00:00Z``, with second precision.

    Raises:
        ValueError: another form, or a day that there is not.
    """
    if not isinstance(text, str) or _INSTANT.fullmatch(text) is None:
        raise ValueError("not a timestamp")
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def entry_of(item: Mapping[str, object], value: str) -> Entry:
    """The entry with the times of ``item``; a member that is absent or null bounds nothing.

    Raises:
        ValueError: as :func:`instant_of`.
    """
    instants = [None if item.get(name) is None else instant_of(item[name]) for name in PERIOD]
    return Entry(value, *instants)
