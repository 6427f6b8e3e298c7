"""Lists the limits of a profile: a test is one request, so no test can cover a limit.

So neither coverage nor mutation says anything of them, so their reports list the limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from affiant.policy.decision.limit_words import most_words, profile_limits
from affiant.policy.model.profile_limits import rule_limits
from affiant.policy.testing.trial import TriedProfile

__all__ = ["UntestedLimit", "untested_limits"]


@dataclass(frozen=True, slots=True)
class UntestedLimit:
    """One limit of a profile, or of a rule. ``rule`` is its id: ``limits/tokens``, or that of the rule."""

    agent: str
    rule: str
    limit: str
    where: str
    says: str


def untested_limits(tried: TriedProfile) -> Iterator[UntestedLimit]:
    """Every limit of a profile, those of the whole session first."""
    policy = tried.policy.policy
    whole = ((f"limits/{name}", name, bounds) for name, bounds in profile_limits(policy.limits) if bounds)
    for rule, name, bounds in (*whole, *rule_limits(policy)):
        yield UntestedLimit(
            tried.profile.name, rule, name, tried.profile.where(rule), most_words(name, bounds)
        )
