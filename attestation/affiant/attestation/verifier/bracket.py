"""When what was judged existed, by witnesses' clocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = ["Bracket", "around", "shown"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Not before and not after, seconds since 1970, each backed by a quorum. ``not_before`` None: no witnessed tree."""

    not_before: int | None
    not_after: int

    def to_json(self) -> Mapping[str, object]:
        """As RFC 3339."""
        return {
            "not_before": None if self.not_before is None else shown(self.not_before),
            "not_after": shown(self.not_after),
        }

    def __str__(self) -> str:
        begin = "no witnessed beginning" if self.not_before is None else f"from {shown(self.not_before)}"
        return f"{begin}, to {shown(self.not_after)}"


def around(brackets: Collection[Bracket]) -> Bracket | None:
    """The bracket that holds all of ``brackets``; None of none."""
    if not brackets:
        return None
    begins = [each.not_before for each in brackets if each.not_before is not None]
    return Bracket(
        min(begins) if len(begins) == len(brackets) else None, max(each.not_after for each in brackets)
    )


def shown(seconds: int) -> str:
    """RFC 3339, UTC; the number where no calendar has the day."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return str(seconds)
