"""Reports tests, coverage and mutation as text, Markdown, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from affiant.policy.loading.inline_tests import effect_of
from affiant.policy.rendering.markup import MAX_CELL, MAX_ROWS, markdown_page, markdown_table, markdown_text
from affiant.policy.rendering.review_formats import JUnitCase, junit_report
from affiant.policy.rendering.terminal import bounded
from affiant.policy.testing.coverage import RuleCoverage
from affiant.policy.testing.mutation import Fate, JudgedMutant
from affiant.policy.testing.trial import Trial, TriedProfile
from affiant.policy.testing.untested_limits import UntestedLimit, untested_limits

__all__ = ["Measure", "TrialReport"]

_MAX_SHOWN: Final = 50
"""Lines of one kind in the text; the JSON document has all."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How much of what should be is; ``least``: the percentage below which the run fails, if one was asked for."""

    name: str
    found: int
    total: int
    least: int | None

    @property
    def percent(self) -> int:
        """Rounded down: 100 says that nothing is missing."""
        return 100 if not self.total else self.found * 100 // self.total

    @property
    def missed(self) -> bool:
        """Whether it is below what was asked for."""
        return self.least is not None and self.percent < self.least

    @property
    def text(self) -> str:
        """Both numbers and the percentage."""
        wanted = f", less than the {self.least} % that were asked for" if self.missed else ""
        return f"{self.found} of {self.total} ({self.percent} %){wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """Everything about one file.

    Args:
        source: the file's name. digest: of all its profiles.
        coverage, mutants: None where they were not asked for.
        not_tried: mutants beyond the bound: they count as unnoticed.
        least: the percentage that both must reach.
    """

    source: str
    digest: str
    tried: tuple[TriedProfile, ...]
    coverage: tuple[RuleCoverage, ...] | None = None
    mutants: tuple[JudgedMutant, ...] | None = None
    not_tried: int = 0
    least: int | None = None

    @property
    def count(self) -> int:
        """Of all tests."""
        return sum(len(each.trials) for each in self.tried)

    @property
    def failed(self) -> Sequence[tuple[str, str, str, str]]:
        """The tests that do not hold: the place, the agent, what is wanted, and what was decided instead."""
        return [
            (str(trial.test.mark), each.profile.name, _wanted(trial, " for"), _decided(each, trial))
            for each in self.tried
            for trial in each.trials
            if not trial.holds
        ]

    @property
    def measures(self) -> Sequence[Measure]:
        """What was asked to be measured."""
        found = []
        if self.coverage is not None:
            covered = sum(rule.covered for rule in self.coverage)
            found.append(Measure("coverage", covered, len(self.coverage), self.least))
        if self.mutants is not None:
            noticed, unnoticed = self.fates(Fate.NOTICED), self.fates(Fate.UNNOTICED)
            total = noticed + unnoticed + self.not_tried
            found.append(Measure("mutation", noticed, total, self.least))
        return found

    @property
    def limits(self) -> Sequence[UntestedLimit]:
        """The limits of which what was measured says nothing."""
        return [limit for each in self.tried for limit in untested_limits(each)] if self.measures else []

    @property
    def ok(self) -> bool:
        """Whether every test holds and nothing that was asked for is missed; a file without tests is not ok."""
        return bool(self.count) and not self.failed and not any(measure.missed for measure in self.measures)

    def fates(self, fate: Fate) -> int:
        """How many of the mutants that were tried have it."""
        return sum(mutant.fate is fate for mutant in self.mutants or ())

    @property
    def count_text(self) -> str:
        """How many tests there are, and how many fail."""
        return (
            f"{self.count} tests, {len(self.failed)} failed" if self.count else "no tests: nothing was tried"
        )

    @property
    def missing(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Each thing measured, and the limits: its name, its text, and a line for each part that is missing."""
        for measure in self.measures:
            lines = _uncovered(self) if measure.name == "coverage" else _unnoticed(self)
            yield measure.name, measure.text, list(lines)
        if self.limits:
            many = "1 is" if len(self.limits) == 1 else f"{len(self.limits)} are"
            lines = (
                f"{each.where}: {each.agent}: {each.rule}: {each.limit} {each.says}" for each in self.limits
            )
            yield "limits", f"{many} not covered, because no test can ask for a limit", list(lines)

    # -- text --------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        for place, agent, wants, decided in self.failed:
            yield f"{place}: failed: {agent}: wants {wants}"
            yield f"  {decided}"
        yield self.count_text
        for name, text, lines in self.missing:
            yield f"{name}: {text}"
            yield from (f"  {line}" for line in bounded(lines, most=_MAX_SHOWN))

    # -- Markdown ----------------------------------------------------------------------------------------------

    def markdown(self) -> str:
        """Tests that do not hold, and what was asked to be measured with all that is missing."""
        head = ("place", "agent", "wants", "decided")
        page = [*markdown_table(head, self.failed, most=MAX_ROWS, cell=MAX_CELL)]
        for name, text, lines in self.missing:
            page += [f"**{name}**: {markdown_text(text)}", ""]
            heading = "limit" if name == "limits" else "missing"
            page += markdown_table((heading,), [(line,) for line in lines], most=MAX_ROWS, cell=MAX_CELL)
        return markdown_page(f"{self.source}: {self.count_text}", page)

    # -- JSON --------------------------------------------------------------------------------------------------

    def document(self) -> Mapping[str, object]:
        """Everything, for programs."""
        return {
            "ok": self.ok,
            "file": self.source,
            "policy_digest": self.digest,
            "tests": [_test(tried, trial) for tried in self.tried for trial in tried.trials],
            "failed": len(self.failed),
            "coverage": None
            if self.coverage is None
            else [{**asdict(rule), "covered": rule.covered} for rule in self.coverage],
            "mutants": None if self.mutants is None else list(map(asdict, self.mutants)),
            "mutants_not_tried": self.not_tried,
            "limits_not_tested": list(map(asdict, self.limits)),
            "measures": {
                each.name: {
                    "found": each.found,
                    "total": each.total,
                    "percent": each.percent,
                    "missed": each.missed,
                }
                for each in self.measures
            },
        }

    # -- JUnit -------------------------------------------------------------------------------------------------

    def junit(self) -> str:
        """One suite for each agent and one for what was measured; a file without tests is a failure."""
        wanted = [(each.name, each.text if each.missed else None) for each in self.measures]
        wanted += [] if self.count else [("tests", self.count_text)]
        measures = [JUnitCase(self.source, name, text) for name, text in wanted]
        return junit_report([*map(_suite, self.tried), ("measures", measures)])


