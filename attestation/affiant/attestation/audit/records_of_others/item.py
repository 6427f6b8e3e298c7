"""Lines of an independent record, read: what can be followed, what cannot, and what is no item."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.audit.records_of_others.facts import Authority, Facts

__all__ = ["OTHER_HOST", "OTHER_TIME", "Item", "NotAnItem", "Read", "Unreadable"]

OTHER_HOST: Final = "another host than was asked about"
OTHER_TIME: Final = "outside of the range that was asked about"


@dataclass(frozen=True, slots=True)
class Item:
    """One request in an independent record.

    Args:
        begun, ended: milliseconds since 1970; equal where the record has one time.
        receipt: the receipt id that the record names, 22 characters.
        maybe_receipt: an id that is a receipt's if a receipt has it, and anything else if none has.
        tunnel: a connection of which the record does not see the requests (CONNECT).
        query_unknown: the record cuts queries off.
        reference: the record's own name of it, to show.
    """

    begun: int
    ended: int
    authority: Authority | None = None
    facts: Facts = field(default_factory=Facts)
    receipt: str | None = None
    maybe_receipt: str | None = None
    tunnel: bool = False
    query_unknown: bool = False
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that says nothing that could be followed without guessing; ``reason`` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotAnItem:
    """Something well-formed that is no request to a model or host (a span of other work); counted."""

    what: str


Read = Item | Unreadable | NotAnItem
