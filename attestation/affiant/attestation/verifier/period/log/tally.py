"""One row of a verdict out of many: what one check found, session after session."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.verdict.summary import Answers, Count, Counted
from affiant.attestation.verdict.verdict import Check, State, Tier
from affiant.errors import AffiantError

__all__ = ["MAX_WHERE", "Exceptions", "Tally"]

MAX_WHERE: Final = 100
"""Receipt ids that a row names; it says how many more there are."""


@dataclass(slots=True)
class Exceptions:
    """Refusals of one rule over many records: all are counted, the first are named."""

    count: int = 0
    first: AffiantError | None = None
    where: list[str] = field(default_factory=list)

    def add(self, error: AffiantError) -> None:
        """Take one."""
        self.count += 1
        self.first = self.first or error
        if error.where is not None and len(self.where) < MAX_WHERE:
            self.where.append(error.where)

    @property
    def text(self) -> str:
        """The first, and how many there are."""
        return str(self.first) if self.count <= 1 else f"{self.count} exceptions, the first: {self.first}"


@dataclass(slots=True)
class Tally:
    """What became of one check in each of the cases that it was made in.

    Args:
        any_suffices: it holds if it held in one case: of a body that one receipt commits to.
    """

    code: str
    level: str | None
    any_suffices: bool = False
    made: dict[State, int] = field(default_factory=dict)
    first: dict[State, Check] = field(default_factory=dict)
    warned: Check | None = None
    warnings: int = 0
    where: dict[State, list[str]] = field(default_factory=dict)
    tier: Tier = Tier.AFFIRMING
    counted: Counted | None = None
    """What the cases that held have counted together."""

    def add(self, check: Check, *, case: str) -> None:
        """Take what became of it in one case, called ``case``."""
        self.made[check.state] = self.made.get(check.state, 0) + 1
        self.first.setdefault(check.state, check)
        if check.state is State.HELD and check.counted is not None:
            if self.counted is None:
                self.counted = deepcopy(check.counted)  # the case's own stays as it was
            else:
                _add(self.counted, check.counted)
        if check.state is State.HELD and check.tier is not None:
            if check.tier is not Tier.AFFIRMING:
                self.warned = self.warned or check
                self.warnings += 1
            self.tier = max(self.tier, check.tier, key=tuple(Tier).index)
        if check.state is State.REFUSED or (check.state is State.HELD and check.where):
            places = self.where.setdefault(check.state, [])
            named = dict.fromkeys(check.where or (case,))
            new = [each for each in named if each not in places]  # several cases may name one order
            places += new[: MAX_WHERE - len(places)]

    @property
    def state(self) -> State:
        """The worst; of what suffices once, the best."""
        order = (State.REFUSED, State.NOT_MADE, State.HELD, State.NOT_ASKED)
        if self.any_suffices and State.HELD in self.made:
            return State.HELD
        return next((state for state in order if state in self.made), State.NOT_MADE)

    def to_check(self, *, required: bool, nothing: str) -> Check:
        """The row. ``nothing``: what is said where there was no case."""
        state = self.state
        if not self.made:
            return Check(self.code, self.level, State.NOT_MADE, Tier.NONE, nothing, required=required)
        count, total = self.made[state], sum(self.made.values())
        if state is State.HELD:
            shown = self.warned or self.first[state]
            count = self.warnings or count
            tier: Tier | None = self.tier
        else:
            shown, tier = self.first[state], self.first[state].tier
        counted = self.counted if state is State.HELD and shown.counted is not None else None
        text = shown.detail if counted is None else counted.text
        detail = text if total == 1 else f"{count} of {total}: {text}"
        where = tuple(self.where.get(state, ()))
        return Check(
            self.code,
            self.level,
            state,
            tier,
            detail,
            reason=shown.reason,
            where=where,
            required=required,
            counted=counted,
        )


def _add(total: Counted, more: Counted) -> None:
    if isinstance(total, Count) and isinstance(more, Count):
        total.number += more.number
        total.shared |= more.shared
        total.names |= more.names
    elif isinstance(total, Answers) and isinstance(more, Answers):
        total.named += more.named
        total.unnamed += more.unnamed
        total.others += more.left
        for pair, count in more.pairs.items():
            total.other(*pair, count)
