"""Verdicts: checks, tiers, levels, exit codes.

A check is *held*, *refused*, *not made* (what it needs is not there) or *not asked* (the reader did not ask).
Tiers are those of AR4SI, best to worst: affirming, warning, none, contraindicated. Levels are printed one by
one; *the* level is the highest one that held together with all below it. L1 of a session without a signed end
holds as *open* or *lost*.

Exit codes: any contraindicated check 20; else 30 where objects that records name are not there, or the reader's
demand is not met; else simulated 40; else by the worst tier: affirming 0, warning 10, none 30 (trust rules, 13;
process rules, "Words" and the corrections).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from affiant.attestation.verdict.actors import People
from affiant.attestation.verdict.outcome import (
    COMPLETE,
    LEVELS,
    NO_DEMAND,
    Demand,
    Outcome,
    Platform,
    is_below,
)
from affiant.attestation.verdict.summary import Answers, Counted, Summary
from affiant.attestation.verdict.time_bounds import BY_WITNESSES, TimeBounds, Unwitnessed
from affiant.attestation.verdict.timeline import Moment

if TYPE_CHECKING:
    from affiant.attestation.verdict.since_archived import Changed

__all__ = [
    "BEYOND_VERIFIER",
    "EXIT_CODES",
    "MAX_EXCEPTIONS",
    "Check",
    "Exceptional",
    "Finding",
    "LevelState",
    "Population",
    "State",
    "Tier",
    "Verdict",
    "exit_code_of",
    "tiers_that_count",
    "witnesses_called",
    "worst_of",
]


class State(StrEnum):
    """The result of a check."""

    HELD = "held"
    REFUSED = "refused"
    NOT_MADE = "not made"
    NOT_ASKED = "not asked"


class LevelState(StrEnum):
    """The result of a level."""

    HELD = "held"
    OPEN = "open"
    """L1: what is here is whole, and a session's signed end is not here."""
    LOST = "lost"
    """L1: the same, of sessions that are known to be lost."""
    REFUSED = "refused"
    NOT_MADE = "not made"
    NOT_ASKED = "not asked"


_REACHED: Final = frozenset({LevelState.HELD, LevelState.OPEN, LevelState.LOST})


class Tier(StrEnum):
    """AR4SI trust tiers, best to worst."""

    AFFIRMING = "affirming"
    WARNING = "warning"
    NONE = "none"
    CONTRAINDICATED = "contraindicated"


_ORDER: Final = tuple(Tier)

EXIT_CODES: Final[Mapping[Tier, int]] = {
    Tier.AFFIRMING: 0,
    Tier.WARNING: 10,
    Tier.CONTRAINDICATED: 20,
    Tier.NONE: 30,
}
EXIT_SIMULATED: Final = 40
_APPRAISED: Final = ("L4", "L5")
_SHOWN: Final = {Platform.SIMULATED: "SIMULATED, not hardware"}
"""In capitals, so that readers notice it."""
BEYOND_VERIFIER: Final = "verifier.limit"
"""The reason of a check that is not made because the verifier reads no more, and not because something is missing."""
MAX_EXCEPTIONS: Final = 100
"""Exceptions that a document or a page names; it counts the others."""


def worst_of(tiers: Iterable[Tier]) -> Tier:
    """The worst; none of nothing."""
    return max(tiers, key=_ORDER.index, default=Tier.NONE)


