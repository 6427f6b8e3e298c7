"""The comparison of two policies is exact: every request on which they differ is told, by one that stands for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.properties import thorough

from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.questions import (
    EgressQuestion,
    Question,
    ToolQuestion,
    answer,
    parse_question,
    question_text,
)
from affiant.policy.diff.atoms import Atoms
from affiant.policy.diff.differences import (
    Difference,
    Direction,
    compare_profile_sets,
    compare_profiles,
)
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.limits import Bound
from affiant.policy.model.profile import EgressRule, Policy, TLSMode, ToolDenial, ToolRule

PAIRS = st.tuples(some.policies(), some.policies())
MANY = thorough(60)
RANK = {Effect.DENY: 0, Effect.ASK: 1, Effect.ALLOW: 2}


def compiled(policy: Policy) -> CompiledPolicy:
    return compile_policy(policy, asks=True)


def profile(policy: Policy) -> Profile:
    """A profile without a file: every rule stands at one place."""
    made = compile_policy(policy)
    mark = Mark("p.yaml", 1, 1)
    sections = {
        "tools": made.policy.tools,
        "provider_tools": made.policy.provider_tools,
        "ports": made.policy.ports,
        "may_start": made.policy.may_start,
        "filesystem": made.policy.filesystem,
        "egress": made.policy.egress,
        "secrets": made.policy.secrets,
        "models": made.policy.models or (),
    }
    places = {f"{name}/{at}": mark for name, rules in sections.items() for at in range(len(rules))}
    return Profile("dev", made, mark, places)


def compared(old: Policy, new: Policy) -> tuple[Difference, ...]:
    return compare_profiles("dev", profile(old), profile(new))


# -- one request stands for all of its kind ----------------------------------------------------------------------------


@MANY
@given(pair=PAIRS, question=some.tools)
def test_a_tool_is_answered_like_the_one_that_stands_for_it(pair, question):
    _alike(pair, question, Atoms(*pair).tool(question), set(Atoms(*pair).tools()))


@MANY
@given(pair=PAIRS, question=some.provider_tools)
def test_a_provider_tool_is_answered_like_the_one_that_stands_for_it(pair, question):
    atoms = Atoms(*pair)
    _alike(pair, question, atoms.provider_tool(question), set(atoms.provider_tools()))


@MANY
@given(pair=PAIRS, question=some.ports)
def test_a_port_is_answered_like_the_one_that_stands_for_it(pair, question):
    atoms = Atoms(*pair)
    _alike(pair, question, atoms.port(question), {first for first, _ in atoms.ports()})


@MANY
@given(pair=PAIRS, question=some.starts)
def test_a_start_is_answered_like_the_one_that_stands_for_it(pair, question):
    atoms = Atoms(*pair)
    _alike(pair, question, atoms.start(question), set(atoms.starts()))


@MANY
@given(pair=PAIRS, question=some.models)
def test_a_model_is_answered_like_the_one_that_stands_for_it(pair, question):
    _alike(pair, question, Atoms(*pair).model(question), {model for model, _ in Atoms(*pair).models()})


@MANY
@given(pair=PAIRS, question=some.paths)
def test_a_path_is_answered_like_the_one_that_stands_for_it(pair, question):
    _alike(pair, question, Atoms(*pair).path(question), set(Atoms(*pair).paths()))


@thorough(200)
@given(pair=PAIRS, question=some.egress)
def test_a_request_is_answered_like_the_one_that_stands_for_it(pair, question):
    atoms = Atoms(*pair)
    stands = atoms.request(question)
    if stands is None:
        assert all(answer(compiled(policy), question).effect is Effect.DENY for policy in pair)
    else:
        _alike(pair, question, stands, set(atoms.requests()))


@MANY
@given(pair=PAIRS, question=some.connections)
def test_a_connection_is_answered_like_the_one_that_stands_for_it(pair, question):
    atoms = Atoms(*pair)
    stands = atoms.request(question)
    if stands is None:
        assert all(answer(compiled(policy), question).effect is Effect.DENY for policy in pair)
    else:
        _alike(pair, question, stands, set(atoms.connections()))


def _alike(pair: tuple[Policy, Policy], question: Question, stands: Question, atoms: set[Question]) -> None:
    assert stands in atoms
    for policy in pair:
        assert answer(compiled(policy), question).effect is answer(compiled(policy), stands).effect


# -- what is compared --------------------------------------------------------------------------------------------------


@thorough(200)
@given(pair=PAIRS, question=some.egress)
def test_a_request_on_which_two_policies_differ_is_told(pair, question):
    old, new = (effective_egress(compiled(policy), question).effect for policy in pair)
    stands = Atoms(*pair).request(question)
    told = {found.request: found.direction for found in compared(*pair) if found.plane == "egress"}
    if old is new:
        assert stands is None or question_text(stands) not in told
    else:
        wider = RANK[new] > RANK[old]
        assert told[question_text(stands)] is (Direction.WIDENS if wider else Direction.NARROWS)


@MANY
@given(pair=PAIRS, asked=some.secrets)
def test_a_use_of_a_secret_on_which_two_policies_differ_is_told(pair, asked):
    question, surface = asked

    def effect(policy: Policy) -> Effect:
        return (
            compiled(policy)
            .decide_secret(
                question.name, host=question.host, port=question.port, scheme="https", surface=surface
            )
            .effect
        )

    old, new = map(effect, pair)
    told = {found.request for found in compared(*pair) if found.plane == "secret"}
    assert (f"{question_text(question)} in {surface}" in told) == (old is not new)


@MANY
@given(pair=PAIRS, question=some.tools | some.paths)
@example(
    pair=(
        Policy(tools=(ToolRule("a", rate=(Bound(1, 60),)),)),
        Policy(tools=(ToolRule("a", rate=(Bound(2, 60),)),)),
    ),
    question=ToolQuestion("a"),
)
def test_a_tool_or_path_on_which_two_policies_differ_is_told(pair, question):
    old, new = (answer(compiled(policy), question).effect for policy in pair)
    atoms = Atoms(*pair)
    stands = atoms.path(question) if hasattr(question, "path") else atoms.tool(question)
    told = {found.request for found in compared(*pair) if found.plane != "limit"}
    assert (question_text(stands) in told) == (old is not new)


@MANY
@given(pair=PAIRS)
def test_the_other_way_round_it_is_the_opposite(pair):
    opposite = {
        Direction.WIDENS: Direction.NARROWS,
        Direction.NARROWS: Direction.WIDENS,
        Direction.CHANGES: Direction.CHANGES,
    }
    there = {(found.plane, found.request, found.direction) for found in compared(*pair)}
    back = {(found.plane, found.request, opposite[found.direction]) for found in compared(*reversed(pair))}
    assert there == back


@MANY
@given(policy=some.policies())
def test_a_policy_does_not_differ_from_itself(policy):
    assert compared(policy, replace(policy, egress=tuple(reversed(policy.egress)))) == ()


@MANY
@given(policy=some.policies(), name=st.sampled_from(some.NAMES))
def test_a_denial_only_narrows(policy, name):
    denied = replace(policy, tools=(*policy.tools, ToolDenial(name)))
    assert all(found.direction is Direction.NARROWS for found in compared(policy, denied))


@MANY
@given(policy=some.policies())
def test_without_a_profile_nothing_is_allowed(policy):
    found = compare_profiles("dev", profile(policy), None)
    assert all(each.direction is Direction.NARROWS for each in found if each.plane != "resource")
    assert found[0].plane == "agent"


# -- by hand -----------------------------------------------------------------------------------------------------------


def diff(old: str, new: str) -> list[tuple[str, str, str]]:
    before, after = (load_profiles(f"agent_configs: {{dev: {{{text}}}}}".encode()) for text in (old, new))
    return [
        (found.direction.value, found.plane, found.request) for found in compare_profile_sets(before, after)
    ]


INJECTED = "network_egress: 'allowed:a.b.com', secrets_access: [{name: KEY, inject: {"
EXCHANGED = f"{INJECTED}exchange: {{"
SIGNING = "{name: KEY, inject: {sigv4: {service: s3, region: %s}}}"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("tools: [a]", "tools: [a, b]", [("widens", "tool", "tool:b")]),
        ("tools: [{name: a, approval: true}]", "tools: [a]", [("widens", "tool", "tool:a")]),
        (
            "models: [m]",
            "tools: []",
            [
                ("widens", "model", "model:other-model"),
                ("widens", "model", "model:other-model at an attested upstream"),
            ],
        ),
        ("models: [{name: m, upstream: attested}]", "models: [m]", [("widens", "model", "model:m")]),
        (
            "filesystem_access: 'read:/w'",
            "filesystem_access: 'read-write:/w'",
            [("widens", "path", "write:/w")],
        ),
        (
            "filesystem_access: ['read:/w', 'none:/w/s']",
            "filesystem_access: 'read:/w'",
            [("widens", "path", "read:/w/s")],
        ),
        ("filesystem_access: 'read:/w'", "filesystem_access: 'read:/w/a'", [("narrows", "path", "read:/w")]),
        (
            "network_egress: [{host: a.b.com, tls: inspect}]",
            "network_egress: [{host: a.b.com, tls: passthrough}]",
            [("widens", "tls", "connect:a.b.com")],
        ),
        (
            "network_egress: [{host: a.b.com, address: 10.1.0.0/16}]",
            "network_egress: [{host: a.b.com, address: 10.0.0.0/8}]",
            [("widens", "address", "addresses of a.b.com")],
        ),
        (
            "network_egress: [{host: a.b.com, address: [10.0.0.0/9, 10.128.0.0/9]}]",
            "network_egress: [{host: a.b.com, address: 10.0.0.0/8}]",
            [],
        ),
        (
            "network_egress: [{host: a.b.com, address: 10.0.0.0/8}]",
            "network_egress: [{host: a.b.com, address: 172.16.0.0/12}]",
            [("changes", "address", "addresses of a.b.com")],
        ),
        ("resources: {memory: 1GiB}", "resources: {memory: 2GiB}", [("widens", "resource", "memory")]),
        ("resources: {memory: 1GiB}", "tools: []", [("changes", "resource", "memory")]),
        (
            "network_egress: 'allowed:a.b.com', secrets_access: [{name: KEY, ref: 'local:ONE'}]",
            "network_egress: 'allowed:a.b.com', secrets_access: [{name: KEY, ref: 'local:TWO'}]",
            [("changes", "secret_setting", "reference of KEY")],
        ),
        (
            f"{EXCHANGED}grant: token_exchange, url: 'https://i.com/t', scope: a}}}}}}]",
            f"{EXCHANGED}grant: token_exchange, url: 'https://i.com/u', scope: a b}}}}}}]",
            [
                ("changes", "secret_setting", "exchange's scope of KEY"),
                ("changes", "secret_setting", "exchange's url of KEY"),
            ],
        ),
        (
            f"{INJECTED}header: authorization, format: 'Bearer {{}}'}}}}]",
            f"{EXCHANGED}grant: token_exchange, url: 'https://i.com/t'}}}}}}]",
            [
                ("changes", "secret_setting", "exchange's grant of KEY"),
                ("changes", "secret_setting", "exchange's subject_token_type of KEY"),
                ("changes", "secret_setting", "exchange's url of KEY"),
            ],
        ),
        (
            f"network_egress: 'allowed:a.b.com', secrets_access: [{SIGNING % 'eu-central-1'}]",
            f"network_egress: 'allowed:a.b.com', secrets_access: [{SIGNING % 'eu-west-1'}]",
            [
                ("narrows", "secret", "secret:KEY@a.b.com in sigv4:eu-central-1/s3"),
                ("widens", "secret", "secret:KEY@a.b.com in sigv4:eu-west-1/s3"),
            ],
        ),
    ],
)
def test_each_kind_of_difference(old, new, expected):
    assert diff(old, new) == expected


def test_a_request_tells_the_secrets_that_may_now_be_used_in_it():
    old = load_profiles(
        b"agent_configs: {dev: {network_egress: [{host: a.b.com, methods: [GET]}], secrets_access: [KEY]}}"
    )
    new = load_profiles(
        b"agent_configs: {dev: {network_egress: [{host: a.b.com, methods: [GET, DELETE]}], secrets_access: [KEY]}}"
    )
    (found,) = compare_profile_sets(old, new)[:1]
    assert (found.request, found.secrets) == ("DELETE https://a.b.com/x", ("KEY",))
    assert found.new.places == ("profiles.yaml:1:40",)


def test_a_wildcard_is_shown_by_names_of_both_depths():
    found = diff("tools: []", "network_egress: [{host: '**.b.com', methods: [GET], paths: [/v1]}]")
    assert found == [
        ("widens", "egress", "GET https://x.b.com/v1"),
        ("widens", "egress", "GET https://x.x.b.com/v1"),
    ]


def test_a_longest_name_under_a_wildcard_is_compared():
    suffix = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 59])
    assert len(suffix) == 251
    found = diff("tools: []", f"network_egress: [{{host: '**.{suffix}', methods: [GET], paths: [/]}}]")
    assert found == [("widens", "egress", f"GET https://x.{suffix}/")]


def test_what_stands_for_other_requests_is_none_that_a_rule_names():
    taken = Policy(
        egress=tuple(
            EgressRule(f"{letter}.b.com", paths=(f"/{letter}",)) for letter in "abcdefghijklmnopqrstuvwxyz"
        )
    )
    atoms = Atoms(taken, Policy(egress=(EgressRule("*.b.com"),)))
    assert len(set(atoms.hosts())) == 27


@pytest.mark.parametrize(
    "question",
    [
        "tool:a",
        "model:m",
        "read:/w",
        "write:/w",
        "connect:a.b.com",
        "connect:a.b.com:80",
        "GET https://a.b.com/x",
        "POST http://a.b.com/",
        "GET https://a.b.com:8443/",
        "secret:KEY@a.b.com",
        "secret:KEY@a.b.com:8443",
    ],
)
def test_a_question_is_written_as_it_is_read(question):
    assert question_text(parse_question(question)) == question


def test_a_passed_through_request_is_judged_by_its_connection():
    policy = compiled(Policy(egress=(EgressRule("a.b.c", tls=TLSMode.PASSTHROUGH),)))
    question = parse_question("GET https://a.b.c/")
    assert isinstance(question, EgressQuestion)
    assert effective_egress(policy, question).effect is Effect.ALLOW
