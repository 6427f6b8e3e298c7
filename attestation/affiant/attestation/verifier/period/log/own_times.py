"""When each session, and each gateway's boot record, existed at the latest: what its quote is judged at as of then.

By witnesses and anchors as far as their rows hold, as for a single bundle; else by what the records say themselves,
which only chooses what the present is compared with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from affiant.attestation.verifier.period.log.leaf_time_bounds import LeafTimeBounds
from affiant.attestation.verifier.period.log.stamps import Stamps

__all__ = ["OwnTimes"]

_BRACKET = "time.bracket"


class OwnTimes:
    """Takes one record after another, each under the name that it belongs to. Some hundred bytes for each name.

    Args:
        time_bounds: None without witnesses.
    """

    __slots__ = ("_ends", "_latest", "_sources")

    def __init__(self, time_bounds: LeafTimeBounds | None, stamps: Sequence[Stamps]) -> None:
        self._sources: Mapping[str, LeafTimeBounds | Stamps] = {
            **({} if time_bounds is None else {_BRACKET: time_bounds}),
            **{each.kind.code: each for each in stamps},
        }
        self._latest: dict[str, int] = {}
        self._ends: dict[str, dict[str, int | None]] = {code: {} for code in self._sources}

    def take(self, name: str, iat: int, index: int | None) -> None:
        """One record. ``index``: of its leaf; None where it has none here."""
        self._latest[name] = max(iat, self._latest.get(name, iat))
        for code, source in self._sources.items():
            end, ends = None if index is None else source.ceiling(index), self._ends[code]
            known = ends.get(name, end)
            ends[name] = None if known is None or end is None else max(known, end)

    def end(self, name: str, *, held: Collection[str]) -> int | None:
        """Seconds since 1970; None: there is no such record.

        Args:
            held: codes of the rows that held: another kind of anchor says nothing.
        """
        counted = (self._ends[code].get(name) for code in self._ends if code in held)
        return min((end for end in counted if end is not None), default=self._latest.get(name))

    @property
    def earliest(self) -> int | None:
        """The first that one of them says of itself."""
        return min(self._latest.values(), default=None)
