"""Connected parts of items and claims: what could be confused with what. Pure."""

from __future__ import annotations

from array import array

from affiant.attestation.audit.reconcile.results import Group

__all__ = ["Parts"]


class Parts:
    """Claims joined by the items that they could explain (union-find), and how many items each part has.

    32 bytes for each claim, and nothing for an item.
    """

    def __init__(self, claims: int) -> None:
        self._parent = array("q", range(claims))
        self._claims = array("q", [1]) * claims
        self._items = array("q", [0]) * claims
        self._asked = array("q", [0]) * claims

    def root(self, claim: int) -> int:
        """The claim that represents the part of ``claim``."""
        parent = self._parent
        while parent[claim] != claim:
            parent[claim] = parent[parent[claim]]
            claim = parent[claim]
        return claim

    def join(self, candidates: tuple[int, ...], *, asked: bool) -> None:
        """One item could be explained by any of ``candidates``; ``asked``: it is inside of the range."""
        first = self.root(candidates[0])
        for other in candidates[1:]:
            root = self.root(other)
            if root != first:
                low, high = min(first, root), max(first, root)
                self._parent[high] = low
                for counts in (self._claims, self._items, self._asked):
                    counts[low] += counts[high]
                first = low
        self._items[first] += 1
        self._asked[first] += asked

    def is_single(self, claim: int, *, tunnel: bool) -> bool:
        """Whether the part has one item, and one claim or (a whole connection) any number."""
        root = self.root(claim)
        return self._items[root] == 1 and (tunnel or self._claims[root] == 1)

    def group(self, claim: int) -> Group:
        """The part of ``claim`` in numbers."""
        root = self.root(claim)
        return Group(self._asked[root], self._claims[root])
