"""One verdict over several bundles: each one's own, and what they say of each other.

Nothing gets better by company: the tier is the worst of all verdicts and of the rows across, simulated as soon as one
of them is, and the exit code follows by the rule of a single verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from affiant.attestation.verdict.lines import quoted
from affiant.attestation.verdict.outcome import LEVELS, Outcome, Platform, worst_outcome
from affiant.attestation.verdict.verdict import (
    Check,
    Population,
    State,
    Tier,
    Verdict,
    exit_code_of,
    tiers_that_count,
    worst_of,
)

__all__ = ["CombinedVerdict", "Judged"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One bundle's verdict, under the name that the reader calls the bundle by."""

    file: str
    verdict: Verdict
    untold: int = 0
    """Records that were taken from the verdict's timeline, so that it has room beside the others'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedVerdict:
    """The result of checking several bundles at one instant under one trust file."""

    at: str
    trust: str
    build: str
    judged: Sequence[Judged]
    across: Sequence[Check]
    population: Population
    """Of all bundles; a record that several carry is counted once."""

    @property
    def tier(self) -> Tier:
        """The worst."""
        tiers = [each.verdict.tier for each in self.judged]
        return worst_of([*(tiers or [Tier.NONE]), *tiers_that_count(self.across)])

    @property
    def outcome(self) -> Outcome:
        """The worst; what bundles say of each other can be refused, or not made, too."""
        states = {check.state for check in self.across if check.required}
        found = [each.verdict.outcome for each in self.judged]
        found += [Outcome.IN_PART] if State.NOT_MADE in states else []
        found += [Outcome.REJECTED] if State.REFUSED in {check.state for check in self.across} else []
        return worst_outcome(found)

    @property
    def platform(self) -> Platform:
        """The worst class of all."""
        return max(
            (each.verdict.platform for each in self.judged), key=tuple(Platform).index, default=Platform.NONE
        )

    @property
    def asked(self) -> Mapping[str, str]:
        """What was asked of each bundle."""
        return self.judged[0].verdict.asked if self.judged else {}

    @property
    def unmet(self) -> Mapping[str, str]:
        """What of the reader's demand a bundle does not reach; the first that does not."""
        found: dict[str, str] = {}
        for each in self.judged:
            for name, text in each.verdict.unmet.items():
                found.setdefault(name, f"{text} (in {quoted(each.file)})")
        return found

    @property
    def simulated(self) -> bool:
        """Whether the evidence of any bundle is not of genuine hardware."""
        return any(each.verdict.simulated for each in self.judged)

    @property
    def level(self) -> str | None:
        """The lowest level that any of the bundles reaches."""
        order = [None, *LEVELS]
        return min((each.verdict.level for each in self.judged), key=order.index, default=None)

    @property
    def exit_code(self) -> int:
        """The exit code of ``affiant verify``."""
        return exit_code_of(self.tier, simulated=self.simulated, short=self.short)

    @property
    def short(self) -> bool:
        """Whether any bundle cannot be judged, or falls short of the reader's demand."""
        return any(each.verdict.short for each in self.judged)

    @property
    def unwitnessed(self) -> Judged | None:
        """The bundle with the longest unwitnessed stretch; None: of no bundle one is known."""
        known = [each for each in self.judged if _stretch(each) >= 0]
        return max(known, key=_stretch, default=None)

    def to_json(self) -> Mapping[str, object]:
        """The result document, ``affiant-verdicts/1``."""
        return {
            "typ": "affiant-verdicts/1",
            "at": self.at,
            "trust": self.trust,
            "tool": {"name": "affiant", "build": self.build},
            "outcome": str(self.outcome),
            "platform_class": str(self.platform),
            "tier": str(self.tier),
            "simulated": self.simulated,
            "level": self.level,
            "exit_code": self.exit_code,
            "counts": self.population.to_json(),
            "unwitnessed": self._unwitnessed(),
            "across": [check.to_json() for check in self.across],
            "verdicts": [{"file": each.file, **each.verdict.to_json()} for each in self.judged],
        }

    def _unwitnessed(self) -> Mapping[str, object]:
        longest = self.unwitnessed
        return {
            "longest_s": None if longest is None else _stretch(longest),
            "file": None if longest is None else longest.file,
            "not_known": sum(1 for each in self.judged if _stretch(each) < 0),
        }


def _stretch(judged: Judged) -> int:
    """Seconds; -1 where it is not known."""
    found = judged.verdict.unwitnessed
    return -1 if found is None or found.seconds is None else found.seconds
