"""A rule is covered only by tests that it decides, from both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.policy.trials import tried
from tests.properties import thorough

from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import parse_question
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import EgressDenial, PortDenial, ProviderToolDenial, StartDenial, ToolDenial
from affiant.policy.testing.coverage import coverage_of
from affiant.policy.testing.trial import TriedProfile

NO_DENY = ("no deny test that it decides",)
NO_ALLOW, NO_NEAR_MISS = "no allow test that it decides", "no deny test that nearly meets it"
QUESTIONS = st.lists(
    some.tools
    | some.paths
    | some.egress
    | some.connections
    | some.models
    | some.provider_tools
    | some.ports
    | some.starts,
    max_size=12,
)


@thorough(100)
@given(policy=some.policies(), questions=QUESTIONS)
def test_no_rule_is_covered_that_no_test_decided(policy, questions):
    found = tried(policy, questions)
    for rule in coverage_of(found):
        deciding = [trial for trial in found.trials if rule.rule in trial.decision.rules]
        judged = found.policy.policy.rules[rule.rule]
        denies = (
            isinstance(judged, (ToolDenial, ProviderToolDenial, EgressDenial, PortDenial, StartDenial))
            or getattr(judged, "mode", None) == "none"
        )
        if denies:
            assert rule.missing in ((), NO_DENY)
            assert rule.covered == any(trial.test.wanted is Effect.DENY for trial in deciding)
        else:
            hit = any(trial.test.wanted is not Effect.DENY for trial in deciding)
            assert (NO_ALLOW not in rule.missing) == hit
            assert not rule.covered or hit
        if not denies and NO_NEAR_MISS not in rule.missing:
            assert any(
                trial.test.wanted is Effect.DENY and not trial.decision.rules for trial in found.trials
            )


@thorough(50)
@given(policy=some.policies(), questions=QUESTIONS)
def test_tests_that_do_not_hold_cover_nothing(policy, questions):
    found = tried(policy, questions)
    wrong = {Effect.DENY: Effect.ALLOW, Effect.ALLOW: Effect.DENY, Effect.ASK: Effect.DENY}
    trials = tuple(
        replace(trial, test=replace(trial.test, wanted=wrong[trial.test.wanted])) for trial in found.trials
    )
    failing = TriedProfile(found.profile, found.policy, trials)
    assert all(rule.missing in (NO_DENY, (NO_ALLOW, NO_NEAR_MISS)) for rule in coverage_of(failing))


RULE = "network_egress: [{host: a.b.com, methods: [GET], paths: ['/v1/**']}]"
HIT = "GET https://a.b.com/v1/x"


def missing(sections: str, *questions: str) -> list[tuple[str, ...]]:
    policy = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled.policy
    return [rule.missing for rule in coverage_of(tried(policy, map(parse_question, questions)))]


@pytest.mark.parametrize(
    "near",
    [
        "POST https://a.b.com/v1/x",
        "GET https://a.b.com/v2",
        "GET https://a.b.com:444/v1/x",
        "GET https://c.b.com/v1/x",
    ],
)
def test_one_dimension_away_is_a_near_miss(near):
    assert missing(RULE, HIT, near) == [()]


@pytest.mark.parametrize("far", ["POST https://c.b.com/v2", "tool:a", "read:/w"])
def test_further_away_is_none(far):
    assert missing(RULE, HIT, far) == [("no deny test that nearly meets it",)]


def test_what_a_denial_denies_says_nothing_of_the_rule():
    sections = "filesystem_access: ['read:/w', 'none:/w/s']"
    assert missing(sections, "read:/w/a", "read:/w/s") == [(), ("no deny test that nearly meets it",)]
    assert missing(sections, "read:/w/a", "read:/w/s", "write:/w/a") == [(), ()]


def test_a_denial_is_covered_by_a_test_that_it_denies():
    sections = "tools: [a, {deny: b}]"
    assert missing(sections, "tool:a", "tool:c") == [(), ("no deny test that it decides",)]
    assert missing(sections, "tool:b")[1] == ()