def exit_code_of(tier: Tier, *, simulated: bool, short: bool = False) -> int:
    """The exit code of ``affiant verify`` for a whole verdict.

    Args:
        short: it cannot be judged, or falls short of what its reader demands.
    """
    if tier is Tier.CONTRAINDICATED:
        return EXIT_CODES[tier]
    if short:
        return EXIT_CODES[Tier.NONE]
    return EXIT_SIMULATED if simulated else EXIT_CODES[tier]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check that was made found: its tier (contraindicated ones are raised instead) and what to print."""

    detail: str
    tier: Tier = Tier.AFFIRMING
    where: tuple[str, ...] = ()
    """Receipt ids of exceptions."""
    counted: Counted | None = None
    """What ``detail`` counts, where the cases of a period add up."""

    @classmethod
    def of(cls, counted: Counted, tier: Tier = Tier.AFFIRMING, where: tuple[str, ...] = ()) -> Finding:
        """A finding that is a count."""
        return cls(counted.text, tier, where, counted)


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the verdict."""

    code: str
    level: str | None
    state: State
    tier: Tier | None
    detail: str
    reason: str | None = None
    """Stable code of the refusal, or :data:`BEYOND_VERIFIER`."""
    where: tuple[str, ...] = ()
    required: bool = True
    counted: Counted | None = None
    """What ``detail`` counts; no part of the result document."""

    def to_json(self) -> Mapping[str, object]:
        """The row for the result document."""
        return {
            "code": self.code,
            "level": self.level,
            "state": str(self.state),
            "tier": None if self.tier is None else str(self.tier),
            "reason": self.reason,
            "where": list(self.where),
            "detail": self.detail,
            "required": self.required,
        }


def witnesses_called(quorum: Check | None) -> str:
    """What to call those who cosigned, by the row ``wit.quorum``."""
    own = quorum is not None and quorum.tier is Tier.WARNING
    return "the operator's own witness" if own else BY_WITNESSES


def tiers_that_count(checks: Iterable[Check]) -> list[Tier]:
    """Those of the required checks, and of every refused one."""
    return [
        check.tier
        for check in checks
        if check.tier is not None and (check.required or check.state is State.REFUSED)
    ]


@dataclass(frozen=True, slots=True)
class Population:
    """Who is in the bundle."""

    receipts: int = 0
    chains: int = 0
    restarts: int = 0
    started: int = 0
    closed: int = 0
    lost: int = 0
    open: int = 0
    foreign: int = 0
    """Sessions of which only the gateway's records are here: not judged."""
    refusals: int = 0
    kinds: Mapping[str, int] | None = None

    @property
    def ends(self) -> str:
        """How the sessions ended, in words: those that were judged, and how many were not."""
        unknown = self.started - self.closed - self.open - self.lost
        counts = {"open": self.open, "lost": self.lost, "not judged whole": unknown}
        if self.started == self.closed:
            counts = {"closed": self.closed}
        said = [f"{count} of {self.started} {word}" for word, count in counts.items() if count]
        said += [f"{self.foreign} not judged"] if self.foreign else []
        return ", ".join(said) or "none judged"

    @classmethod
    def of(
        cls, kinds: Mapping[str, int], states: Mapping[str, int], *, chains: int, started: int, foreign: int
    ) -> Population:
        """Of records by their kinds, and of sessions by how they ended: ``closed``, ``lost``, ``open``."""
        return cls(
            receipts=sum(kinds.values()),
            chains=chains,
            restarts=kinds.get("gap", 0),
            started=started,
            closed=states.get("closed", 0),
            lost=states.get("lost", 0),
            open=states.get("open", 0),
            foreign=foreign,
            refusals=kinds.get("refusal", 0),
            kinds=dict(kinds),
        )

    def to_json(self) -> Mapping[str, object]:
        """The counts for the result document."""
        return {
            "receipts": self.receipts,
            "chains": self.chains,
            "restarts": self.restarts,
            "sessions": {
                "started": self.started,
                "closed": self.closed,
                "lost": self.lost,
                "open": self.open,
                "not_judged": self.foreign,
            },
            "refusals": self.refusals,
            "kinds": dict(self.kinds or {}),
        }


