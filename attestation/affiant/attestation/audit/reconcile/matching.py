"""Items to receipts, one to one, by the same answer for every order of the items. Pure.

Rules are applied one after the other, the strongest first, each to all items at once. Under one rule, items and the
claims that could explain them form a graph; its connected parts are judged whole:

1. a part of one item and one claim is a match: nothing else could be meant;
2. a part of one item that is a whole connection (CONNECT) and of requests made inside of it is a match too;
3. every other part is ambiguous, all of it. If it has more items than claims, some item certainly has no receipt, and
   the part says how many: an id that is in a log twice explains one item at most.

Under a rule without an id, a first step that also asks for an equal length decides by (1) alone. An item that names a
receipt is judged by that name alone: if no such receipt is here, or it says something else, the item is missing.
Connections come last: a proxy that opens them has lines for the requests inside as well. A connection of which every
request explains a line of its own is ambiguous: nothing says that there was no other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from affiant.attestation.audit.reconcile.claim_index import ClaimIndex
from affiant.attestation.audit.reconcile.item_store import ItemStore, Row, packed, unpacked
from affiant.attestation.audit.reconcile.parts import Parts
from affiant.attestation.audit.reconcile.results import Result, Rule, State
from affiant.attestation.audit.records_of_others.item import OTHER_HOST, Item, NotAnItem, Read, Unreadable
from affiant.attestation.audit.records_of_others.scope import Scope

__all__ = ["Matching"]

_MAX_SHOWN: Final = 8
"""Candidates that are named of an ambiguous item."""
_NONE: Final = -1
_BATCH: Final = 2000


@dataclass(frozen=True, slots=True)
class _Step:
    """One rule over all items. ``lengths``: only pairs with an equal length; ``tunnel``: connections, or requests."""

    rule: Rule
    lengths: bool = False
    tunnel: bool | None = None


_STEPS: Final = (
    _Step(Rule.RECEIPT),
    _Step(Rule.TRACE, lengths=True),
    _Step(Rule.TRACE),
    _Step(Rule.LENGTHS, lengths=True),
    _Step(Rule.REQUEST, tunnel=False),
    _Step(Rule.REQUEST, tunnel=True),
)


class _End(IntEnum):
    """What is known of a row, one byte each."""

    OPEN = 0
    MATCHED = 1
    AMBIGUOUS = 2
    MISSING = 3
    SET_ASIDE = 4
    CARRIER = 5
    """A connection whose requests explain lines of their own."""


_STATES: Final = {
    _End.MATCHED: State.MATCHED,
    _End.AMBIGUOUS: State.AMBIGUOUS,
    _End.CARRIER: State.AMBIGUOUS,
    _End.MISSING: State.MISSING,
}


class Matching:
    """One matching of everything in ``store``. Ten bytes of memory for each row, besides the claims.

    Items outside of the range that was asked about take part, so that no receipt of theirs explains another item.
    """

    def __init__(self, store: ItemStore, index: ClaimIndex) -> None:
        self._store = store
        self._index = index
        self._ends = bytearray()
        self._steps = bytearray()
        self._claim = array("q")
        self._parts: dict[int, Parts] = {}
        self._inside: dict[int, list[int]] = {}
        """Matched row -> its claim, or those inside of its connection."""
        self._contested: dict[tuple[int, int], list[int]] = {}
        """Step and root of an ambiguous part -> its first claims."""

    def load(self, rows: Iterable[tuple[int, Read]], scope: Scope) -> int:
        """Put the record into the store; returns how many rows were other work, which is counted alone."""
        other = 0
        batch: list[Row] = []
        for line, read in rows:
            if isinstance(read, NotAnItem):
                other += 1
                continue
            batch.append(self._begun(line, read, scope))
            if len(batch) >= _BATCH:
                self._store.add(batch)
                batch.clear()
        self._store.add(batch)
        return other

    def _begun(self, line: int, read: Item | Unreadable, scope: Scope) -> Row:
        """The row of one line. Most lines of a long log are about something else, and are decided here already."""
        if isinstance(read, Unreadable):
            self._ends.append(_End.SET_ASIDE)
            return line, None, read.reason
        reason = scope.left_out(read)
        if reason == OTHER_HOST:
            self._ends.append(_End.SET_ASIDE)
        else:
            self._ends.append(_End.OPEN if self._index.has_any(read) else _End.MISSING)
        return line, packed(read), reason

    def run(self) -> None:
        """Decide every row; once, after :meth:`load`."""
        self._steps = bytearray(len(self._ends))
        self._claim = array("q", [_NONE]) * len(self._ends)
        for number in range(len(_STEPS)):
            self._apply(number)

    def _apply(self, number: int) -> None:
        step, parts = _STEPS[number], Parts(len(self._index.claims))
        self._parts[number] = parts
        tunnels: set[int] = set()
        for row, (_, text, reason) in enumerate(self._store):
            if text is None or self._ends[row] != _End.OPEN:
                continue
            item = unpacked(text)
            if (self._index.named_by(item) is not None) != (step.rule is Rule.RECEIPT):
                continue
            if step.tunnel not in (None, item.tunnel):
                continue
            candidates = self._index.candidates(item, step.rule, lengths=step.lengths)
            if candidates:
                parts.join(candidates, asked=reason is None)
                self._claim[row] = candidates[0]
                if item.tunnel and not any(self._index.claims[each].tunnel for each in candidates):
                    tunnels.add(row)
            elif step.rule in (Rule.RECEIPT, Rule.REQUEST):
                self._ends[row] = _End.CARRIER if item.tunnel and self._index.carried(item) else _End.MISSING
        self._decide(number, parts, tunnels)

    def _decide(self, number: int, parts: Parts, tunnels: set[int]) -> None:
        matched: dict[int, int] = {}
        ambiguous: set[int] = set()
        for row, end in enumerate(self._ends):
            claim = self._claim[row]
            if end != _End.OPEN or claim == _NONE:
                continue
            if parts.is_single(claim, tunnel=row in tunnels):
                self._ends[row] = _End.MATCHED
                matched[parts.root(claim)] = row
            elif _STEPS[
                number
            ].lengths:  # the next step sees more candidates, and so more that could be confused
                self._claim[row] = _NONE
                continue
            else:
                self._ends[row] = _End.AMBIGUOUS
                ambiguous.add(parts.root(claim))
            self._steps[row] = number
        if matched or ambiguous:
            self._give(number, parts, matched, ambiguous)

    def _give(self, number: int, parts: Parts, matched: dict[int, int], ambiguous: set[int]) -> None:
        """Claims of a match explain nothing else; those of an ambiguous part explain nothing by a weaker rule."""
        rule = _STEPS[number].rule
        for claim in range(len(self._index.claims)):
            root = parts.root(claim)
            if (row := matched.get(root)) is not None:
                self._inside.setdefault(row, []).append(claim)
                self._index.take(claim, rule)
            elif root in ambiguous:
                self._index.contest(claim, rule)
                shown = self._contested.setdefault((number, root), [])
                if len(shown) < _MAX_SHOWN:
                    shown.append(claim)

    def results(self, is_shown: Callable[[State], bool]) -> Iterator[Result]:
        """Every row's end, in the order of the rows; call :meth:`run` first.

        Args:
            is_shown: whether a result of this state is shown; others come without their item.
        """
        for row, (line, text, reason) in enumerate(self._store):
            if text is None:
                yield Result(line, State.UNREADABLE, reason=reason)
                continue
            state = State.OUT_OF_RANGE if reason is not None else _STATES[_End(self._ends[row])]
            item = unpacked(text) if is_shown(state) else None
            if reason is not None:
                yield Result(line, state, item, reason=reason)
            else:
                yield self._result(row, line, state, item)

    def _result(self, row: int, line: int, state: State, item: Item | None) -> Result:
        number, claim = self._steps[row], self._claim[row]
        rule = _STEPS[number].rule
        if state is State.MATCHED:
            names = tuple(self._index.claims[each].receipt for each in self._inside[row])
            apart = None if item is None else self._index.apart(item, claim)
            return Result(line, state, item, rule, names, apart_ms=apart)
        if self._ends[row] == _End.CARRIER:
            return Result(line, state, item, reason="a connection whose requests explain other lines")
        if state is State.AMBIGUOUS:
            parts = self._parts[number]
            shown = self._contested[number, parts.root(claim)]
            names = tuple(dict.fromkeys(self._index.claims[each].receipt for each in shown))
            return Result(line, state, item, rule, names, group=parts.group(claim))
        return Result(line, state, item, reason=None if item is None else self._why_missing(item))

    def _why_missing(self, item: Item) -> str:
        named = self._index.named_by(item)
        if named is None:
            differing = self._index.nearly(item)
            return (
                f"no receipt fits; the nearest differ in {', '.join(differing)}"
                if differing
                else "no receipt fits"
            )
        if not self._index.knows(named):
            return f"it names receipt {named}, which is not here"
        if differing := self._index.contradicted(item):
            return f"it names receipt {named}, which says otherwise: {', '.join(differing)}"
        return f"it names receipt {named}, which explains another item"

    def short(self) -> int:
        """At least so many ambiguous items have no receipt."""
        return sum(self._parts[number].group(root).short for number, root in self._contested)
