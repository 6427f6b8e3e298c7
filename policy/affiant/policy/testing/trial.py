"""Runs tests of profiles: what each wants, what is decided, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision
from affiant.policy.loading.inline_tests import PolicyTest
from affiant.policy.loading.profile_set import Profile, ProfileSet

__all__ = ["Trial", "TriedProfile", "try_tests"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One test, and what its profile decides; *ask* where a person must approve."""

    test: PolicyTest
    decision: Decision

    @property
    def holds(self) -> bool:
        """Whether that is what the test wants."""
        return self.test.accepts(self.decision)


@dataclass(frozen=True, slots=True)
class TriedProfile:
    """One profile with all tests of it."""

    profile: Profile
    policy: CompiledPolicy
    trials: tuple[Trial, ...]


def try_tests(profiles: ProfileSet, tests: Mapping[str, Sequence[PolicyTest]]) -> tuple[TriedProfile, ...]:
    """Every profile of a file, in its order, with the outcome of its tests; some have none."""
    return tuple(_tried(profile, tests.get(name, ())) for name, profile in profiles.profiles.items())


def _tried(profile: Profile, tests: Sequence[PolicyTest]) -> TriedProfile:
    policy = compile_policy(profile.policy, asks=True)
    return TriedProfile(profile, policy, tuple(Trial(test, test.decide(policy)) for test in tests))
