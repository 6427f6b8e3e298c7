"""Who started, signed, approved and erased, as authentic records and keysets say it.

Signers are told with whether their quote was appraised; the other names are the words of those signers: how a user was
known is the gateway's word; an approver's or an authority's key is what a record names, and whether its signature was
judged, the rows say. Every text here is hostile, and is escaped by whoever shows it. Lists are bounded; what is left
out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["DID", "Named", "People", "counted"]

DID: Final[Mapping[str, str]] = {
    "started": "sessions",
    "signed": "records",
    "approved": "records",
    "erased": "records",
}
"""What people did, in the order in which they are told, and what is counted of them."""


@dataclass(frozen=True, slots=True)
class Named:
    """One of them.

    Args:
        facts: what is known, by name.
        count: records or sessions of theirs. receipt: the id of the first.
    """

    facts: Mapping[str, str]
    count: int
    receipt: str | None

    def to_json(self) -> Mapping[str, object]:
        """One entry of the result document."""
        return {**self.facts, "count": self.count, "receipt": self.receipt}


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """All of them. ``more``: how many different ones of each list were left out."""

    started: Sequence[Named] = ()
    signed: Sequence[Named] = ()
    approved: Sequence[Named] = ()
    erased: Sequence[Named] = ()
    more: Mapping[str, int] = field(default_factory=dict)

    def lists(self) -> Sequence[tuple[str, str, Sequence[Named], int]]:
        """What they did, what is counted, who did, and how many more."""
        return [(did, unit, getattr(self, did), self.more.get(did, 0)) for did, unit in DID.items()]

    def to_json(self) -> Mapping[str, object]:
        """The member of the result document."""
        listed: dict[str, object] = {
            name: [one.to_json() for one in those] for name, _, those, _ in self.lists()
        }
        return {**listed, "more": {name: count for name, count in self.more.items() if count}}


def counted(one: Named, unit: str) -> str:
    """How often: ``1 record``, ``2 records``."""
    return f"{one.count} {unit.removesuffix('s') if one.count == 1 else unit}"
