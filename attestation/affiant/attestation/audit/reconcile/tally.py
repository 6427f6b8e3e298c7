"""Counts of a reconciliation, and of each finding the first few. Pure; its size does not depend on the record's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.audit.reconcile.claim_index import ClaimIndex
from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.results import Result, Rule, State
from affiant.attestation.audit.records_of_others.scope import Scope

__all__ = ["EXIT_AMBIGUOUS", "EXIT_MISSING", "Receipts", "Tally", "count_receipts", "unexplained"]

EXIT_AMBIGUOUS: Final = 10
EXIT_MISSING: Final = 20
_SHOWN_STATES: Final = (State.MISSING, State.AMBIGUOUS, State.UNREADABLE)


@dataclass(slots=True)
class Tally:
    """What became of the items."""

    most_shown: int
    states: dict[State, int] = field(default_factory=lambda: dict.fromkeys(State, 0))
    rules: dict[Rule, int] = field(default_factory=lambda: dict.fromkeys(Rule, 0))
    other_work: int = 0
    short: int = 0
    """At least so many of the ambiguous items have no receipt."""
    shown: dict[State, list[Result]] = field(default_factory=lambda: {state: [] for state in _SHOWN_STATES})

    def has_room(self, state: State) -> bool:
        """Whether one more of this state would be shown."""
        return len(self.shown.get(state, ())) < self.most_shown and state in self.shown

    def add(self, result: Result) -> None:
        """Count one result."""
        self.states[result.state] += 1
        if result.state is State.MATCHED and result.rule is not None:
            self.rules[result.rule] += 1
        examples = self.shown.get(result.state)
        if examples is not None and len(examples) < self.most_shown:
            examples.append(result)

    @property
    def items(self) -> int:
        """Items that were asked about."""
        return sum(self.states[state] for state in (State.MATCHED, State.AMBIGUOUS, State.MISSING))

    @property
    def exit_code(self) -> int:
        """20 something has no receipt; 10 something could not be decided, or there was nothing to follow; else 0."""
        if self.states[State.MISSING] or self.short:
            return EXIT_MISSING
        if self.states[State.AMBIGUOUS] or self.states[State.UNREADABLE] or not self.items:
            return EXIT_AMBIGUOUS
        return 0


@dataclass(frozen=True, slots=True)
class Receipts:
    """The other direction: requests that receipts of the range know of.

    Args:
        compared: requests that the record should have.
        explained: those that explain an item.
        contested: those that could explain several, or one of several.
        unexplained: those that no item of the record is about; ``shown`` are the first.
        undisclosed: fact -> how many of the requests do not disclose it; it was not compared there.
    """

    compared: int
    explained: int
    contested: int
    unexplained: int
    undisclosed: Mapping[str, int]
    shown: tuple[Claim, ...]


def count_receipts(index: ClaimIndex, scope: Scope, *, most_shown: int) -> Receipts:
    """The other direction, after the items were matched."""
    marks = {0: 0, 1: 0, 2: 0}
    shown: list[Claim] = []
    undisclosed: dict[str, int] = {}
    for claim, mark in _asked(index, scope):
        marks[mark] += 1
        for name in claim.undisclosed:
            undisclosed[name] = undisclosed.get(name, 0) + 1
        if mark == 0 and len(shown) < most_shown:
            shown.append(claim)
    return Receipts(sum(marks.values()), marks[1], marks[2], marks[0], undisclosed, tuple(shown))


def unexplained(index: ClaimIndex, scope: Scope) -> Iterable[Claim]:
    """Requests that no item is about, the oldest first."""
    return (claim for claim, mark in _asked(index, scope) if mark == 0)


def _asked(index: ClaimIndex, scope: Scope) -> Iterable[tuple[Claim, int]]:
    order = sorted(
        range(len(index.claims)), key=lambda each: (index.claims[each].at, index.claims[each].rh, each)
    )
    for number in order:
        claim = index.claims[number]
        if claim.expected and scope.has_time(claim.at) and scope.has_host(claim.authority):
            yield claim, index.taken[number]
