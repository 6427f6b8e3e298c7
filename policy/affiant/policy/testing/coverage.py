"""Finds which rules the tests of a profile cover, by an allow test and a near-miss deny test.

A rule that allows is covered by two tests: one that it allows, and a near miss, which shows that it allows no more.
A near miss is a request that no denial denies, and whose nearest allow is the rule, or which differs from a request
that the rule allows in one dimension: another method, another path, another host. (A request that a denial denies would
be denied whatever the rule allowed.) A rule that denies is covered by one test that it denies. Tests that do not hold
cover nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from affiant.policy.decision.decide import Effect
from affiant.policy.loading.inline_tests import PolicyTest
from affiant.policy.model.profile import (
    EgressDenial,
    PathGrant,
    PathMode,
    PortDenial,
    ProviderToolDenial,
    Rule,
    StartDenial,
    ToolDenial,
)
from affiant.policy.testing.trial import Trial, TriedProfile

__all__ = ["RuleCoverage", "coverage_of"]


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """What the tests of ``agent`` say about one rule; ``missing``: the tests that it lacks, in words."""

    agent: str
    rule: str
    where: str
    missing: tuple[str, ...]

    @property
    def covered(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing


def coverage_of(tried: TriedProfile) -> tuple[RuleCoverage, ...]:
    """The coverage of each rule, in the order of the normal form."""
    holding = [trial for trial in tried.trials if trial.holds]
    allowed = {rule for trial in holding if not _denied(trial) for rule in trial.decision.rules}
    denied = {rule for trial in holding if _denied(trial) for rule in trial.decision.rules}
    missed = set(_nearly_met(holding))
    found = []
    for name, rule in tried.policy.policy.rules.items():
        wanted = {"no deny test that it decides": denied}
        if not _denies(rule):
            wanted = {"no allow test that it decides": allowed, "no deny test that nearly meets it": missed}
        missing = tuple(text for text, rules in wanted.items() if name not in rules)
        found.append(RuleCoverage(tried.profile.name, name, tried.profile.where(name), missing))
    return tuple(found)


def _denies(rule: Rule) -> bool:
    if isinstance(rule, PathGrant):
        return rule.mode is PathMode.NONE
    return isinstance(rule, (ToolDenial, ProviderToolDenial, EgressDenial, PortDenial, StartDenial))


def _denied(trial: Trial) -> bool:
    return trial.decision.effect is Effect.DENY


def _nearly_met(holding: list[Trial]) -> Iterator[str]:
    """The rules that some test nearly meets."""
    beside: dict[object, set[str]] = {}
    for trial in holding:
        if not _denied(trial):
            for all_but_one in _less_one(trial.test):
                beside.setdefault(all_but_one, set()).update(trial.decision.rules)
    for trial in holding:
        if _denied(trial) and not trial.decision.rules:
            if trial.decision.nearest is not None:
                yield trial.decision.nearest
            for all_but_one in _less_one(trial.test):
                yield from beside.get(all_but_one, ())


def _less_one(test: PolicyTest) -> Iterator[object]:
    """The request without each of its dimensions: equal for two requests that differ in that one alone."""
    dimensions = [("attested", repr(test.attested))]
    dimensions += [(field.name, repr(getattr(test.question, field.name))) for field in fields(test.question)]
    for left_out in range(len(dimensions)):
        name = dimensions[left_out][0]
        yield type(test.question), name, (*dimensions[:left_out], *dimensions[left_out + 1 :])
