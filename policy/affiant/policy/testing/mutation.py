"""Finds whether the tests of a profile detect a slip: each mutant is tried by every test that holds.

A mutant that no test notices is compared with the profile, exactly: if the two answer every request alike it is
equivalent, and no test could tell; else the comparison knows a request on which they differ, which is the test that is
missing. One that differs in nothing a test can ask for, such as whether a connection is inspected, is counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from affiant.errors import MalformedError
from affiant.policy.canonical.errors import RequestRefused
from affiant.policy.canonical.hosts import suffix_of
from affiant.policy.canonical.paths import covers
from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import (
    EgressQuestion,
    PathQuestion,
    ToolQuestion,
    parse_question,
    question_text,
    tool_text,
)
from affiant.policy.diff.differences import Difference, profile_differences
from affiant.policy.diff.same_calls import names_a
from affiant.policy.loading.inline_tests import PolicyTest, effect_of
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.arguments import Host, Under
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    Rule,
    SecretGrant,
    StartDenial,
    StartGrant,
    ToolDenial,
    ToolRule,
)
from affiant.policy.testing.external_tests import read_external_tests
from affiant.policy.testing.mutants import Mutant, mutants_of, mutated
from affiant.policy.testing.trial import TriedProfile

__all__ = ["Fate", "JudgedMutant", "judge_mutant", "planned_mutants"]

_ATTESTED: Final = " at an attested upstream"


class Fate(StrEnum):
    """What became of a mutant."""

    NOTICED = "noticed"
    UNNOTICED = "unnoticed"
    EQUIVALENT = "equivalent"
    """It answers every request as the profile does: it does not count."""
    UNASKABLE = "unaskable"
    """It differs in nothing that a test can ask for: it does not count."""


@dataclass(frozen=True, slots=True)
class JudgedMutant:
    """One mutant of one profile.

    ``missing_test``: the test that would notice it, where none does; None where a tool can be called in so many ways
    that the comparison does not know one: then the mutant counts as unnoticed all the same.
    """

    agent: str
    rule: str | None
    where: str
    change: str
    fate: Fate
    missing_test: str | None = None


def planned_mutants(tried: TriedProfile) -> tuple[Mutant, ...]:
    """The mutants of a profile, some of which may turn out to be what no profile may say."""
    return tuple(mutants_of(tried.policy, [trial.test.question for trial in tried.trials]))


def judge_mutant(tried: TriedProfile, mutant: Mutant) -> JudgedMutant | None:
    """The fate of one mutant; None where no profile may say so."""
    whole = tried.policy.policy
    policy = mutated(whole, mutant)
    if policy is None:
        return None
    changed = () if mutant.rule is None else (whole.rules[mutant.rule], *mutant.put)
    before, after = (compile_policy(_nearby(each, changed), asks=True) for each in (whole, policy))
    agent, where = tried.profile.name, tried.profile.where(mutant.rule)
    tests = (trial.test for trial in tried.trials if trial.holds)
    if any(_notices(test, before, after) for test in tests):
        return JudgedMutant(agent, mutant.rule, where, mutant.change, Fate.NOTICED)
    fate, missing = Fate.EQUIVALENT, ""
    for found in profile_differences(agent, _profile(before), _profile(after)):
        missing = _missing_test(found, before, after)
        if missing or found.plane == "call":
            fate = Fate.UNNOTICED
        elif fate is Fate.EQUIVALENT:
            fate = Fate.UNASKABLE
        if missing:  # what else differs is not reported
            break
    return JudgedMutant(agent, mutant.rule, where, mutant.change, fate, missing or None)


def _notices(test: PolicyTest, before: CompiledPolicy, after: CompiledPolicy) -> bool:
    return test.accepts(test.decide(before)) and not test.accepts(test.decide(after))


# -- what a change can reach -------------------------------------------------------------------------------------------


def _nearby(policy: Policy, changed: Sequence[Rule]) -> Policy:
    """``policy`` without what a change of these rules cannot reach; all of it where no rule is changed.

    Every rule stays that can match a request that a changed one matches, so the difference that the change makes is
    the same, and a policy of a thousand rules is not compared a thousand times.
    """
    match changed:
        case [ToolRule() | ToolDenial(), *_]:
            reached = [rule for rule in changed if isinstance(rule, (ToolRule, ToolDenial))]
            names = {rule.name for rule in reached}
            tools = tuple(rule for rule in policy.tools if rule.name in names)
            return _with_tools(policy, tools, beside=reached)
        case [PathGrant(path=path), *_]:
            meets = (rule for rule in policy.filesystem if covers(path, rule.path) or covers(rule.path, path))
            return replace(_with_tools(policy, _judged_as(policy, Under)), filesystem=tuple(meets))
        case [ProviderTool() | ProviderToolDenial(), *_]:
            return Policy(provider_tools=policy.provider_tools, approval=policy.approval)
        case [PortGrant() | PortDenial(), *_]:
            return Policy(ports=policy.ports)
        case [StartGrant() | StartDenial(), *_]:
            return Policy(may_start=policy.may_start, approval=policy.approval)
        case [ModelRule(name=name), *_]:
            return Policy(models=tuple(rule for rule in policy.models or () if rule.name == name))
        case [EgressRule() | EgressDenial() | SecretGrant(), *_]:
            hosts = _hosts(changed)
            return replace(
                _with_tools(policy, _judged_as(policy, Host)),
                egress=tuple(rule for rule in policy.egress if _meets(rule.host, hosts)),
                secrets=tuple(_bound_near(grant, hosts) for grant in policy.secrets),
            )
        case _:
            return policy


def _with_tools(
    policy: Policy,
    tools: tuple[ToolRule | ToolDenial, ...],
    *,
    beside: Sequence[ToolRule | ToolDenial] = (),
) -> Policy:
    """These tools, and what judges the paths and hosts among their arguments, and among those of ``beside``.

    Both policies of a comparison keep the same sections: a rule that only one of them has is in ``beside`` of both.
    """
    judged = (*tools, *beside)
    return Policy(
        tools=tools,
        filesystem=policy.filesystem if any(names_a(rule, Under) for rule in judged) else (),
        egress=policy.egress if any(names_a(rule, Host) for rule in judged) else (),
        approval=policy.approval,
    )


def _judged_as(policy: Policy, kind: type[Under | Host]) -> tuple[ToolRule | ToolDenial, ...]:
    """The rules for tools with an argument of this kind: what the rules for paths, or hosts, allow counts for them."""
    names = {rule.name for rule in policy.tools if names_a(rule, kind)}
    return tuple(rule for rule in policy.tools if rule.name in names)


def _hosts(rules: Sequence[Rule]) -> set[str]:
    """The hosts of the rules, and of the secrets' endpoints, without wildcards."""
    named = {suffix_of(rule.host) for rule in rules if isinstance(rule, (EgressRule, EgressDenial))}
    bound = {host for rule in rules if isinstance(rule, SecretGrant) for host, _ in rule.hosts}
    return named | bound


