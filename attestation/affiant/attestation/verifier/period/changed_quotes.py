"""The quotes of a period, then and now: all are counted, the first that changed are named, refused ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.verdict.since_archived import QuoteChanged, QuotesCounted

__all__ = ["MAX_QUOTES", "ChangedQuotes"]

MAX_QUOTES: Final = 100
"""Quotes that are named; it says how many more there are."""


@dataclass(slots=True)
class ChangedQuotes:
    """Takes quotes as cases are judged; each signer's once, a narrowed session's once for each epoch."""

    _known: set[tuple[str, int]] = field(default_factory=set)
    _moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    _changed: int = 0
    _refused: list[QuoteChanged] = field(default_factory=list)
    _others: list[QuoteChanged] = field(default_factory=list)

    def take(self, quotes: Iterable[QuoteChanged]) -> None:
        """Those of one case."""
        for quote in quotes:
            if (quote.key, quote.epoch) in self._known:  # a gateway of which there are several cases
                continue
            self._known.add((quote.key, quote.epoch))
            self._moves[quote.before.outcome, quote.after.outcome] += 1
            if quote.before.same == quote.after.same:
                continue
            self._changed += 1
            kept = self._others if quote.after.refused is None else self._refused
            if len(kept) < MAX_QUOTES:
                kept.append(quote)

    @property
    def named(self) -> Sequence[QuoteChanged]:
        """Those that changed, as far as they are named: in the order of their cases, refused ones first."""
        return (*self._refused, *self._others)[:MAX_QUOTES]

    def counted(self, keysets: int) -> QuotesCounted:
        """All of them. ``keysets``: of the archive."""
        return QuotesCounted(
            judged=len(self._known),
            changed=self._changed,
            unnamed=self._changed - len(self.named),
            not_judged=keysets - sum(epoch == 0 for _, epoch in self._known),
            moves=dict(self._moves),
        )
