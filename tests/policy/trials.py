"""Profiles without a file, with tests that hold because they are made from the answers."""

from __future__ import annotations

from collections.abc import Iterable

from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import Question, answer
from affiant.policy.loading.inline_tests import PolicyTest, effect_of
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import Policy
from affiant.policy.testing.trial import Trial, TriedProfile

__all__ = ["MARK", "profile", "tried"]

MARK = Mark("p.yaml", 1, 1)


def profile(policy: Policy) -> Profile:
    """Every rule stands at one place."""
    made = compile_policy(policy)
    return Profile("dev", made, MARK, dict.fromkeys(made.policy.rules, MARK))


def tried(policy: Policy, questions: Iterable[Question]) -> TriedProfile:
    """A profile with one test for each question, which wants what is decided."""
    compiled = compile_policy(policy, asks=True)
    decisions = [(question, answer(compiled, question)) for question in questions]
    trials = [
        Trial(PolicyTest(effect_of(decision), question, attested=False, mark=MARK), decision)
        for question, decision in decisions
    ]
    assert all(trial.holds for trial in trials)
    assert all(trial.test.wanted in Effect for trial in trials)
    return TriedProfile(profile(policy), compiled, tuple(trials))
