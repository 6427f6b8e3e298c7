"""Policies exported to Cedar: its own engine decides as we do, but for what the losses say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import cedarpy
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.policy.exports.cedar_requests import Asked, Cedar, our_answer, profile_of
from tests.policy.policies import (
    calls,
    connections,
    egress,
    models,
    paths,
    policies,
    secrets,
    tool_rules,
    tools,
)
from tests.properties import thorough

from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import ToolQuestion
from affiant.policy.diff.atoms import Atoms
from affiant.policy.exports.cedar import export_cedar
from affiant.policy.exports.model import PROFILE, Outcome
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import Policy

PLANES = {"tool", "model", "path", "egress", "secret"}
_ORDER = (Effect.DENY, Effect.ASK, Effect.ALLOW)

asked_one = st.one_of(
    tools.map(Asked),
    st.builds(Asked, models, st.booleans()),
    paths.map(Asked),
    egress.map(Asked),
    connections.map(Asked),
    secrets.map(lambda found: Asked(found[0], surface=found[1])),
)


def every_atom(policy: Policy) -> list[Asked]:
    """The requests in which two policies can differ at all: here of one, and so all that it can tell apart."""
    atoms = Atoms(policy)
    found = [Asked(question) for question in (*atoms.paths(), *atoms.requests(), *atoms.connections())]
    found += [Asked(question, attested=attested) for question, attested in atoms.models()]
    found += [Asked(question, surface=surface) for question, surface in atoms.secrets()]
    for tool in atoms.tools():
        found.append(Asked(ToolQuestion(tool.name, "{}", tool.origin)))
        found += map(Asked, atoms.calls(tool.name, tool.origin) or ())
    return found


def compare(policy: CompiledPolicy, asked: Sequence[Asked]) -> tuple[Counter[tuple[str, Effect]], set[str]]:
    """How often each plane was answered how, and the rules in whose declared loss the two disagree."""
    cedar = Cedar(profile_of(policy))
    omitted = {loss.rule for loss in cedar.export.losses if loss.outcome is Outcome.OMITTED}
    answered: Counter[tuple[str, Effect]] = Counter()
    lost: set[str] = set()
    for each, theirs in cedar.answers(asked):
        ours, reason, rules = our_answer(policy, each)
        if theirs is None:
            assert ours is Effect.DENY, (each, "is asked of Cedar by nobody, and we allow it")
            continue
        answered[each.plane, ours] += 1
        if theirs is ours:
            continue
        assert _ORDER.index(theirs) < _ORDER.index(ours), (each, reason, theirs, "wider than the profile")
        names = {rule for rule in omitted if _names_tool(policy, rule, each)}
        assert names, (each, reason, rules, theirs, "no loss says so")
        lost |= names
    return answered, lost


def _names_tool(policy: CompiledPolicy, rule: str, asked: Asked) -> bool:
    position = int(rule.rpartition("/")[2])
    return (
        isinstance(asked.question, ToolQuestion) and policy.policy.tools[position].name == asked.question.name
    )


def check(policy: Policy, asked: Iterable[Asked]) -> Counter[tuple[str, Effect]]:
    compiled = compile_policy(policy, asks=True)
    return compare(compiled, [*asked, *every_atom(compiled.policy)])[0]


quick = thorough(12, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
long = thorough(1500, suppress_health_check=list(HealthCheck))


@quick
@given(policies(), st.lists(asked_one, min_size=20, max_size=40))
def test_cedar_decides_as_we_do(policy: Policy, asked: list[Asked]) -> None:
    check(policy, asked)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@long
@given(policies(), st.lists(asked_one, min_size=50, max_size=100))
def test_cedar_decides_as_we_do_on_very_many_requests(policy: Policy, asked: list[Asked]) -> None:
    check(policy, asked)


FILES = "filesystem_access: [read:/w, {path: /w/s, mode: none}, 'read-write:/w/a']"


def _with_arguments(rules: str) -> CompiledPolicy:
    text = f"agent_configs: {{dev: {{{rules}, {FILES}, network_egress: 'allowed:a.b.com'}}}}"
    return compile_policy(load_profiles(text.encode()).profile("dev").compiled.policy, asks=True)


@quick
@given(tool_rules(), st.lists(calls, min_size=20, max_size=40))
def test_cedar_judges_arguments_as_we_do_but_for_declared_losses(rules: str, given_calls: list[str]) -> None:
    policy = _with_arguments(rules)
    compare(policy, [*(Asked(ToolQuestion("x", call)) for call in given_calls), *every_atom(policy.policy)])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@long
@given(tool_rules(), st.lists(calls, min_size=50, max_size=100))
def test_cedar_judges_arguments_as_we_do_on_very_many_calls(rules: str, given_calls: list[str]) -> None:
    policy = _with_arguments(rules)
    compare(policy, [*(Asked(ToolQuestion("x", call)) for call in given_calls), *every_atom(policy.policy)])


EVERYTHING = """
agent_configs:
  dev:
    tools:
      - plain
      - {name: asked, approval: true}
      - {name: typed, args: {n: {min: 1, max: 3}, who: {one_of: [a, 1, true]}, free: any}}
      - {name: noted, args: {note: {max_len: 3, optional: true}}}
      - {name: placed, args: {file: {under: /w}, out: {under: /w/a, write: true, optional: true}}}
      - {name: none, args: {}}
      - {name: served, server: k8s, schema: "sha256:%s"}
      - {deny: denied}
      - denied
    filesystem_access: [read:/w, {path: /w/s, mode: none}, "read-write:/w/a"]
    network_egress:
      - {host: api.b.com, methods: [GET, POST], paths: ["/v1/**", /health, "/é"]}
      - {host: "**.c.com"}
      - {host: "*.d.com", port: 8443}
      - {host: raw.e.com, tls: passthrough}
      - {host: plain.e.com, scheme: http}
      - {deny: api.b.com, paths: ["/v1/secret/**"]}
      - {deny: x.c.com}
      - {deny: raw.e.com, methods: [DELETE]}
    secrets_access: [{name: KEY, hosts: [api.b.com]}, {name: LOST, hosts: [api.b.com, "nobody.com:8443"]}]
    models: [small, {name: big, upstream: attested}]
    requires_human_approval: {egress: [POST]}
