"""No export lets through what the profile does not, but for the kinds of losses that were accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.policy.exports.cedar_requests import profile_of
from tests.policy.exports.target_models import Cilium, ClaudeCode, Srt
from tests.policy.policies import policies
from tests.properties import thorough

from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.questions import EgressQuestion
from affiant.policy.diff.atoms import Atoms
from affiant.policy.exports.cilium import CILIUM
from affiant.policy.exports.claude_code import CLAUDE_CODE
from affiant.policy.exports.model import Export, Outcome, Target
from affiant.policy.exports.srt import SRT
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Approval, EgressRule, PathMode, Policy, Scheme

quick = thorough(60, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
PATHS = ["/w", "/w/a", "/w/a/b", "/w/a/q", "/w/x", "/w2", "/v", "/w/a/b/c", "/w/a/b/c/d", "/other", "/q"]
TOOLS = {"a": "Read", "b": "Edit", "x": "Write", "y": "WebFetch"}


_NOTHING = EgressQuestion("nobody.invalid", 443, Scheme.HTTPS)


def _without_detail(policy: Policy) -> Policy:
    """Allows of whole hosts, unasked: what a target that judges hosts alone can say at all."""
    egress = tuple(
        replace(rule, methods=None, paths=None) if isinstance(rule, EgressRule) else rule
        for rule in policy.egress
    )
    return replace(policy, egress=egress, approval=Approval())


some_policies = policies() | policies().map(_without_detail)


def exported(target: Target, policy: Policy, *kinds: str) -> tuple[CompiledPolicy, Export]:
    compiled = compile_policy(policy, asks=True)
    return compiled, target.export(profile_of(compiled), frozenset(kinds))


def requests_to(policy: CompiledPolicy) -> dict[tuple[str, int], dict[Scheme, list[EgressQuestion]]]:
    found: dict[tuple[str, int], dict[Scheme, list[EgressQuestion]]] = {}
    questions = list(Atoms(policy.policy).requests())
    deeper = [
        replace(question, host=f"q.{question.host}", scheme=scheme)
        for question in questions
        for scheme in Scheme
    ]
    for question in (
        *questions,
        *deeper,
        *(replace(question, host=f"p.{question.host}") for question in deeper),
    ):
        endpoint = found.setdefault((question.host, question.port), {})
        endpoint.setdefault(question.scheme, []).append(question)
    return found


def allows_all(policy: CompiledPolicy, questions: Sequence[EgressQuestion]) -> bool:
    return all(effective_egress(policy, question).effect is Effect.ALLOW for question in questions)


@quick
@given(some_policies)
def test_srt_allows_connections_alone_that_may_carry_anything(policy: Policy) -> None:
    compiled, export = exported(SRT, policy, "protocol")
    model = Srt(export)
    for (host, port), schemes in requests_to(compiled).items():
        if model.connects(host, port):
            assert any(allows_all(compiled, questions) for questions in schemes.values()), (host, port)


@quick
@given(some_policies)
def test_srt_says_files_exactly(policy: Policy) -> None:
    compiled, export = exported(SRT, policy)
    model = Srt(export)
    for path in PATHS:
        assert model.reads(path) is compiled.decide_path(path, PathMode.READ).allowed, path
        assert model.writes(path) is compiled.decide_path(path, PathMode.READ_WRITE).allowed, path


def test_a_system_folder_that_is_carved_out_is_hidden_from_srt(profile_of: Callable) -> None:
    profile = profile_of("filesystem_access: [{path: /usr, mode: none}, {path: /lib/a, mode: none}, read:/w]")
    model = Srt(SRT.export(profile, frozenset()))
    assert [model.reads(path) for path in ("/usr/bin/env", "/lib/a/b", "/lib/b", "/w/a")] == [
        False,
        False,
        True,
        True,
    ]


@quick
@given(some_policies)
def test_cilium_allows_connections_alone_that_may_carry_anything(policy: Policy) -> None:
    compiled, export = exported(CILIUM, policy, "protocol", "dns", "wildcard")
    model = Cilium(export)
    for (host, port), schemes in requests_to(compiled).items():
        if model.connects(host, port):
            assert allows_all(compiled, schemes.get(Scheme.HTTPS) or [_NOTHING]), (host, port)
            assert model.asks_for(host)


@quick
@given(some_policies)
def test_cilium_lets_through_plain_requests_that_the_profile_allows(policy: Policy) -> None:
    compiled, export = exported(CILIUM, policy, "dns", "wildcard")
    model = Cilium(export)
    lost = {loss.rule for loss in export.losses if loss.outcome in (Outcome.OMITTED, Outcome.NARROWED)}
    targets = [
        "/",
        "/a",
        "/a/",
        "/a/x?q=1",
        "/a/..",
        "/a/../b",
        "/a//x",
        "/a/./x",
        "/a/...",
        "/%C3%A9",
        "/a;b",
        "/ab",
    ]
    for (host, port), schemes in requests_to(compiled).items():
        asked = [(q.method or "", q.target or "") for q in schemes.get(Scheme.HTTP, ())]
        asked += [(method, target) for method in ("GET", "POST", "TRACE") for target in targets]
        for method, target in asked:
            ours = compiled.decide_egress(host=host, port=port, scheme="http", method=method, target=target)
            theirs = model.requests(host, port, method, target)
            if theirs:
                assert ours.effect is Effect.ALLOW, (host, port, method, target, ours)
            elif ours.effect is Effect.ALLOW:
                assert not lost.isdisjoint(ours.rules), (host, port, method, target, ours)


@quick
@given(some_policies)
def test_claude_code_reads_edits_and_fetches_what_the_profile_allows(policy: Policy) -> None:
    tools = tuple(replace(rule, name=TOOLS[rule.name]) for rule in policy.tools)
    compiled, export = exported(CLAUDE_CODE, replace(policy, tools=tools), "address", "port")
    model = ClaudeCode(export)
    for path in PATHS:
        if model.reads(path) != "deny":
            assert compiled.decide_path(path, PathMode.READ).allowed
            assert compiled.decide_tool("Read").effect in (Effect.ALLOW, Effect(model.reads(path)))
        if model.edits(path) != "deny":
            assert compiled.decide_path(path, PathMode.READ_WRITE).allowed
            assert all(compiled.decide_tool(name).effect is not Effect.DENY for name in ("Edit", "Write"))
    for (host, _), schemes in requests_to(compiled).items():
        if model.fetches(host) != "deny":
            gets = [q for q in schemes.get(Scheme.HTTPS, ()) if q.method == "GET" and q.port == 443]
            answers = {effective_egress(compiled, question).effect for question in gets}
            assert compiled.decide_tool("WebFetch").effect is not Effect.DENY
            assert model.fetches(host) == "ask" or answers <= {Effect.ALLOW}, (host, answers)
    for name in ("Read", "WebFetch"):
        if compiled.decide_tool(name).effect is Effect.ASK:
            assert not [rule for rule in model.lists["allow"] if rule.startswith(name)]


@quick
@given(some_policies, st.sampled_from([SRT, CILIUM, CLAUDE_CODE]))
def test_without_a_kind_accepted_nothing_is_widened(policy: Policy, target: Target) -> None:
    _, export = exported(target, policy)
    assert Outcome.WIDENED not in {loss.outcome for loss in export.losses}
    if target is SRT:
        assert Srt(export).network["allowedDomains"] == []
    if target is CILIUM:
        assert export.documents[0].text.count("toFQDNs") == 0


@quick
@given(some_policies, st.sampled_from([SRT, CILIUM, CLAUDE_CODE]))
def test_each_rule_that_is_no_loss_and_no_denial_is_said(policy: Policy, target: Target) -> None:
    """A rule that is written nowhere, without a word, would be a loss that nobody is told."""
    compiled, export = exported(target, policy, *target.wider)
    text = export.documents[0].text
    lost = {loss.rule for loss in export.losses}
    for position, rule in enumerate(compiled.policy.egress):
        allows = [
            q for q in Atoms(compiled.policy).requests() if allows_by(compiled, q, f"egress/{position}")
        ]
        if allows and f"egress/{position}" not in lost:
            assert rule.host.lstrip("*.") in text


def allows_by(policy: CompiledPolicy, question: EgressQuestion, rule: str) -> bool:
    found = effective_egress(policy, question)
    return found.effect is Effect.ALLOW and rule in found.rules


@pytest.mark.parametrize("target", [SRT, CILIUM, CLAUDE_CODE])
def test_an_empty_profile_denies_everything(target: Target) -> None:
    profile = load_profiles(b"agent_configs: {dev: {}}").profile("dev")
    export = target.export(profile, frozenset(target.wider))
    if target is SRT:
        assert (
            not Srt(export).connects("a.b", 443)
            and not Srt(export).reads("/w")
            and not Srt(export).writes("/w")
        )
    elif target is CILIUM:
        assert Cilium(export).document["spec"]["egress"] == [{}]
    else:
        model = ClaudeCode(export)
        assert model.lists["allow"] == [] == model.lists["ask"]
        assert {"Bash", "Read", "WebFetch"} <= set(model.lists["deny"])


@pytest.mark.parametrize("target", [SRT, CILIUM, CLAUDE_CODE])
def test_the_same_meaning_gives_the_same_bytes(target: Target, profile_of: Callable) -> None:
    one = profile_of("tools: [Read, WebFetch], network_egress: [{host: b.c}, {host: a.c}]")
    other = profile_of("network_egress: [{host: a.c}, {host: b.c}], tools: [WebFetch, Read]")
    wider = frozenset(target.wider)
    assert target.export(one, wider).documents == target.export(other, wider).documents