_UNCOUNTED: Final = {
    Fate.EQUIVALENT: "every request is answered as the profile does",
    Fate.UNASKABLE: "no test can ask for what differs",
}


def _uncovered(report: TrialReport) -> Iterator[str]:
    for rule in report.coverage or ():
        if not rule.covered:
            yield f"{rule.where}: {rule.agent}: {rule.rule}: {', and '.join(rule.missing)}"


def _unnoticed(report: TrialReport) -> Iterator[str]:
    for fate in (Fate.EQUIVALENT, Fate.UNASKABLE):
        if report.fates(fate):
            yield f"not counted, because {_UNCOUNTED[fate]}: {report.fates(fate)}"
    if report.not_tried:
        yield f"{report.not_tried} more were not tried (--max-mutants), and count as unnoticed"
    for mutant in report.mutants or ():
        if mutant.fate is Fate.UNNOTICED:
            changed = f"{mutant.rule} {mutant.change}" if mutant.rule else mutant.change
            missing = mutant.missing_test or "some other"
            yield f"{mutant.where}: {mutant.agent}: {changed}: no test notices; {missing} would"


def _suite(tried: TriedProfile) -> tuple[str, Sequence[JUnitCase]]:
    name = tried.profile.name
    return name, [
        JUnitCase(
            f"{trial.test.mark.source}.{name}",
            _wanted(trial),
            None if trial.holds else f"{trial.test.mark}: {_decided(tried, trial)}",
        )
        for trial in tried.trials
    ]


def _wanted(trial: Trial, word: str = "") -> str:
    return f"{trial.test.wanted.value}{word} {trial.test.request}"


def _decided(tried: TriedProfile, trial: Trial) -> str:
    """What was decided instead of what a test wants, by which rules."""
    decision = trial.decision
    rules = "".join(f"; rule {rule} at {tried.profile.where(rule)}" for rule in decision.rules)
    if decision.nearest is not None:
        rules += f"; nearest {decision.nearest} at {tried.profile.where(decision.nearest)}"
    return f"{decision.effect.value}, because {decision.text} [{decision.reason}]{rules}"


def _test(tried: TriedProfile, trial: Trial) -> Mapping[str, object]:
    return {
        **tried.profile.decided(trial.decision),
        "agent": tried.profile.name,
        "where": str(trial.test.mark),
        "wants": trial.test.wanted.value,
        "request": trial.test.request,
        "holds": trial.holds,
        "effect": effect_of(trial.decision).value,
    }
