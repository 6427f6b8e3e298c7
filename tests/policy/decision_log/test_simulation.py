"""What is replayed against the policy that decided it does not change; what changes is counted, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.policy.decision_log.test_reader import line
from tests.policy.trials import profile
from tests.properties import thorough

from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import Question, answer, parse_question, question_text
from affiant.policy.decision_log import simulation
from affiant.policy.decision_log.reader import RecordedDecision, read_decision_log
from affiant.policy.decision_log.simulation import simulate
from affiant.policy.loading.inline_tests import effect_of
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.profile import Policy

QUESTIONS = st.lists(
    some.tools | some.paths | some.egress | some.connections | some.models, min_size=1, max_size=10
)
RANK = {Effect.DENY: 0, Effect.ASK: 1, Effect.ALLOW: 2}


READ_BACK = QUESTIONS.map(lambda asked: [parse_question(question_text(question)) for question in asked])


def profiles(policy: Policy) -> ProfileSet:
    return ProfileSet(MappingProxyType({"dev": profile(policy)}), "sha384:0", "sha256:0", "p.yaml")


def recorded(policy: Policy, questions: list[Question], *, asks: bool) -> Iterator[RecordedDecision]:
    """The log of a policy: with ``asks`` as who compares sees it, else as who enforces."""
    compiled = compile_policy(policy, asks=asks)
    decisions = [(question_text(question), answer(compiled, question)) for question in questions]
    lines = [
        line(request=text, decision=found.effect.value, reason=found.reason) for text, found in decisions
    ]
    return read_decision_log(lines)


@thorough(50)
@given(policy=some.policies(), questions=READ_BACK, asks=st.booleans())
def test_the_policy_that_decided_changes_nothing(policy, questions, asks):
    for old in (None, profiles(policy)):
        found = simulate(recorded(policy, questions, asks=asks), profiles(policy), old=old)
        assert (found.decisions, found.groups, found.not_reproduced) == (len(questions), {}, 0)
        assert found.wider == found.narrower == 0


@thorough(50)
@given(old=some.policies(), new=some.policies(), questions=READ_BACK)
def test_every_change_is_counted(old, new, questions):
    effects = [
        [effect_of(answer(compile_policy(policy), question)) for question in questions]
        for policy in (old, new)
    ]
    steps = [RANK[after] - RANK[before] for before, after in zip(*effects, strict=True)]
    for file in (None, profiles(old)):
        found = simulate(recorded(old, questions, asks=False), profiles(new), old=file)
        assert (found.wider, found.narrower) == (
            sum(step > 0 for step in steps),
            sum(step < 0 for step in steps),
        )
        assert sum(group.count for group in found.groups.values()) == sum(step != 0 for step in steps)


def test_an_agent_without_a_profile_may_do_nothing():
    found = simulate(read_decision_log([line(agent="gone")]), profiles(Policy()))
    (group,) = found.groups.values()
    assert (group.agent, group.after, group.samples[0].reason) == (
        "gone",
        Effect.DENY,
        "agent_without_profile",
    )


def test_beyond_the_bounds_changes_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simulation, "_MAX_GROUPS", 2)
    monkeypatch.setattr(simulation, "_MAX_AGENTS", 2)
    lines = [line(agent=f"a{number % 3}", request=f"tool:t{number}") for number in range(9)]
    found = simulate(read_decision_log(lines * 5), profiles(Policy()))
    assert (found.decisions, found.narrower, len(found.groups), found.ungrouped) == (45, 45, 2, 35)
    assert {name: count.decisions for name, count in found.agents.items()} == {"a0": 15, "a1": 15, "": 15}
    assert [len(group.samples) for group in found.groups.values()] == [3, 3]


def test_what_the_older_file_does_not_decide_so_is_said():
    tools = profiles(Policy())
    lines = [line(policy_digest="sha384:" + "0" * 96), line(decision="deny", reason="tool_not_listed")]
    found = simulate(read_decision_log(lines), tools, old=tools)
    assert (found.not_reproduced, found.other_policy, found.wider, found.narrower) == (1, 1, 0, 0)


def test_a_request_of_any_length_is_kept_short():
    (group,) = simulate(
        read_decision_log([line(request="tool:" + "x" * 60_000)]), profiles(Policy())
    ).groups.values()
    assert (len(group.name), len(group.samples[0].request)) == (258, 1003)
