"""One verdict over several bundles: each one's own, and what they say of each other.

Nothing gets better by company: the tier is the worst of all verdicts and of the rows across, simulated as soon as one
of them is, and the exit code follows by the rule of a single verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from affiant.attestation.verdict.verdict import (
    LEVELS,
    Check,
    Population,
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
        return exit_code_of(self.tier, simulated=self.simulated)

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
