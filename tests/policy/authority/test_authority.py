"""What an authority lists is what the policy decides: each of its entries, and every request that it lets through."""

from __future__ import annotations

from hypothesis import given
from tests.policy import policies as some
from tests.policy.placed_profiles import profile
from tests.properties import thorough

from affiant.policy.authority.authority import Authority, authority_of
from affiant.policy.authority.document import authority_document
from affiant.policy.authority.tools import ToolAuthority
from affiant.policy.authority.who_can import may
from affiant.policy.canonical.paths import covers
from affiant.policy.canonical.tool_origin import ANY
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import answer, parse_question
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    Endpoint,
    PathMode,
    Policy,
    Scheme,
    SecretGrant,
)

MANY = thorough(60)


def authority(policy: Policy) -> Authority:
    return authority_of(profile(policy))


@MANY
@given(policy=some.policies(), question=some.tools)
def test_a_tool_is_listed_as_it_is_decided(policy, question):
    decided = answer(compile_policy(policy, asks=True), question)
    found = [
        tool
        for tool in authority(policy).tools
        if tool.name == question.name
        and all(wanted in (ANY, asked) for wanted, asked in zip(tool.origin, question.origin, strict=True))
    ]
    assert _effect(found) is decided.effect
    assert [rule for tool in found for rule in tool.rules] == list(decided.rules if found else ())


def _effect(fitting: list[ToolAuthority]) -> Effect:
    """What a reader concludes of a call that fits these entries."""
    if not fitting:
        return Effect.DENY
    return Effect.ASK if Effect.ASK in [tool.effect for tool in fitting] else Effect.ALLOW


@thorough(150)
@given(tools=some.tool_rules(), call=some.calls)
def test_a_call_is_allowed_by_the_entries_that_it_fits_and_each_entry_has_a_call(tools, call):
    sections = "filesystem_access: [read:/w, none:/w/s], network_egress: [{host: '*.b.com'}]"
    text = f"agent_configs: {{dev: {{{tools}, {sections}}}}}"
    found = authority_of(load_profiles(text.encode()).profile("dev"))
    decided = found.compiled.decide_call("x", call)
    assert {rule for tool in found.denied_tools for rule in tool.rules}.isdisjoint(decided.rules)
    assert _effect([tool for tool in found.tools if set(tool.rules) & set(decided.rules)]) is decided.effect
    for tool in found.tools:
        made = found.compiled.decide_call(tool.name, tool.sample)
        assert set(tool.rules) <= set(made.rules)
        assert made.effect in (tool.effect, Effect.ASK)


def test_a_tool_whose_paths_or_hosts_are_all_out_of_reach_is_never_called(profile_of):
    for args, allowed in (
        ("{f: {under: /v}}", False),
        ("{f: {under: /w, write: true}}", False),
        ("{f: {under: /}}".replace("under: /}", "under: /w/a/x}"), False),
        ("{f: {under: /w/a}}", True),
        ("{f: {under: /v, optional: true}}", True),
        ("{h: {host: z.com}}", False),
        ("{h: {host: '*.b.com'}}", True),
        ("{h: {each: {host: z.com}}}", True),
    ):
        sections = "filesystem_access: [read:/w, none:/w/a/x], network_egress: [{host: a.b.com}]"
        found = authority_of(profile_of(f"tools: [{{name: t, args: {args}}}], {sections}"))
        assert [tool.name for tool in found.tools] == (["t"] if allowed else []), args
        assert [tool.vain for tool in found.denied_tools] == ([] if allowed else [True])


@MANY
@given(policy=some.policies(), question=some.models)
def test_a_model_is_listed_as_it_is_decided(policy, question):
    compiled = compile_policy(policy, asks=True)
    listed = authority(policy).models
    if listed is None:
        assert compiled.decide_model(question.name).allowed
    else:
        found = {model.name: model for model in listed}.get(question.name)
        attested = compiled.decide_model(question.name, attested=True)
        assert (found is not None) == attested.allowed
        assert (found is not None and not found.attested) == compiled.decide_model(question.name).allowed
        assert found is None or found.rules == attested.rules


