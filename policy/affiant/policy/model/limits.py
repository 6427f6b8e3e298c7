"""Limits of a profile as values: an amount in any window of time, or in the whole session.

A :class:`Bound` is of one window, and holds in *every* stretch of time of that length, wherever it begins: ``60/min``
allows at most 60 in any sixty seconds. Without a window it holds for the session's whole life. Where several bounds
stand together, all of them hold; one that another implies says nothing and is not part of the normal form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from affiant.policy.canonical.errors import ValueRefused

__all__ = [
    "NO_EGRESS_LIMITS",
    "NO_LIMITS",
    "WINDOWS",
    "Bound",
    "Bounds",
    "EgressLimits",
    "Limits",
    "check_bounds",
    "check_most",
    "tightest",
]

WINDOWS: Final = {"s": 1, "min": 60, "h": 3600, "day": 86400}
"""The name of a window -> its length in seconds."""

_MOST: Final = 2**50
"""Far beyond any budget, and exact in every JSON reader."""
_LONGEST: Final = 366 * 86400
_MAX_BOUNDS: Final = 16


def check_most(value: int, *, what: str) -> None:
    """Return if ``value`` can be a limit.

    Raises:
        ValueRefused: 0, which is written by allowing nothing, or more than any limit is.
    """
    if not 1 <= value <= _MOST:
        raise ValueRefused(
            f"{what} out of range",
            expected=f"1 to {_MOST}",
            found=value,
            hint="To allow nothing, leave out the rule that allows it" if value == 0 else None,
        )


class Bound(NamedTuple):
    """At most ``most`` in any ``per`` seconds; None: in the life of the session."""

    most: int
    per: int | None = None

    def implies(self, other: Bound) -> bool:
        """Whether ``other`` can never be reached where this holds."""
        longer = self.per is None or (other.per is not None and self.per >= other.per)
        return longer and self.most <= other.most


Bounds = tuple[Bound, ...]
"""All of them hold; none: no limit."""


def check_bounds(bounds: Bounds, *, what: str) -> None:
    """Return if each of ``bounds`` can be one.

    Raises:
        ValueRefused: an amount or a window that cannot be, or too many.
    """
    if len(bounds) > _MAX_BOUNDS:
        raise ValueRefused(f"too many limits for {what}", expected=f"at most {_MAX_BOUNDS}")
    for bound in bounds:
        check_most(bound.most, what=what)
        if bound.per is not None and bound.per not in WINDOWS.values():
            raise ValueRefused(f"not a window for {what}", expected="1, 60, 3600 or 86400", found=bound.per)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the agent of a profile may do in one session. ``wall`` is in seconds; None: as long as the session lives.

    ``tool_calls`` and ``requests`` are counts: of calls that a model makes, and of requests to models. ``tokens`` are
    those of requests and answers together, ``bytes_out`` the bytes that go out to hosts.
    """

    tool_calls: Bounds = ()
    requests: Bounds = ()
    tokens: Bounds = ()
    bytes_out: Bounds = ()
    wall: int | None = None

    def __post_init__(self) -> None:
        for name in ("tool_calls", "requests", "tokens", "bytes_out"):
            check_bounds(getattr(self, name), what=f"'{name}'")
        if self.wall is not None and not 1 <= self.wall <= _LONGEST:
            raise ValueRefused("'wall' out of range", expected=f"1 s to {_LONGEST} s", found=self.wall)

    def merged(self, other: Limits) -> Limits:
        """Both: the tighter counts."""
        walls = [wall for wall in (self.wall, other.wall) if wall is not None]
        return Limits(
            tool_calls=(*self.tool_calls, *other.tool_calls),
            requests=(*self.requests, *other.requests),
            tokens=(*self.tokens, *other.tokens),
            bytes_out=(*self.bytes_out, *other.bytes_out),
            wall=min(walls, default=None),
        )

    def arranged(self) -> Limits:
        """In the order of the normal form, and nothing twice."""
        return Limits(
            tightest(self.tool_calls),
            tightest(self.requests),
            tightest(self.tokens),
            tightest(self.bytes_out),
            self.wall,
        )


NO_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """What one egress rule lets through: requests, and bytes of requests."""

    requests: Bounds = ()
    bytes_out: Bounds = ()

    def __post_init__(self) -> None:
        check_bounds(self.requests, what="'requests'")
        check_bounds(self.bytes_out, what="'bytes_out'")

    def arranged(self) -> EgressLimits:
        """As :meth:`Limits.arranged`."""
        return EgressLimits(tightest(self.requests), tightest(self.bytes_out))


NO_EGRESS_LIMITS: Final = EgressLimits()


def tightest(bounds: Iterable[Bound]) -> Bounds:
    """Those of ``bounds`` that no other implies, shortest window first; the life of the session is the longest.

    >>> tightest([Bound(120, 60), Bound(60, 60), Bound(5000, 86400), Bound(9000, 3600)])
    (Bound(most=60, per=60), Bound(most=5000, per=86400))
    """
    found = sorted(
        set(bounds), key=lambda bound: (float("inf") if bound.per is None else bound.per, bound.most)
    )
    return tuple(
        bound for bound in found if not any(other.implies(bound) for other in found if other != bound)
    )
