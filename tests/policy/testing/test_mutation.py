"""A mutant that no test notices is really different, and the test that is named notices it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.policy.trials import profile, tried
from tests.properties import thorough

from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.questions import parse_question
from affiant.policy.diff.differences import compare_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Policy
from affiant.policy.testing.external_tests import read_external_tests
from affiant.policy.testing.mutants import mutated
from affiant.policy.testing.mutation import Fate, JudgedMutant, judge_mutant, planned_mutants
from affiant.policy.testing.trial import Trial, TriedProfile

QUESTIONS = st.lists(some.tools | some.paths | some.egress | some.models, max_size=8)


@thorough(15)
@given(policy=some.policies(), questions=QUESTIONS)
def test_each_is_really_different_or_called_equivalent(policy: Policy, questions):
    found = tried(policy, questions)
    whole = found.policy.policy
    for mutant in planned_mutants(found):
        changed = mutated(whole, mutant)
        judged = judge_mutant(found, mutant)
        if changed is None:
            continue
        assert judged is not None
        differences = compare_profiles("dev", profile(whole), profile(changed))
        assert bool(differences) == (judged.fate is not Fate.EQUIVALENT)
        assert bool(judged.missing_test) == (judged.fate is Fate.UNNOTICED)
        noticed = [
            trial
            for trial in found.trials
            if not trial.test.accepts(trial.test.decide(compile_policy(changed, asks=True)))
        ]
        assert bool(noticed) == (judged.fate is Fate.NOTICED)


@thorough(12)
@given(policy=some.policies())
def test_with_the_tests_that_are_missing_every_mutant_is_noticed(policy: Policy):
    found = tried(policy, [])
    mutants = planned_mutants(found)
    missing = [
        judged.missing_test
        for mutant in mutants
        if (judged := judge_mutant(found, mutant)) and judged.missing_test
    ]
    if not missing:
        return
    text = "tests: {dev: [" + ", ".join(missing) + "]}"
    tests = read_external_tests(text.encode(), source="t.yaml", agents=["dev"])["dev"]
    trials = tuple(Trial(test, test.decide(found.policy)) for test in tests)
    assert all(trial.holds for trial in trials)
    complete = TriedProfile(found.profile, found.policy, trials)
    assert {judged.fate for mutant in mutants if (judged := judge_mutant(complete, mutant))} <= {
        Fate.NOTICED,
        Fate.EQUIVALENT,
        Fate.UNASKABLE,
    }


def fates(sections: str, *questions: str) -> dict[str, JudgedMutant]:
    policy = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled.policy
    found = tried(policy, map(parse_question, questions))
    judged = [judge_mutant(found, mutant) for mutant in planned_mutants(found)]
    return {f"{each.rule} {each.change}": each for each in judged if each is not None}


def test_a_rule_that_another_covers_is_equivalent_when_dropped():
    found = fates("filesystem_access: ['read-write:/w', 'read:/w/a']")
    assert found["filesystem/0 dropped"].fate is Fate.EQUIVALENT  # read:/w/a comes first in the normal form
    assert found["filesystem/1 dropped"].missing_test == '{allow: {read: "/w"}}'


def test_a_tools_last_rule_with_a_path_is_dropped_without_a_change_of_paths():
    """The rule allows nothing, as no path below /v is readable; the paths that are readable stay the same."""
    rules = "{name: x, args: {}}, {name: x, args: {p: {under: /v}}}"
    found = fates(f"tools: [{rules}], filesystem_access: 'read:/w'", "tool:x")
    assert {name: each.fate for name, each in found.items() if name.startswith("tools/0 dropped")} == {
        "tools/0 dropped": Fate.EQUIVALENT
    }


def test_what_no_test_can_ask_for_is_told_apart():
    sections = "network_egress: [{host: a.b.com}, {host: '*.b.com', tls: passthrough}]"
    found = fates(sections)
    assert {name for name, each in found.items() if each.fate is Fate.UNASKABLE} == {
        "egress/1 dropped",
        "egress/1 every name under b.com",
    }


def test_approval_is_noticed_by_a_test_that_asks():
    sections = "tools: [{name: a, approval: true}]"
    assert fates(sections)["tools/0 without approval"].missing_test == '{ask: {tool: "a"}}'
    assert fates(sections, "tool:a")["tools/0 without approval"].fate is Fate.NOTICED


@thorough(15)
@given(tools=some.tool_rules(), asked=st.sampled_from(["tool:x", "tool:y"]))
def test_what_a_tool_may_be_called_with_is_mutated_too(tools: str, asked: str):
    sections = f"{tools}, filesystem_access: 'read:/w', network_egress: 'allowed:a.b.com'"
    policy = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled.policy
    found = tried(policy, [parse_question(asked)])
    for mutant in planned_mutants(found):
        changed = mutated(found.policy.policy, mutant)
        judged = judge_mutant(found, mutant)
        assert changed is not None
        assert judged is not None
        differences = compare_profiles("dev", profile(policy), profile(changed))
        assert bool(differences) == (judged.fate is not Fate.EQUIVALENT)


def test_the_missing_test_of_a_call_has_its_arguments():
    found = fates("tools: [{name: a, args: {n: {max: 3}, s: any}}]")
    assert found["tools/0 any value of 'n'"].missing_test == '{deny: {tool: "a", args: {"n": null, "s": 0}}}'
    assert found["tools/0 any arguments"].missing_test.startswith('{deny: {tool: "a", args: {')


def test_a_change_of_a_path_is_noticed_by_a_call_that_names_it():
    sections = "tools: [{name: a, args: {p: {under: /w}}}], filesystem_access: ['read:/w', 'none:/w/s']"
    assert fates(sections, 'tool:a {"p": "/w/s/x"}')["filesystem/0 dropped"].fate is Fate.NOTICED


def test_a_rule_that_is_left_out_contradicts_no_secret():
    sections = (
        "network_egress: [{host: z.c.com}, {host: '**.c.com', tls: passthrough}, {host: '*.b.c.com'}],"
        "secrets_access: [{name: KEY, hosts: [a.b.c.com]}]"
    )
    found = fates(sections, "secret:KEY@a.b.c.com")
    assert found["secrets/0 dropped"].fate is Fate.NOTICED
    assert {each.fate for each in found.values()} == {Fate.NOTICED, Fate.UNNOTICED, Fate.UNASKABLE}