@thorough(200)
@given(policy=some.policies(), question=some.paths)
def test_the_nearest_entry_above_a_path_says_what_is_decided(policy, question):
    entries = authority(policy).files
    modes = {entry.path: entry.mode for entry in entries}
    modes |= {carved.path: PathMode.NONE for entry in entries for carved in entry.except_paths}
    nearest = max((path for path in modes if covers(path, question.path)), key=len, default=None)
    mode = PathMode.NONE if nearest is None else modes[nearest]
    decided = answer(compile_policy(policy, asks=True), question)
    assert decided.allowed == (mode is PathMode.READ_WRITE or mode is question.mode)


@thorough(150)
@given(policy=some.policies(), asked=some.secrets)
def test_a_secret_goes_where_its_use_and_a_request_are_decided_so(policy, asked):
    question, _ = asked
    found = authority(policy)
    sinks = {
        (each.grant.name, sink.host, sink.port): sink.effect for each in found.secrets for sink in each.sinks
    }
    groups = [
        group.effect
        for reach in found.hosts
        if reach.covers(question.host, question.port, Scheme.HTTPS)
        for group in reach.requests
    ]
    use = answer(compile_policy(policy, asks=True), question)
    if use.effect is Effect.DENY or not groups:
        expected = None
    else:
        expected = Effect.ALLOW if use.allowed and Effect.ALLOW in groups else Effect.ASK
    assert sinks.get((question.name, question.host, question.port)) is expected


@MANY
@given(policy=some.policies())
def test_every_sample_of_the_document_may_be_done_by_the_rules_beside_it(policy):
    made = profile(policy)
    profiles = ProfileSet({"dev": made}, "sha384:", "sha256:", "p.yaml")
    document = authority_document([authority_of(made)], profiles=profiles)
    compiled = compile_policy(policy, asks=True)
    for entry in _entries(document):
        decided = may(compiled, parse_question(entry["sample"]))
        effect = entry.get("effect", "allow")
        assert decided.effect.value == effect
        given = {rule["id"] for rule in entry["rules"]}
        assert set(decided.rules) <= given or (
            entry["sample"].startswith("tool:") and given <= set(decided.rules)
        )
        assert decided.rules or entry["rules"] == []
        for rule in entry["rules"]:
            assert rule["where"] == str(made.places[rule["id"]])


def _entries(document):
    (agent,) = document["agents"]
    yield from (*agent["tools"], *agent["models"], *agent["files"])
    yield from (group for host in agent["hosts"] for group in host["requests"])
    yield from (sink for secret in agent["secrets"] for sink in secret["sinks"])


def test_addresses_are_those_at_which_the_host_is_dialled_at_any_port():
    rules = (EgressRule("**.b.c"), EgressRule("a.b.c", 8443, address=("10.1.0.0/16",)))
    found = authority(Policy(egress=rules))
    for reach in found.hosts:
        dialled = found.compiled.addresses_for(reach.names.sample)
        assert reach.addresses == tuple(map(str, dialled or ()))
    assert [reach.addresses for reach in found.hosts if reach.names.name == "a.b.c"] == [("10.1.0.0/16",)] * 2


def test_a_secret_whose_every_request_is_denied_goes_nowhere_and_says_so():
    denial = EgressDenial("a.b.c", paths=("/**",))
    policy = Policy(
        egress=(EgressRule("a.b.c"), denial), secrets=(SecretGrant("KEY", (Endpoint("a.b.c", 443),)),)
    )
    (secret,) = authority(policy).secrets
    assert secret.sinks == ()
    assert [vain.decision.reason for vain in secret.unusable] == ["egress_denied"]


def test_a_carve_out_stands_at_the_entry_that_it_cuts_and_one_over_nothing_nowhere(profile_of):
    made = profile_of("filesystem_access: [read:/w, read-write:/w/a, none:/w/a/x, none:/other]")
    found = authority_of(made).files
    assert [(entry.path, [carved.path for carved in entry.except_paths]) for entry in found] == [
        ("/w", []),
        ("/w/a", ["/w/a/x"]),
    ]