class Exceptional(NamedTuple):
    """A receipt (or chain, or session) that a check names as what it refuses, or holds with less than it should."""

    check: Check
    where: str | None
    """None: the check names none."""

    def to_json(self) -> Mapping[str, object]:
        """One entry of the result document."""
        check = self.check
        return {
            "check": check.code,
            "reason": check.reason,
            "tier": None if check.tier is None else str(check.tier),
            "where": self.where,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking one bundle."""

    bundle: str
    """``sha256:`` name of the file."""
    at: str
    """The instant that collateral and trust entries were judged at, RFC 3339."""
    trust: str
    """``sha256:`` name of the trust file."""
    build: str
    """Build digest of the verifier, or that there is none."""
    evidence_class: str | None
    """What the chain's root makes it: ``hardware`` or ``simulated``; None if no quote was appraised."""
    checks: Sequence[Check]
    population: Population
    time: TimeBounds | None = None
    """Around the records of the sessions judged, by witnesses and anchors; None: time is the signers' word alone."""
    unwitnessed: Unwitnessed | None = None
    """The longest stretch for which the operator's clock alone speaks; None: there are no witnesses."""
    people: People = field(default_factory=People)
    """Who started, signed, approved and erased, of records that are all authentic."""
    changed: Changed | None = None
    """What changed since its own time, where it was judged now; None: that was not asked."""
    summary: Summary = field(default_factory=Summary)
    """What was used, refused and ended, of records that are all authentic."""
    timeline: Sequence[Moment] = ()
    """Authentic records in their order, for a report; no part of the result document."""
    demand: Demand = NO_DEMAND
    """What the reader wants reached."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """What the reader asked about, as ``Question.about`` has it; empty: the whole bundle."""
    of_all_sessions: bool = False
    """A period of which no single session was asked for: one that is not judged is not complete either."""

    @property
    def outcome(self) -> Outcome:
        """What the checks come to, whatever the platform is."""
        if any(check.state is State.REFUSED for check in self.checks):
            return Outcome.REJECTED
        if not self._has_objects:
            return Outcome.UNJUDGED
        whole = all(
            check.state is not State.NOT_MADE and check.tier is not Tier.WARNING
            for check in self.checks
            if check.required
        )
        return Outcome.HOLDS if whole and self.level in _APPRAISED else Outcome.IN_PART

    @property
    def _has_objects(self) -> bool:
        """Whether every object that records name is here, or is not required."""
        return not any(
            check.code == "bundle.objects" and check.required and check.state is State.NOT_MADE
            for check in self.checks
        )

    @property
    def platform(self) -> Platform:
        """What the evidence is of."""
        if self.simulated:
            return Platform.SIMULATED
        if self.evidence_class is None:
            return Platform.NONE
        return Platform.HARDWARE if self.level in _APPRAISED else Platform.CLAIMED

    @property
    def complete(self) -> bool:
        """Whether there is a session, and every one has its signed end. A session's bundle holds its neighbours'
        records of the gateway's chain: those sessions are not asked for."""
        ends = next((check for check in self.checks if check.code == "session.close"), None)
        held = ends is not None and ends.state is State.HELD
        wanted = self.population.started + (self.population.foreign if self.of_all_sessions else 0)
        return held and self.population.closed == wanted > 0

    @property
    def unmet(self) -> Mapping[str, str]:
        """What of the reader's demand is not reached: ``level``, ``complete``, and what is instead."""
        found = {}
        if is_below(self.level, self.demand.level):
            found["level"] = f"level {self.demand.level} is not reached, but {self.level or 'none'}"
        if self.demand.complete and not self.complete:
            found[COMPLETE] = f"sessions are not complete: {self.population.ends}"
        return found

    @property
    def answers(self) -> Answers | None:
        """What ``model.answered`` counted."""
        found = next((check.counted for check in self.checks if check.code == "model.answered"), None)
        return found if isinstance(found, Answers) else None

    @property
    def simulated(self) -> bool:
        """Whether the evidence is not of genuine hardware."""
        return self.evidence_class == "simulated"

    @property
    def tier(self) -> Tier:
        """The worst tier of the required checks that were made; capped as the trust rules say.

        A required check for which the bundle lacks something counts as none; what no bundle can have yet (the
        log, witnesses, time) takes no part, but caps the level. Simulated evidence is none at best; below L4
        the best is a warning.
        """
        floor = Tier.AFFIRMING if self.level in _APPRAISED else Tier.WARNING
        if self.simulated or self.unmet:
            floor = Tier.NONE
        return worst_of([worst_of(tiers_that_count(self.checks)), floor])

    @property
    def whose_time(self) -> str:
        """The time bounds, and whose word they are; for a person."""
        if self.time is None:
            return "the signers' word alone"
        return self.time.told(self.witnesses)

    @property
    def witnesses(self) -> str:
        """What to call those who cosigned: the operator's own witness is none of the reader's."""
        return witnesses_called(next((check for check in self.checks if check.code == "wit.quorum"), None))

    @property
    def exit_code(self) -> int:
        """The exit code of ``affiant verify``."""
        return exit_code_of(self.tier, simulated=self.simulated, short=self.short)

    @property
    def short(self) -> bool:
        """Whether it cannot be judged, or falls short of the reader's demand."""
        return self.outcome is Outcome.UNJUDGED or bool(self.unmet)

    def level_state(self, level: str) -> LevelState:
        """Refused if one check of the level was; else not made if one could not be; else held if one held
        (checks that were not asked take no part); else not asked. L1 that holds: open or lost if a session is."""
        states = {check.state for check in self.checks if check.level == level}
        order = (State.REFUSED, State.NOT_MADE, State.HELD, State.NOT_ASKED)
        state = next((state for state in order if state in states), State.NOT_MADE)
        if level == "L1" and state is State.HELD and (self.population.open or self.population.lost):
            return LevelState.OPEN if self.population.open else LevelState.LOST
        return LevelState(state.value)

    def level_meaning(self, level: str) -> str:
        """What a level says of this bundle: L1 how sessions ended, L4 on what platform."""
        if level == "L1" and self.level_state(level) in (LevelState.OPEN, LevelState.LOST):
            return f"what is here is whole; sessions without a signed end: {self.population.ends}"
        if level == "L4":
            return f"{LEVELS[level]}; platform: {_SHOWN.get(self.platform, self.platform)}"
        return LEVELS[level]

    @property
    def level(self) -> str | None:
        """The highest level that held together with all below it."""
        reached = None
        for level in LEVELS:
            if self.level_state(level) not in _REACHED:
                break
            reached = level
        return reached

    @property
    def stretch(self) -> str:
        """The longest unwitnessed stretch in words, or why there is none."""
        if self.unwitnessed is not None:
            own = "" if self.witnesses == BY_WITNESSES else f"; by {self.witnesses} alone"
            return f"{self.unwitnessed}{own}"
        return "not known: time.bracket does not hold"

    def exceptions(self) -> Iterator[Exceptional]:
        """Everything that was refused, or held with a warning or less, with each receipt that it names."""
        for check in self.checks:
            short = check.state is State.HELD and check.tier is not Tier.AFFIRMING
            if check.state is State.REFUSED or short:
                yield from (Exceptional(check, where) for where in check.where or (None,))

    def to_json(self) -> Mapping[str, object]:
        """The result document, ``affiant-verdict/1``."""
        exceptions = list(self.exceptions())
        return {
            "typ": "affiant-verdict/1",
            "bundle": self.bundle,
            "at": self.at,
            "trust": self.trust,
            "tool": {"name": "affiant", "build": self.build},
            "time": None if self.time is None else self.time.to_json(),
            "outcome": str(self.outcome),
            "platform_class": str(self.platform),
            "tier": str(self.tier),
            "simulated": self.simulated,
            "evidence_class": self.evidence_class,
            "level": self.level,
            "levels": {level: str(self.level_state(level)) for level in LEVELS},
            "exit_code": self.exit_code,
            "demand": {
                "level": self.demand.level,
                "complete": self.demand.complete,
                "unmet": list(self.unmet),
            },
            **({"asked": dict(self.asked)} if self.asked else {}),
            "requirements_off": sorted(check.code for check in self.checks if not check.required),
            "not_made": sorted(check.code for check in self.checks if check.state is State.NOT_MADE),
            "not_asked": sorted(check.code for check in self.checks if check.state is State.NOT_ASKED),
            "counts": self.population.to_json(),
            "unwitnessed": None if self.unwitnessed is None else self.unwitnessed.to_json(),
            "exceptions": {
                "shown": [each.to_json() for each in exceptions[:MAX_EXCEPTIONS]],
                "more": max(0, len(exceptions) - MAX_EXCEPTIONS),
            },
            "people": self.people.to_json(),
            "summary": self.summary.to_json(),
            "checks": [check.to_json() for check in self.checks],
            **({} if self.changed is None else {"changed": self.changed.to_json()}),
        }
