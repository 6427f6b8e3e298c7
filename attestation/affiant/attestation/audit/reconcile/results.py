"""What became of every item: exactly one of five states, and by which rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from affiant.attestation.audit.records_of_others.item import Item

__all__ = ["Group", "Result", "Rule", "State"]


class State(StrEnum):
    """The states of an item."""

    MATCHED = "matched"
    """One receipt explains it, and explains nothing else."""
    AMBIGUOUS = "ambiguous"
    """Receipts could explain it, but not which: several, or one that could explain another item too."""
    MISSING = "missing"
    """No receipt explains it: the finding that matters."""
    OUT_OF_RANGE = "out of range"
    """Outside of the range, or of the hosts, that were asked about."""
    UNREADABLE = "unreadable"
    """The line says nothing that could be followed without guessing."""


class Rule(StrEnum):
    """What a match rests on, the stronger first."""

    RECEIPT = "receipt id"
    """The item names the receipt, and no fact that both state differs."""
    TRACE = "trace"
    """As ``request``, with or without a model, and trace and span are those that the receipt discloses."""
    LENGTHS = "lengths"
    """As ``request``, and a length or token count that both state is the same."""
    REQUEST = "request"
    """Same host (proxy) or model (bill, spans), the receipt's time inside of the item's, and no fact that differs."""
    BUCKET = "bucket"
    """Counts and sums over a time span."""


@dataclass(frozen=True, slots=True)
class Group:
    """Items (of the range that was asked about) and requests of receipts that cannot be distinguished."""

    items: int
    receipts: int

    @property
    def short(self) -> int:
        """At least so many of the items have no receipt, whichever belongs to which."""
        return max(0, self.items - self.receipts)


@dataclass(frozen=True, slots=True)
class Result:
    """One line's end.

    Args:
        receipts: of a match, those that explain it; of an ambiguous item, the first candidates.
        reason: why, where it is no match.
        apart_ms: of a match by id or trace, how far the receipt's time lies outside of the item's.
    """

    line: int
    state: State
    item: Item | None = None
    rule: Rule | None = None
    receipts: tuple[str, ...] = ()
    group: Group | None = None
    reason: str | None = None
    apart_ms: int | None = None
