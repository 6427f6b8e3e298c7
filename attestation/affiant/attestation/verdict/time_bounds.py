"""When what was judged existed, and by whose word: witnesses, or a timestamp authority."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from affiant.printable import shown_time as shown

__all__ = [
    "BY_AUTHORITY",
    "BY_SIGSTORE",
    "BY_WITNESSES",
    "Ceilings",
    "TimeBounds",
    "Unwitnessed",
    "around",
    "shown",
]

BY_WITNESSES: Final = "witnesses"
BY_AUTHORITY: Final = "timestamp authority"
BY_SIGSTORE: Final = "sigstore log"


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Not before and not after, seconds since 1970, each with who backs it. None: nobody does.

    A not-before is always a quorum's of witnesses: a token says by when something existed, and no more.
    """

    not_before: int | None
    not_after: int | None
    not_after_by: str = BY_WITNESSES

    def not_after_also(self, seconds: int, by: str) -> TimeBounds:
        """The same, where ``by`` says that it existed by ``seconds``: the earlier one counts."""
        if self.not_after is not None and self.not_after <= seconds:
            return self
        return TimeBounds(self.not_before, seconds, by)

    def to_json(self) -> Mapping[str, object]:
        """As RFC 3339, and by whose word."""
        return {
            "not_before": None if self.not_before is None else shown(self.not_before),
            "not_after": None if self.not_after is None else shown(self.not_after),
            "by": {
                "not_before": None if self.not_before is None else BY_WITNESSES,
                "not_after": None if self.not_after is None else self.not_after_by,
            },
        }

    def told(self, witnesses: str = BY_WITNESSES) -> str:
        """As a table has it; ``witnesses``: what to call them."""
        begin = "no witnessed beginning" if self.not_before is None else f"from {shown(self.not_before)}"
        if self.not_after is None:
            return f"by {witnesses}: {begin}"
        end = f"to {shown(self.not_after)}"
        if self.not_after_by == BY_WITNESSES:
            return f"by {witnesses}: {begin}, {end}"
        begin = begin if self.not_before is None else f"by {witnesses}: {begin}"
        return f"{begin}; by a {self.not_after_by}: {end}"


@dataclass(frozen=True, slots=True)
class Unwitnessed:
    """The longest stretch for which the operator's clock alone says when something happened (``unwitnessed``).

    Args:
        begin, end: seconds since 1970, each backed by a quorum; None: no record has a witnessed beginning.
        receipt: id of a record that lies in it.
        without_beginning: records that no witnessed checkpoint precedes.
    """

    begin: int | None
    end: int | None
    receipt: str | None
    without_beginning: int

    def or_longer(self, begin: int, end: int, receipt: str) -> Unwitnessed:
        """The same, or that around ``receipt`` if it is longer."""
        end = max(begin, end)  # one witness's clock may be ahead of another's: no stretch at all
        if self.seconds is not None and end - begin <= self.seconds:
            return self
        return Unwitnessed(begin, end, receipt, self.without_beginning)

    @property
    def seconds(self) -> int | None:
        """Its length."""
        return None if self.begin is None or self.end is None else self.end - self.begin

    def to_json(self) -> Mapping[str, object]:
        """The member of the result document."""
        return {
            "longest_s": self.seconds,
            "from": None if self.begin is None else shown(self.begin),
            "to": None if self.end is None else shown(self.end),
            "receipt": self.receipt,
            "without_beginning": self.without_beginning,
        }

    def __str__(self) -> str:
        count = self.without_beginning
        apart = f"; no witnessed beginning: {count} record{'s' * (count != 1)}" if count else ""
        if self.begin is None or self.end is None:
            return f"not known{apart}"
        ends = f"from {shown(self.begin)} to {shown(self.end)}"
        return f"{self.seconds} s, {ends}, around receipt {self.receipt}{apart}"


class Ceilings:
    """The earliest time by which each leaf of a log existed, of checkpoints that cover it.

    Args:
        times: size of a checkpoint -> seconds since 1970 by which it existed.
    """

    __slots__ = ("_sizes", "_times")

    def __init__(self, times: Mapping[int, int]) -> None:
        self._sizes = sorted(times)
        earliest = accumulate((times[size] for size in reversed(self._sizes)), min)
        self._times = list(earliest)[::-1]

    def of(self, index: int) -> int | None:
        """That of one leaf; None: no checkpoint covers it."""
        at = bisect_right(self._sizes, index)  # a tree of size n covers the indexes below n
        return self._times[at] if at < len(self._times) else None


def around(time_bounds: Collection[TimeBounds]) -> TimeBounds | None:
    """The bounds that hold all of ``time_bounds``; None of none, or where nobody backs either end for all."""
    begins = [each.not_before for each in time_bounds if each.not_before is not None]
    ends = [(each.not_after, each.not_after_by) for each in time_bounds if each.not_after is not None]
    begin = min(begins) if begins and len(begins) == len(time_bounds) else None
    end, by = max(ends) if ends and len(ends) == len(time_bounds) else (None, BY_WITNESSES)
    return None if begin is None and end is None else TimeBounds(begin, end, by)