""".replace("%s", "a" * 64).replace('"/é"', '"/%C3%A9"')


def test_every_plane_is_compared_and_answered_both_ways() -> None:
    policy = compile_policy(load_profiles(EVERYTHING.encode()).profile("dev").compiled.policy, asks=True)
    served = Asked(ToolQuestion("served", "{}", Origin("k8s", "sha256:" + "a" * 64)))
    assert our_answer(policy, served)[0] is Effect.ALLOW
    answered, lost = compare(policy, [served, *every_atom(policy.policy)])
    for plane in PLANES:
        assert answered[plane, Effect.DENY] and answered[plane, Effect.ALLOW], plane
    assert answered["tool", Effect.ASK] and answered["egress", Effect.ASK]
    assert not lost
    assert sum(answered.values()) > 1000


@pytest.mark.parametrize(
    ("constraint", "call"),
    [
        ("{argv: [[git, status]]}", '{"p": ["git", "status"]}'),
        ("{each: {one_of: [a]}}", '{"p": ["a"]}'),
        ("{host: a.b.com}", '{"p": "a.b.com"}'),
    ],
)
def test_each_declared_loss_is_one(constraint: str, call: str) -> None:
    policy = _with_arguments(f"tools: [{{name: x, args: {{p: {constraint}}}}}]")
    assert our_answer(policy, Asked(ToolQuestion("x", call)))[0] is Effect.ALLOW
    _, lost = compare(policy, [Asked(ToolQuestion("x", call))])
    assert lost == {"tools/0"}


def test_a_rule_left_out_still_demands_approval_of_calls_that_another_allows() -> None:
    rules = "tools: [{name: x, approval: true, args: {p: {argv: [[a]]}}}, {name: x, args: {p: any}}]"
    policy = _with_arguments(rules)
    cedar = Cedar(profile_of(policy))
    call = Asked(ToolQuestion("x", '{"p": ["a"]}'))
    assert our_answer(policy, call)[0] is Effect.ASK
    assert [theirs for _, theirs in cedar.answers([call])] == [Effect.ASK]


def test_what_is_not_canonical_is_asked_of_nobody(profile_of: Callable[..., Profile]) -> None:
    cedar = Cedar(profile_of("network_egress: 'allowed:a.b.com', filesystem_access: 'read:/w', tools: [x]"))
    questions = [
        Asked(ToolQuestion("x", '{"p": 1, "p": 2}')),
        *(Asked(q) for q in (_path("/w/../etc"), _egress("A.b.com", "/"), _egress("a.b.com", "/%2e%2e/"))),
    ]
    assert [theirs for _, theirs in cedar.answers(questions)] == [None] * 4
    assert ("canonical", PROFILE) in {(loss.kind, loss.rule) for loss in cedar.export.losses}


def _path(path: str):  # noqa: ANN202
    from affiant.policy.decision.questions import PathQuestion  # noqa: PLC0415
    from affiant.policy.model.profile import PathMode  # noqa: PLC0415

    return PathQuestion(path, PathMode.READ)


def _egress(host: str, target: str):  # noqa: ANN202
    from affiant.policy.decision.questions import EgressQuestion  # noqa: PLC0415
    from affiant.policy.model.profile import Scheme  # noqa: PLC0415

    return EgressQuestion(host, 443, Scheme.HTTPS, "GET", target)


def test_a_deny_names_our_rule_and_its_line(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of("tools: [{deny: x}, x]")
    policies = export_cedar(profile).documents[0].text
    request = {
        "principal": 'Affiant::Agent::"dev"',
        "action": 'Affiant::Action::"call_tool"',
        "resource": 'Affiant::Tool::"x"',
        "context": {"approved": True, "names": [], "args": {}},
    }
    result = cedarpy.is_authorized(request, policies, [])
    assert list(result.diagnostics.id_annotations_by_reason.values()) == ["tools/1"]
    assert '@where("profiles.yaml:1:' in policies


def test_another_agent_is_denied_everything() -> None:
    profile = load_profiles(EVERYTHING.encode()).profile("dev")
    policies, schema = (document.text for document in export_cedar(profile).documents)
    request = {
        "principal": 'Affiant::Agent::"other"',
        "action": 'Affiant::Action::"use_model"',
        "resource": 'Affiant::Model::"small"',
        "context": {"attested": True},
    }
    assert not cedarpy.is_authorized(request, policies, [], schema=schema).allowed


def test_names_are_text_and_no_syntax(profile_of: Callable[..., Profile]) -> None:
    value = 'a"; permit (principal, action, resource);'
    profile = profile_of(
        f"filesystem_access: ['read:/a b(c)#d'], tools: [{{name: x, args: {{p: {{one_of: ['{value}', 'é']}}}}}}]"
    )
    cedar = Cedar(profile)  # validates
    assert cedar.export.documents[0].text.isascii()
    denied = [Asked(ToolQuestion("y", "{}")), Asked(ToolQuestion("x", '{"p": "b"}'))]
    assert {theirs for _, theirs in cedar.answers(denied)} == {Effect.DENY}


def test_the_same_profile_gives_the_same_bytes() -> None:
    lines = EVERYTHING.splitlines()
    one = load_profiles(EVERYTHING.encode()).profile("dev")
    tools_at = lines.index("      - plain")
    lines[tools_at], lines[tools_at + 1] = lines[tools_at + 1], lines[tools_at]
    other = load_profiles("\n".join(lines).encode()).profile("dev")

    def without_places(profile: Profile) -> list[str]:
        return [
            line
            for d in export_cedar(profile).documents
            for line in d.text.split("\n")
            if "@where" not in line
        ]

    assert without_places(one) == without_places(other)
