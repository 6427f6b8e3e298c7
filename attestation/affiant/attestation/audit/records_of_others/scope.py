"""Says what the auditor asks about: a range of time and some hosts. No bundle can make it smaller."""

from __future__ import annotations

from dataclasses import dataclass

from affiant.attestation.audit.records_of_others.facts import Authority
from affiant.attestation.audit.records_of_others.item import OTHER_HOST, OTHER_TIME, Item

__all__ = ["Scope"]


@dataclass(frozen=True, slots=True)
class Scope:
    """None: everything. ``begin`` is inside and ``end`` outside, milliseconds since 1970."""

    begin: int | None = None
    end: int | None = None
    hosts: frozenset[Authority] | None = None

    def left_out(self, item: Item) -> str | None:
        """Why the item is out of range; None: it is not."""
        if self.hosts is not None and not self.has_host(item.authority):
            return OTHER_HOST
        return None if self.has_time(item.ended) else OTHER_TIME

    def has_time(self, at: int) -> bool:
        """Whether the time is asked about."""
        return (self.begin is None or at >= self.begin) and (self.end is None or at < self.end)

    def has_host(self, authority: Authority | None) -> bool:
        """Whether the host is asked about; one that is not known is, so that nothing is lost."""
        if self.hosts is None or authority is None:
            return True
        return any(not authority.contradicts(each) for each in self.hosts)
