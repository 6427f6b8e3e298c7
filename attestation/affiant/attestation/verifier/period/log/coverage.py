"""``chain.coverage``: of the auditor's own range, is every leaf's record here (trust rules, 6)?

A leaf is in the range by its own time. That no leaf of the range stands outside of what the archive shows of the log is
shown by its neighbours: one before it that is older than the range, one after it that is newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.period.log.tally import MAX_WHERE

__all__ = ["Coverage"]

_MAX_MISSING: Final = 100_000
"""Leaves without a record that are kept to be looked up among what was erased; beyond, they count as withheld."""


@dataclass(slots=True)
class _Stretch:
    """Leaves that stand together: index and time of the first and the last, whether one is in the range."""

    first: int
    begin: int
    last: int = 0
    end: int = 0
    inside: bool = False


@dataclass(slots=True)
class Coverage:
    """Counts the leaves of one range.

    Args:
        since, until: seconds since 1970, from and to before; None: not bounded; both None: not asked.
        size: leaves under the checkpoint.
    """

    since: int | None
    until: int | None
    size: int
    inside: int = 0
    withheld: int = 0
    missing: dict[tuple[str, str], int] = field(default_factory=dict)
    """``<chain>:<number>`` and receipt hash of a leaf without its record -> how many leaves there are of it."""
    _stretches: list[_Stretch] = field(default_factory=list)

    def take(self, index: int, iat: int, *, new: bool, here: bool, name: str, rh: str = "") -> None:
        """One leaf. ``new``: the one before it is not here. ``here``: its record is; else its hash is ``rh``."""
        if new:
            self._stretches.append(_Stretch(index, iat))
        stretch = self._stretches[-1]
        stretch.last, stretch.end = index, iat
        if (self.since is not None and iat < self.since) or (self.until is not None and iat >= self.until):
            return
        stretch.inside = True
        self.inside += 1
        if not here:
            self.withheld += 1
            if (name, rh) in self.missing or len(self.missing) < _MAX_MISSING:
                self.missing[name, rh] = self.missing.get((name, rh), 0) + 1

    def finding(self, erased: Mapping[str, str], pruned: Mapping[str, tuple[int, str]]) -> Finding:
        """What it amounts to.

        Args:
            erased: what accepted authorities ordered to be erased, ``<chain>:<number>`` -> receipt hash.
            pruned: chains that they ordered to be pruned -> number and receipt hash of the last record.

        Raises:
            NotMade: no range was asked for, or the archive does not show all of the log that it needs.
        """
        if self.since is None and self.until is None:
            raise NotMade("no range was asked for: say which with --from and --to")
        stretch = self._covering()
        tail = self._tail(stretch)
        ordered = {
            (name, rh) for name, rh in self.missing if erased.get(name) == rh or _is_pruned(name, rh, pruned)
        }
        gone = sum(self.missing[leaf] for leaf in ordered)
        withheld = self.withheld - gone
        by_order = f", {gone} erased by order" if gone else ""
        if withheld:
            where = list(dict.fromkeys(leaf[0] for leaf in self.missing if leaf not in ordered))[:MAX_WHERE]
            text = f"{withheld} of {self.inside} leaves of the range without a record{by_order}{tail}"
            return Finding(text, Tier.WARNING, tuple(where))
        text = f"{self.inside} leaves in the range, each with its record{by_order}{tail}"
        return Finding(text, Tier.WARNING if tail or gone else Tier.AFFIRMING)

    def _covering(self) -> _Stretch:
        """The one stretch that holds the whole range."""
        found = [stretch for stretch in self._stretches if stretch.inside]
        if not found:  # a range in which nothing happened: older and newer leaves stand side by side
            found = [each for each in self._stretches if self._begins(each) and self._ends(each)]
            if not found:
                raise NotMade("the archive shows no leaf of this range, and not that there is none")
        if len(found) > 1:
            raise NotMade(
                f"the archive leaves out leaves within the range: between {found[0].last} and {found[1].first}"
            )
        if not self._begins(found[0]):
            raise NotMade(f"the archive begins at leaf {found[0].first}, within the range")
        if not self._ends(found[0]) and found[0].last != self.size - 1:
            raise NotMade(f"the archive ends at leaf {found[0].last}, within the range")
        return found[0]

    def _begins(self, stretch: _Stretch) -> bool:
        return stretch.first == 0 or (self.since is not None and stretch.begin < self.since)

    def _ends(self, stretch: _Stretch) -> bool:
        return self.until is not None and stretch.end >= self.until

    def _tail(self, stretch: _Stretch) -> str:
        """What is not shown where the log's checkpoint ends before the range."""
        if self.until is None or self._ends(stretch):
            return ""
        return f"; the checkpoint ends at leaf {stretch.last}, before the range does"


def _is_pruned(name: str, rh: str, pruned: Mapping[str, tuple[int, str]]) -> bool:
    """Whether a leaf is of a pruned chain, up to the record that the order names, which has the leaf's hash."""
    chn, _, number = name.rpartition(":")
    last = pruned.get(chn)
    return last is not None and (int(number) < last[0] or (int(number), rh) == last)
