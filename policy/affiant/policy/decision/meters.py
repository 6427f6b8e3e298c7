"""Counts what was used of a limit, in memory and in whole numbers; times are arguments.

A window of *n* is kept as sixty slots and the present one. What was used in a slot counts until the slot lies wholly
outside of the window, so in **no** stretch of the window's length is more than ``most`` ever used; room comes back at
the latest one sixtieth of the window after it could. There is no bucket that is full at the start and refills besides:
``2M/day`` is never four millions in a day.

A time is in nanoseconds of a clock that never goes back. One that lies before another that the meter has seen is
taken for that one: a clock that is set back refills nothing, and neither does the past.

When a session's profile is narrowed its meters are replaced by others (:meth:`Meter.narrowed`), and what was used stays
used. A meter that ``remembers`` counts in every window, whether or not it has a bound there, so that a bound that comes
later holds for what was used before it.

A meter belongs to one event loop: :meth:`Meter.take` looks and takes in one step, so that of requests that come at the
same time none can use what another has taken.

>>> from affiant.policy.model.limits import Bound
>>> meter = Meter((Bound(2, 60),))
>>> _ = meter.take(2, now=0)
>>> meter.wait(1, now=30 * 10**9) // 10**9
31
>>> meter.wait(1, now=61 * 10**9)
0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from affiant.policy.model.limits import WINDOWS, Bounds

__all__ = ["NANOSECONDS", "Charge", "Meter", "nanoseconds"]

NANOSECONDS: Final = 10**9
_SLOTS: Final = 60


def nanoseconds(seconds: float) -> int:
    """A time in seconds, for a meter."""
    return int(seconds * NANOSECONDS)


class Charge(NamedTuple):
    """What was taken: the amount, and the slot of each window that it is in."""

    amount: int
    slots: tuple[int, ...]


class _Window:
    """One bound of a window; ``most`` None: counted only."""

    __slots__ = ("_newest", "_slots", "_total", "_width", "most", "per")

    def __init__(self, most: int | None, per: int) -> None:
        self.most = most
        self.per = per
        self._width = -(
            -per * NANOSECONDS // _SLOTS
        )  # rounded up: sixty of them are never shorter than the window
        self._slots = [0] * (_SLOTS + 1)
        self._newest: int | None = None
        self._total = 0

    def advance(self, now: int) -> int:
        """Drop what lies outside of the window; the present slot."""
        slot = now // self._width
        if self._newest is None or slot - self._newest > _SLOTS:
            if self._total:
                self._slots = [0] * (_SLOTS + 1)
                self._total = 0
            self._newest = slot
        while self._newest < slot:
            self._newest += 1
            place = self._newest % (_SLOTS + 1)
            self._total -= self._slots[place]
            self._slots[place] = 0
        return self._newest

    def wait(self, amount: int, now: int) -> int | None:
        """Nanoseconds until there is room for ``amount``, if nothing else is used; None: never."""
        newest = self.advance(now)
        if self.most is None or self._total + amount <= self.most:
            return 0
        if amount > self.most:
            return None
        left = self._total
        for slot in range(newest - _SLOTS, newest + 1):
            left -= self._slots[slot % (_SLOTS + 1)]
            if left + amount <= self.most:
                return max((slot + _SLOTS + 1) * self._width - now, 1)
        return None

    def add(self, amount: int, slot: int) -> None:
        """Count ``amount`` in ``slot``, unless that is outside of the window by now. A negative amount gives back."""
        assert self._newest is not None
        if self._newest - slot <= _SLOTS:
            place = slot % (_SLOTS + 1)
            amount = max(amount, -self._slots[place])
            self._slots[place] += amount
            self._total += amount

    def absorb(self, other: _Window) -> None:
        """Count what ``other``, of the same length, has counted."""
        if other._newest is None:
            return
        newest = max(other._newest, other._newest if self._newest is None else self._newest)
        self.advance(newest * self._width)
        for slot in range(other._newest - _SLOTS, other._newest + 1):
            self.add(other._slots[slot % (_SLOTS + 1)], slot)


class _Life:
    """A bound of the session's whole life: as a window that never ends."""

    __slots__ = ("_used", "most", "per")

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.per = None
        self._used = 0

    def advance(self, now: int) -> int:  # noqa: ARG002 - as of a window
        return 0

    def wait(self, amount: int, now: int) -> int | None:  # noqa: ARG002 - as of a window
        return 0 if self.most is None or self._used + amount <= self.most else None

    def add(self, amount: int, slot: int) -> None:  # noqa: ARG002 - as of a window
        self._used = max(self._used + amount, 0)

    def absorb(self, other: _Life) -> None:
        self._used += other._used


class Meter:
    """What was used of several bounds, all of which hold; without any, everything has room.

    Args:
        remembers: count in every window, for bounds that come later.
    """

    __slots__ = ("_parts", "_remembers")

    def __init__(self, bounds: Bounds, *, remembers: bool = False) -> None:
        bounded = {bound.per for bound in bounds}
        others = [per for per in (*WINDOWS.values(), None) if per not in bounded] if remembers else []
        self._parts: tuple[_Window | _Life, ...] = (
            *(_part(bound.most, bound.per) for bound in bounds),
            *(_part(None, per) for per in others),
        )
        self._remembers = remembers

    def narrowed(self, bounds: Bounds, also: Iterable[Meter] = ()) -> Meter:
        """A meter of other bounds that has counted what this one has, and ``also`` what those have."""
        made = Meter(bounds, remembers=self._remembers)
        for meter in (self, *also):
            made._absorb(meter)
        return made

    def _absorb(self, other: Meter) -> None:
        for mine in self._parts:
            for theirs in other._parts:
                match mine, theirs:
                    case (_Window(), _Window()) if mine.per == theirs.per:
                        mine.absorb(theirs)
                    case (_Life(), _Life()):
                        mine.absorb(theirs)

    def wait(self, amount: int, *, now: int) -> int | None:
        """Nanoseconds until ``amount`` could be taken, if nothing else is: 0 if it can be; None: never.

        Args:
            amount: 1 or more.
        """
        longest = 0
        for part in self._parts:
            wait = part.wait(amount, now)
            if wait is None:
                return None
            longest = max(longest, wait)
        return longest

    def take(self, amount: int, *, now: int) -> Charge | None:
        """Take ``amount`` from every bound, or from none: None where one has no room for it."""
        if self.wait(amount, now=now) != 0:
            return None
        return self.charge(amount, now=now)

    def charge(self, amount: int, *, now: int) -> Charge:
        """Count ``amount`` whether there is room or not: it has been used."""
        if not self._parts:
            return Charge(amount, ())
        slots = tuple([part.advance(now) for part in self._parts])
        for part, slot in zip(self._parts, slots, strict=True):
            part.add(amount, slot)
        return Charge(amount, slots)

    def settle(self, charge: Charge, used: int) -> None:
        """Only ``used`` of a charge was used in the end, or more than it: it counts where the charge did.

        A charge is settled once. What has left its window meanwhile stays gone.
        """
        for part, slot in zip(self._parts, charge.slots, strict=True):
            part.add(used - charge.amount, slot)


def _part(most: int | None, per: int | None) -> _Window | _Life:
    return _Life(most) if per is None else _Window(most, per)
