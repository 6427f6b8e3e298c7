"""Items to receipts, one to one, by the same answer for every order of the items. Pure.

Rules are applied one after the other, the strongest first, each to all items at once. Under one rule, items and the
claims that could explain them form a graph; its connected parts are judged whole:

1. a part of one item and one claim is a match: nothing else could be meant;
2. a part of one item that is a whole connection (CONNECT) and of requests made inside of it is a match too;
3. every other part is ambiguous, all of it. If it has more items than claims, some item certainly has no receipt, and
   the part says how many: an id that stands in a log twice explains one item at most.

Under a rule without an id, a first step that also asks for an equal length decides by (1) alone. An item that names a
receipt is judged by that name alone: if no such receipt is here, or it says something else, the item is missing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Final

from affiant.attestation.reconcile.claim_index import ClaimIndex
from affiant.attestation.reconcile.item import OTHER_HOST, Item, NotAnItem, Read, Unreadable
from affiant.attestation.reconcile.item_store import ItemStore, Row, packed, unpacked
from affiant.attestation.reconcile.results import Group, Result, Rule, State
from affiant.attestation.reconcile.scope import Scope

__all__ = ["Matching"]

_MAX_SHOWN: Final = 8
"""Candidates that are named of an ambiguous item."""
_NONE: Final = -1
_BATCH: Final = 2000
_ORDER: Final = (Rule.RECEIPT, Rule.TRACE, Rule.LENGTHS, Rule.REQUEST)


class _End(IntEnum):
    """What is known of a row, one byte each."""

    OPEN = 0
    MATCHED = 1
    AMBIGUOUS = 2
    MISSING = 3
    SET_ASIDE = 4


_STATES: Final = {_End.MATCHED: State.MATCHED, _End.AMBIGUOUS: State.AMBIGUOUS, _End.MISSING: State.MISSING}


class _Parts:
    """Connected parts: claims joined by items (union-find), and how many items each part has."""

    def __init__(self, claims: int) -> None:
        self._parent = array("q", range(claims))
        self._claims = array("q", [1]) * claims
        self._items = array("q", [0]) * claims
        self._asked = array("q", [0]) * claims

    def root(self, claim: int) -> int:
        """The claim that stands for the part of ``claim``."""
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


class Matching:
    """One matching of everything in ``store``. Ten bytes of memory for each row, besides the claims.

    Items outside of the range that was asked about take part, so that no receipt of theirs explains another item.
    """

    def __init__(self, store: ItemStore, index: ClaimIndex) -> None:
        self._store = store
        self._index = index
        self._ends = bytearray()
        self._rules = bytearray()
        self._claim = array("q")
        self._parts: dict[Rule, _Parts] = {}
        self._inside: dict[int, list[int]] = {}
        """Matched row -> its claim, or those inside of its connection."""
        self._contested: dict[tuple[Rule, int], list[int]] = {}
        """Rule and root of an ambiguous part -> its first claims."""

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
        self._rules = bytearray(len(self._ends))
        self._claim = array("q", [_NONE]) * len(self._ends)
        for rule in (Rule.RECEIPT, Rule.TRACE, Rule.REQUEST):
            if rule is not Rule.RECEIPT:
                self._apply(rule, lengths=True)
            self._apply(rule, lengths=False)

    def _apply(self, rule: Rule, *, lengths: bool) -> None:
        parts = self._parts[rule] = _Parts(len(self._index.claims))
        tunnels: set[int] = set()
        for row, (_, text, reason) in enumerate(self._store):
            if text is None or self._ends[row] != _End.OPEN:
                continue
            item = unpacked(text)
            if (self._index.named_by(item) is not None) != (rule is Rule.RECEIPT):
                continue
            candidates = self._index.candidates(item, rule, lengths=lengths)
            if candidates:
                parts.join(candidates, asked=reason is None)
                self._claim[row] = candidates[0]
                if item.tunnel and not any(self._index.claims[each].tunnel for each in candidates):
                    tunnels.add(row)
            elif rule is not Rule.TRACE and not lengths:
                self._ends[row] = _End.MISSING
        self._decide(rule, parts, tunnels, lengths=lengths)

    def _decide(self, rule: Rule, parts: _Parts, tunnels: set[int], *, lengths: bool) -> None:
        matched: dict[int, int] = {}
        ambiguous: set[int] = set()
        for row, end in enumerate(self._ends):
            claim = self._claim[row]
            if end != _End.OPEN or claim == _NONE:
                continue
            if parts.is_single(claim, tunnel=row in tunnels):
                self._ends[row] = _End.MATCHED
                matched[parts.root(claim)] = row
            elif lengths:
                self._claim[row] = (
                    _NONE  # the next step sees more candidates, and so more that could be confused
                )
                continue
            else:
                self._ends[row] = _End.AMBIGUOUS
                ambiguous.add(parts.root(claim))
            by_lengths = lengths and rule is Rule.REQUEST
            self._rules[row] = _ORDER.index(Rule.LENGTHS if by_lengths else rule)
        if matched or ambiguous:
            self._give(rule, parts, matched, ambiguous)

    def _give(self, rule: Rule, parts: _Parts, matched: dict[int, int], ambiguous: set[int]) -> None:
        """Claims of a match explain nothing else; those of an ambiguous part explain nothing by a weaker rule."""
        for claim in range(len(self._index.claims)):
            root = parts.root(claim)
            if (row := matched.get(root)) is not None:
                self._inside.setdefault(row, []).append(claim)
                self._index.take(claim, rule)
            elif root in ambiguous:
                self._index.contest(claim, rule)
                shown = self._contested.setdefault((rule, root), [])
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
        rule, claim = _ORDER[self._rules[row]], self._claim[row]
        if state is State.MATCHED:
            names = tuple(self._index.claims[each].receipt for each in self._inside[row])
            apart = None if item is None else self._index.apart(item, claim)
            return Result(line, state, item, rule, names, apart_ms=apart)
        if state is State.AMBIGUOUS:
            parts = self._parts[rule]
            shown = self._contested[rule, parts.root(claim)]
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
        return sum(self._parts[rule].group(root).short for rule, root in self._contested)
