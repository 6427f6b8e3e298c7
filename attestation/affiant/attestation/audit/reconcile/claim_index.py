"""Which claims could explain an item, under each rule. Pure; the same answer whatever the order of the items."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.results import Rule
from affiant.attestation.audit.records_of_others.facts import contradictions, same_lengths
from affiant.attestation.audit.records_of_others.item import Item

__all__ = ["Anchor", "ClaimIndex"]

_SECOND: Final = 999
"""A receipt's time is in whole seconds: it was signed up to so many milliseconds later."""
_BY_ID: Final = frozenset({"path"})
"""Not compared where the item names the receipt: it may have been seen on the other side of the gateway."""
_TUNNEL: Final = frozenset({"method", "path", "status", "sent", "received"})
"""Not compared where the item is a whole connection."""
_REMEMBERED: Final = 4096
_MAX_NEAR: Final = 64


class Anchor(StrEnum):
    """What item and claim must agree in, besides time, before they are compared at all."""

    HOST = "host"
    MODEL = "model"


class ClaimIndex:
    """Claims by what they are looked up by.

    Args:
        tolerance: milliseconds that two clocks may differ by.
    """

    def __init__(self, claims: Sequence[Claim], *, anchor: Anchor, tolerance: int) -> None:
        self.claims = tuple(sorted(claims, key=lambda each: (each.at, each.rh)))
        self._anchor = anchor
        self._tolerance = tolerance
        self.taken = bytearray(len(claims))
        """1 where a claim explains an item already, 2 where it could explain several."""
        self._by_receipt: dict[str, dict[str, list[int]]] = {}
        self._by_trace: dict[tuple[str, str], list[int]] = {}
        self._by_anchor: dict[str, tuple[list[int], list[int]]] = {}
        self._remembered: dict[tuple[object, ...], tuple[int, ...]] = {}
        for number in range(len(claims)):
            self._add(number)

    def _add(self, number: int) -> None:
        claim = self.claims[number]
        self._by_receipt.setdefault(claim.receipt, {}).setdefault(claim.rh, []).append(number)
        if claim.facts.trace is not None:
            self._by_trace.setdefault(claim.facts.trace, []).append(number)
        anchor = self._anchor_of(claim)
        if anchor is not None:
            times, numbers = self._by_anchor.setdefault(anchor, ([], []))
            times.append(claim.at)
            numbers.append(number)

    def _anchor_of(self, one: Item | Claim) -> str | None:
        if self._anchor is Anchor.MODEL:
            return one.facts.model
        return None if one.authority is None else one.authority.host

    def knows(self, receipt: str) -> bool:
        """Whether a receipt with this id is here."""
        return receipt in self._by_receipt

    def of_receipt(self, receipt: str) -> list[int]:
        """One claim of each record with this id: the last attempt, whose answer was passed on."""
        return [numbers[-1] for numbers in self._by_receipt.get(receipt, {}).values()]

    def take(self, number: int, rule: Rule) -> None:
        """The claim explains an item; where the item named the receipt, so do the receipt's other attempts."""
        self._mark(number, rule, 1)

    def contest(self, number: int, rule: Rule) -> None:
        """The claim could explain several items: it explains none by a weaker rule."""
        self._mark(number, rule, 2)

    def _mark(self, number: int, rule: Rule, mark: int) -> None:
        claim = self.claims[number]
        for each in self._by_receipt[claim.receipt][claim.rh] if rule is Rule.RECEIPT else (number,):
            self.taken[each] = mark
        self._remembered.clear()

    def named_by(self, item: Item) -> str | None:
        """The receipt id that the item names."""
        if item.receipt is None and item.maybe_receipt is not None and self.knows(item.maybe_receipt):
            return item.maybe_receipt
        return item.receipt

    def candidates(self, item: Item, rule: Rule, *, lengths: bool = False) -> tuple[int, ...]:
        """Claims that are not taken, contradict the item in nothing and fit by ``rule``; the oldest first.

        Args:
            lengths: only those that agree with the item in a length.
        """
        if rule is Rule.RECEIPT:
            return self._named(item)
        found = self._traced(item) if rule is Rule.TRACE else self._alike(item)
        if not lengths:
            return found
        return tuple(each for each in found if same_lengths(item.facts, self.claims[each].facts))

    def has_any(self, item: Item) -> bool:
        """Whether anything could explain the item; what is taken later only takes away."""
        if self.named_by(item) is not None:
            return bool(self._named(item))
        return bool(self._traced(item) or self._alike(item))

    def _traced(self, item: Item) -> tuple[int, ...]:
        named = () if item.facts.trace is None else self._by_trace.get(item.facts.trace, ())
        return tuple(each for each in named if self._at_its_time(item, each) and self._agrees(item, each))

    def _named(self, item: Item) -> tuple[int, ...]:
        return tuple(
            each
            for each in self.of_receipt(self.named_by(item) or "")
            if not self.taken[each]
            and not any(contradictions(item.facts, self.claims[each].facts, without=_BY_ID))
        )

    def _alike(self, item: Item) -> tuple[int, ...]:
        key = (item.begun, item.ended, item.authority, item.facts, item.tunnel, item.query_unknown)
        known = self._remembered.get(key)
        if known is None:
            known = tuple(each for each in self._inside(item) if self._agrees(item, each))
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = known
        return known

    def _inside(self, item: Item) -> Sequence[int]:
        """Claims with the item's anchor whose time lies inside of the item's, give or take the tolerance."""
        anchor = self._anchor_of(item)
        times, numbers = self._by_anchor.get(anchor or "", ([], []))
        first = bisect_left(times, item.begun - self._tolerance - _SECOND)
        return numbers[first : bisect_right(times, item.ended + self._tolerance)]

    def _at_its_time(self, item: Item, number: int) -> bool:
        at = self.claims[number].at
        return item.begun - self._tolerance - _SECOND <= at <= item.ended + self._tolerance

    def carried(self, item: Item) -> bool:
        """Whether requests inside of the connection explain other items."""
        return any(self._agrees(item, each, taken=True) for each in self._inside(item))

    def _agrees(self, item: Item, number: int, *, taken: bool = False) -> bool:
        claim = self.claims[number]
        if bool(self.taken[number]) != taken:
            return False
        if self._anchor is Anchor.HOST and (
            item.authority is None or claim.authority is None or item.authority.contradicts(claim.authority)
        ):
            return False
        without = _TUNNEL if item.tunnel and not claim.tunnel else frozenset[str]()
        return not any(
            contradictions(item.facts, claim.facts, without=without, query_unknown=item.query_unknown)
        )

    def contradicted(self, item: Item) -> tuple[str, ...]:
        """What the receipt that the item names says otherwise."""
        named = self.of_receipt(self.named_by(item) or "")
        found = {
            name
            for each in named
            for name in contradictions(item.facts, self.claims[each].facts, without=_BY_ID)
        }
        return tuple(sorted(found))

    def nearly(self, item: Item) -> tuple[str, ...]:
        """What receipts with the item's anchor say otherwise, at its time; empty: there is none at that time."""
        near = [self.claims[each] for each in self._inside(item)[:_MAX_NEAR] if not self.taken[each]]
        return tuple(sorted({name for each in near for name in contradictions(item.facts, each.facts)}))

    def apart(self, item: Item, number: int) -> int:
        """Milliseconds that the claim's time lies outside of the item's, tolerance aside."""
        at = self.claims[number].at
        return max(0, item.begun - at - _SECOND, at - item.ended)
