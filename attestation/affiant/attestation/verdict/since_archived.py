"""What became of an archived bundle since its own time: the facts, to be shown beside the verdict of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Changed", "CheckChanged", "Ended", "QuoteChanged", "QuotesCounted", "Worth"]


class CheckChanged(NamedTuple):
    """A row that is another now. ``reason``: why, of the row that refused, now or then."""

    code: str
    state_before: str
    tier_before: str | None
    state_after: str
    tier_after: str | None
    reason: str | None
    detail: str

    def to_json(self) -> Mapping[str, object]:
        """One entry of the result document."""
        return self._asdict()


class Worth(NamedTuple):
    """What a quote is worth at one instant.

    Args:
        tcb: the merged TCB status; None: the quote does not verify at all.
        advisories: of the levels that it reaches.
        evaluation: the TCB evaluation number of the collateral. issued: when its older document was.
        refused: code of what refused it, in verification or appraisal; ``not_made``: it was not judged.
        detail: the refusal in words.
    """

    tcb: str | None = None
    advisories: frozenset[str] = frozenset()
    evaluation: int | None = None
    issued: str | None = None
    refused: str | None = None
    detail: str = ""

    @property
    def same(self) -> tuple[object, ...]:
        """What makes it another worth: not that newer collateral says the same again."""
        return self.tcb, self.advisories, self.refused

    @property
    def outcome(self) -> str:
        """In a word or two: what refused it, or else its TCB status."""
        return f"[{self.refused}]" if self.refused is not None else str(self.tcb)

    def to_json(self) -> Mapping[str, object]:
        """``before`` or ``after`` of a quote."""
        return self._asdict() | {"advisories": sorted(self.advisories)}


@dataclass(frozen=True, slots=True)
class QuoteChanged:
    """One signer's quote, then and now.

    Args:
        session: of a period bundle's supervisor: its session. then: of a period bundle: the instant of ``before``.
        epoch: of a supervisor's: how many narrowings came before it.
    """

    role: str
    key: str
    before: Worth
    after: Worth
    session: str | None = None
    then: str | None = None
    epoch: int = 0

    @property
    def appeared(self) -> Sequence[str]:
        """Advisories that there were not."""
        return sorted(self.after.advisories - self.before.advisories)

    def to_json(self) -> Mapping[str, object]:
        """One entry of the result document."""
        return {
            "role": self.role,
            "key": self.key,
            **({} if self.session is None else {"session": self.session}),
            **({} if self.then is None else {"then": self.then}),
            **({} if self.epoch == 0 else {"epoch": self.epoch}),
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "advisories_appeared": list(self.appeared),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotesCounted:
    """All quotes of a period bundle, of which only some are named.

    Args:
        judged: quotes that were. changed: those that are worth something else now. unnamed: of these, how many
            :attr:`Changed.quotes` does not name.
        not_judged: keysets whose quotes were not come to.
        moves: outcome then, outcome now -> how many; also of those that are worth the same.
    """

    judged: int
    changed: int
    unnamed: int
    not_judged: int
    moves: Mapping[tuple[str, str], int]

    def to_json(self) -> Mapping[str, object]:
        """Member ``quotes_counted``."""
        return {
            "judged": self.judged,
            "changed": self.changed,
            "unnamed": self.unnamed,
            "not_judged": self.not_judged,
            "moves": [
                {"before": before, "after": after, "count": count}
                for (before, after), count in sorted(self.moves.items())
            ],
        }


class Ended(NamedTuple):
    """An entry of the reader's own trust file that counted then and does not now, by ``until`` or ``revoked_at``."""

    list: str
    value: str
    why: str
    at: str

    def to_json(self) -> Mapping[str, object]:
        """One entry of the result document."""
        return self._asdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Everything that changed.

    Args:
        then: the bundle's own time, RFC 3339. by: whose word that is: ``witnesses``, ``the operator's own
            witness``, ``timestamp authority``, ``signers``, or ``asked`` where the reader gave it.
        tier, level, exit_code: of the verdict at that time.
        own_collateral: whether the quotes were judged again with the reader's; else with what is archived.
        checks: the rows that are others now. quotes: every quote that is judged, changed or not; of a period bundle
            some of those that changed.
        ended: entries of the trust file.
        counted: of a period bundle: how many quotes there are, and what became of them.
    """

    then: str
    by: str
    tier: str
    level: str | None
    exit_code: int
    own_collateral: bool
    checks: Sequence[CheckChanged]
    quotes: Sequence[QuoteChanged]
    ended: Sequence[Ended]
    counted: QuotesCounted | None = None

    def to_json(self) -> Mapping[str, object]:
        """Member ``changed`` of the result document."""
        return {
            "then": {
                "at": self.then,
                "by": self.by,
                "tier": self.tier,
                "level": self.level,
                "exit_code": self.exit_code,
            },
            "collateral": "own" if self.own_collateral else "archived",
            "checks": [each.to_json() for each in self.checks],
            "quotes": [each.to_json() for each in self.quotes],
            **({} if self.counted is None else {"quotes_counted": self.counted.to_json()}),
            "trust_ended": [each.to_json() for each in self.ended],
        }