def _bound_near(grant: SecretGrant, hosts: set[str]) -> SecretGrant:
    """``grant`` without the endpoints of which rules may be left out: what is left of them could contradict it."""
    return replace(grant, hosts=tuple(each for each in grant.hosts if _meets(each.host, hosts)))


def _meets(pattern: str, hosts: set[str]) -> bool:
    """Whether some name could lie under both: one is the end of the other."""
    suffix = suffix_of(pattern)
    return any(suffix == host or suffix.endswith(f".{host}") or host.endswith(f".{suffix}") for host in hosts)


def _profile(policy: CompiledPolicy) -> Profile:
    """``policy`` as the comparison takes it: its places are not used."""
    nowhere = Mark("mutant", 1, 1)
    return Profile("mutant", policy, nowhere, dict.fromkeys(policy.policy.rules, nowhere))


# -- the test that is missing ------------------------------------------------------------------------------------------


def _missing_test(found: Difference, before: CompiledPolicy, after: CompiledPolicy) -> str:
    """A test that holds before and not after, as it would be written; empty where no test can ask for what differs."""
    test = _test_of(found, before)
    if test is not None and _notices(test, before, after):
        written = _written(test)
        if any(_notices(again, before, after) for again in _read(written)):
            return written
    return ""


def _read(written: str) -> Sequence[PolicyTest]:
    """The test again, from its text; none where a profile cannot say it, as a number with a fraction."""
    try:
        data = f"tests: {{mutant: [{written}]}}".encode()
        return read_external_tests(data, source="missing", agents=("mutant",))["mutant"]
    except MalformedError:
        return ()


def _test_of(found: Difference, before: CompiledPolicy) -> PolicyTest | None:
    if found.plane not in (
        *("tool", "call", "provider_tool", "model", "path", "egress", "secret"),
        "port",
        "start",
    ):
        return None
    attested = found.plane == "model" and found.request.endswith(_ATTESTED)
    text = found.request.removesuffix(_ATTESTED) if attested else found.request
    until = {"secret": " in ", "port": "-"}.get(found.plane)
    try:
        question = parse_question(text if until is None else text.partition(until)[0])
    except RequestRefused:
        return None
    asked = PolicyTest(Effect.ALLOW, question, attested, Mark("missing", 1, 1))
    return PolicyTest(effect_of(asked.decide(before)), question, attested, asked.mark)


def _written(test: PolicyTest) -> str:
    """``test`` as it would stand in a list of tests."""
    text = question_text(test.question)
    match test.question:
        case ToolQuestion(name, str(arguments), origin):
            tool = json.dumps(tool_text(name, origin))
            return f"{{{test.wanted.value}: {{tool: {tool}, args: {arguments}}}}}"
        case EgressQuestion():
            kind = "egress"
        case PathQuestion(path, mode):
            kind, text = "read" if mode is PathMode.READ else "write", path
        case _:
            kind, _, text = text.partition(":")
    kind = "attested_model" if test.attested else kind
    return f"{{{test.wanted.value}: {{{kind}: {json.dumps(text, ensure_ascii=False)}}}}}"
