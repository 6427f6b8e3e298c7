"""A draft allows exactly what was used, and is no wider than what it was narrowed from."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.properties import thorough

from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import EgressQuestion, SecretQuestion, ToolQuestion, answer
from affiant.policy.decision_log.reader import RecordedDecision, read_decision_log
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.diff.differences import compare_profiles
from affiant.policy.editor.rule_text import approval_text, limits_text, rule_text
from affiant.policy.learn.checked_proposal import Proposal, propose
from affiant.policy.learn.draft_rules import rules_of
from affiant.policy.learn.draft_text import Source
from affiant.policy.learn.learned import LearningRefused, learn
from affiant.policy.lint.lint import lint_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.model.profile import (
    Approval,
    EgressDenial,
    EgressRule,
    Injection,
    ModelRule,
    PathGrant,
    Policy,
    PortGrant,
    ProviderTool,
    Resources,
    Scheme,
    SecretGrant,
    StartGrant,
    ToolRule,
)
from affiant.policy.model.sigv4 import SigV4
from affiant.policy.normal_form.digest import set_digest

connections = some.connections.map(lambda each: replace(each, scheme=Scheme.HTTPS))  # a CONNECT is TLS
_asked = st.lists(
    st.one_of(
        some.tools,
        some.provider_tools,
        some.models,
        some.paths,
        some.ports,
        some.egress,
        connections,
    ).map(lambda each: (each, None))
    | some.secrets,
    max_size=12,
)


def profiles_of(policy: Policy) -> ProfileSet:
    compiled = compile_policy(policy)
    mark = Mark("from.yaml", 1, 1)
    profile = Profile("dev", compiled, mark, dict.fromkeys(compiled.policy.rules, mark))
    return ProfileSet({"dev": profile}, set_digest({"dev": profile.digest}), "sha256:0", "from.yaml")


def recorded(policy: Policy, asked) -> list[RecordedDecision]:
    """What enforcement writes of these requests, read back."""
    compiled = compile_policy(policy)
    by = DecidedBy("s", compiled.digest, "dev")
    lines = []
    for question, surface in asked:
        if isinstance(question, SecretQuestion):
            decision = compiled.decide_secret(
                question.name, host=question.host, port=question.port, scheme="https", surface=surface
            )
        else:
            decision = answer(compiled, question)
        lines.append(decision_line(by, question, decision, ts=1_700_000_000, surface=surface))
    return list(read_decision_log(lines)) if lines else []


def drafted(found: list[RecordedDecision], start: ProfileSet | None = None, **more) -> Proposal:
    options = {"keep": frozenset(), "include_denied": False, **more}
    learned = learn(found, start=start, paths_below=options.pop("paths_below", None))
    return propose(learned, Source(("decisions.jsonl",), start), **options)


def allowed(profile: Profile, each: RecordedDecision) -> bool:
    policy, question = profile.compiled, each.question
    if isinstance(question, SecretQuestion):
        decision = policy.decide_secret(
            question.name, host=question.host, port=question.port, scheme="https", surface=each.surface or ""
        )
    else:
        decision = answer(policy, question)
    return decision.effect is Effect.ALLOW


_PIN, _OTHER_PIN = some.PINS
_ANYWHERE_AND_PINNED = Policy(tools=(ToolRule("a"), ToolRule("a", approval=True, schema=_PIN)))


@thorough(60)
@given(some.policies(), _asked, st.none() | st.integers(1, 2))
@example(_ANYWHERE_AND_PINNED, [(ToolQuestion("a", None, Origin(None, _OTHER_PIN)), None)], None)
def test_a_draft_allows_all_that_was_allowed_and_is_no_wider(policy: Policy, asked, paths_below):
    start, found = profiles_of(policy), recorded(policy, asked)
    made = drafted(found, start, paths_below=paths_below)
    if not found:
        return
    profile = made.profiles.profile("dev")
    assert all(allowed(profile, each) for each in found if each.effect is Effect.ALLOW)
    assert not [
        each for each in compare_profiles("dev", start.profile("dev"), profile) if each.direction.is_wider
    ]


@thorough(60)
@given(some.policies(), _asked, some.egress | some.tools | some.models)
def test_without_a_profile_to_start_from_a_draft_allows_nothing_that_was_not_used(policy, asked, other):
    found = recorded(policy, asked)
    if not found:
        return
    profile = drafted(found).profiles.profile("dev")
    used = {each.question for each in found if each.effect is Effect.ALLOW}
    texts = {each.request for each in found if each.effect is Effect.ALLOW}
    named = {question for question in used if not isinstance(question, EgressQuestion)}
    if answer(profile.compiled, other).effect is Effect.ALLOW:
        if isinstance(other, EgressQuestion):
            (line,) = recorded(policy, [(other, None)])
            connection_alone = (other.method, other.target) == ("HEAD", "/")
            assert line.request in texts or connection_alone
        else:
            assert other.name in {getattr(question, "name", None) for question in named}


@thorough(40)
@given(some.policies(), _asked)
def test_what_was_denied_is_included_only_where_asked_and_never_against_a_denial(policy: Policy, asked):
    start, found = profiles_of(policy), recorded(policy, asked)
    if not found:
        return
    made = drafted(found, start, include_denied=True)
    profile = made.profiles.profile("dev")
    for each in found:
        if each.reason in ("tool_denied", "egress_denied", "path_carved_out"):
            assert not allowed(profile, each)
        if each.effect is Effect.ALLOW:
            assert allowed(profile, each)


START = """\
agent_configs:
  dev:
    tools:
      - run_tests
      - name: apply
        args:
          n: {max: 3}
          f: {under: /workspace, write: true}
          p: {pattern: "[a-z]+", max_len: 9, optional: true}
          o: {each: {one_of: [a, 1, true]}, optional: true}
      - {name: served, server: k8s, schema: "sha256:%s"}
      - name: shell
        args: {argv: {argv: [[git, status], [ls, -l]]}, where: {host: "*.c.com"}}
      - unused
      - {deny: rm}
    filesystem_access: ["read-write:/workspace", {path: /workspace/.git, mode: none}]
    network_egress:
      - {host: api.b.com, methods: [GET, POST], paths: [/v1/**]}
      - {host: "*.c.com"}
      - {host: pinned.d.com, tls: passthrough}
      - {host: private, port: 8443, address: [10.0.0.0/8]}
      - {deny: api.b.com, paths: [/v1/admin/**]}
    secrets_access:
      - KEY
      - {name: OTHER, hosts: ["private:8443"], inject: {header: x-key, format: "k {}"}, ref: "vault:kv/a#b"}
    models: [small, {name: big, upstream: attested}]
    resources: {memory: 2GiB, cpus: 2}
  other: {tools: [x]}
""" % ("a" * 64)
BASE = {"agent": "dev", "decision": "allow", "reason": "allowed", "ts": 1_700_000_000}


def log(*lines: dict | str) -> list[RecordedDecision]:
    made = [{**BASE, **({"request": line} if isinstance(line, str) else line)} for line in lines]
    return list(read_decision_log([json.dumps(line).encode() for line in made]))


def denied(request: str, reason: str, **more) -> dict:
    return {"request": request, "decision": "deny", "reason": reason, **more}


@pytest.fixture(scope="module")
def start() -> ProfileSet:
    return load_profiles(START.encode(), source="start.yaml")


ALL = (
    "tool:run_tests",
    'tool:apply {"n": 1, "f": "/workspace/a"}',
    f"tool:served@k8s#sha256:{'a' * 64}",
    'tool:shell {"argv": ["git", "status"], "where": "x.c.com"}',
    "tool:unused",
    "write:/workspace",
    "connect:pinned.d.com",
    "GET https://api.b.com/v1/a",
    "POST https://api.b.com/v1/b",
    "GET https://x.c.com/",
    "GET https://private:8443/",
    "secret:KEY@api.b.com",
    "secret:OTHER@private:8443",
    "model:small",
    {"request": "model:big", "attested": True},
)


def test_rules_keep_all_that_they_say(start: ProfileSet):
    """Arguments, origins, addresses, references, placeholders' places: what was used is as it was written."""
    made = drafted(log(*ALL), start).profiles.profile("dev")
    before = start.profile("dev")
    assert set(made.policy.tools) == set(before.policy.tools)
    assert {rule.address for rule in made.policy.egress if getattr(rule, "port", 0) == 8443} == {
        ("10.0.0.0/8",)
    }
    assert {(grant.name, grant.ref, grant.inject) for grant in made.policy.secrets} == {
        (grant.name, grant.ref, grant.inject) for grant in before.policy.secrets
    }
    assert made.policy.resources == before.policy.resources


def test_methods_and_paths_are_no_product(start: ProfileSet):
    made = drafted(log("GET https://api.b.com/v1/a", "POST https://api.b.com/v1/b"), start)
    policy = made.profiles.profile("dev").compiled
    for method, path in (("GET", "/v1/b"), ("POST", "/v1/a"), ("GET", "/v1/a/x"), ("GET", "/v1/")):
        assert not policy.decide_egress(
            host="api.b.com", port=443, scheme="https", method=method, target=path
        ).allowed


def test_a_request_that_looks_like_a_subtree_is_none(start: ProfileSet):
    """An agent that asks for /v1/** must not be given all below."""
    for made in (
        drafted(log("GET https://api.b.com/v1/**")),
        drafted(log("GET https://api.b.com/v1/**"), start),
    ):
        assert "cannot name a path with *" in made.text
        assert not made.profiles.profile("dev").policy.egress or "paths: [/v1/**]" not in made.text.replace(
            "# ", ""
        )


def test_subtrees_only_where_asked_and_only_within_what_was_allowed(start: ProfileSet):
    found = log(*(f"GET https://api.b.com/v1/p/{number}/x" for number in range(40)))
    exact = drafted(found, start).profiles.profile("dev")
    assert len(exact.policy.egress[0].paths or ()) == 40
    wide = drafted(found, start, paths_below=2)
    assert "paths: [/v1/p/**]}  # 40 times" in wide.text
    assert "all below: as asked" in wide.text
    assert "paths: [/v1/**]}  # 40 times" in drafted(found, start, paths_below=1).text
    narrow = load_profiles(
        START.replace("paths: [/v1/**]", "paths: [/v1/p/1/**]").encode(), source="start.yaml"
    )
    assert "/v1/p/**" not in drafted(found, narrow, paths_below=1).text


def test_what_was_not_used_is_left_out_and_named(start: ProfileSet):
    made = drafted(log("tool:run_tests", {"request": "tool:unused", "offered": True}), start)
    assert {rule.name for rule in made.profiles.profile("dev").policy.tools} == {"run_tests", "rm"}
    assert "Offered to a model, and never called:\n    #   tool:unused  once" in made.text
    assert "models/0 at start.yaml:26:14: small" in made.text
    assert "  # other: the log has no decision of it, so it is left out." in made.text
    assert list(made.profiles.profiles) == ["dev"]


def test_a_section_is_kept_where_asked(start: ProfileSet):
    made = drafted(
        log("tool:run_tests"), start, keep=frozenset({"models", "secrets_access", "network_egress"})
    )
    profile = made.profiles.profile("dev")
    assert profile.policy.models == start.profile("dev").policy.models
    assert profile.policy.egress == start.profile("dev").policy.egress
    assert "if nobody recorded it, --keep filesystem_access" in made.text
    assert "--keep models" not in made.text


def test_an_agent_to_start_is_not_kept_where_the_draft_has_no_such_agent():
    both = load_profiles(
        b"agent_configs: {dev: {tools: [run_tests], may_start: [reviewer, writer]}, reviewer: {}, writer: {}}"
    )
    made = drafted(log("tool:run_tests"), both, keep=frozenset({"may_start"}))
    assert made.profiles.profile("dev").policy.may_start == ()
    assert "reviewer is left out" in made.text and "writer is left out" in made.text


def test_files_and_hosts_that_arguments_are_judged_by_stay(start: ProfileSet):
    made = drafted(
        log({"request": "tool:shell", "withheld": True}, {"request": "tool:apply", "withheld": True}), start
    )
    profile = made.profiles.profile("dev")
    assert profile.policy.egress == start.profile("dev").policy.egress
    assert profile.policy.filesystem == start.profile("dev").policy.filesystem


def test_what_was_denied_stands_in_comments_with_its_rule_or_the_reason(start: ProfileSet):
    found = log(
        "tool:run_tests",
        denied("PUT https://api.b.com/v1/a", "method_not_listed"),
        denied("GET https://api.b.com/v1/admin/x", "egress_denied"),
        denied("tool:rm", "tool_denied"),
        denied("tool:apply", "tool_argument_refused", withheld=True),
        denied("tool:new", "tool_not_listed"),
        denied("secret:KEY@x.c.com", "secret_not_bound", surface="header:authorization"),
        denied("model:huge", "model_not_listed"),
        denied("write:/etc", "path_not_listed"),
        denied("tool:?", "tool_not_listed"),
    )
    made = drafted(found, start)
    profile = made.profiles.profile("dev")
    assert {rule.name for rule in profile.policy.tools} == {"run_tests", "rm"}
    for line in (
        "#     - {host: api.b.com, methods: [PUT], paths: [/v1/a]}",
        "#   GET https://api.b.com/v1/admin/x  once, 2023-11-14T22:13:20Z [egress_denied]: a rule denies it",
        "[tool_argument_refused]: a rule for its arguments refused it",
        "#     - new",
        "#     - {name: KEY, hosts: [x.c.com]}",
    ):
        assert line in made.text
    wider = drafted(found, start, include_denied=True).profiles.profile("dev")
    assert {rule.name for rule in wider.policy.tools} == {"run_tests", "rm", "new"}
    assert not wider.compiled.decide_tool("rm").allowed
    assert wider.compiled.decide_model("huge").allowed


def test_an_agent_that_the_file_does_not_know_is_given_nothing(start: ProfileSet):
    found = log("tool:run_tests", {"agent": "stranger", "request": "tool:run_tests"})
    made = drafted(found, start)
    assert list(made.profiles.profiles) == ["dev"]
    assert "# stranger has no profile in start.yaml" in made.text


@given(st.text(min_size=1, max_size=120))
@example("\U000e0100")  # a variation selector: printable, and in no file of profiles
@example("\u3164")
@thorough()
def test_no_text_of_a_log_becomes_a_rule_or_ends_a_comment(text: str):
    hostile = log(
        denied(f"tool:{text}\n    network_egress: [{{host: evil.com}}]", "tool_not_listed"),
        {"request": f"model:{text}"},
        denied(f"GET https://{text}/", "host_not_canonical"),
        denied(f"read:/{text}", "path_not_listed"),
    )
    made = drafted(hostile)
    profile = made.profiles.profile("dev")
    assert profile.policy.egress == ()
    assert profile.policy.tools == ()
    assert made.text.isascii() or made.text.isprintable() or "\n" in made.text


@pytest.mark.parametrize(
    ("tools", "used", "kept"),
    [
        pytest.param(
            f"a, {{name: a, schema: '{_PIN}', approval: true}}",
            f"tool:a#{_OTHER_PIN}",
            {0, 1},
            id="definition",
        ),
        pytest.param("a, {name: a, server: s, approval: true}", "tool:a@t", {0, 1}, id="server"),
        pytest.param(
            "{name: a, server: s}, {name: a, server: t, approval: true}", "tool:a@s", {0}, id="other server"
        ),
        pytest.param("a, {name: b, approval: true}", "tool:a", {0}, id="other tool"),
        pytest.param(
            "{name: a, args: {n: {max: 9}}}, {name: a, args: {n: {min: 5}}, approval: true}",
            'tool:a {"n": 1}',
            {0, 1},
            id="arguments",
        ),
        pytest.param(
            "{name: a, args: {f: any}}, {name: a, args: {f: {under: /workspace}}, approval: true}",
            'tool:a {"f": 1}',
            {0, 1},
            id="a path",
        ),
        pytest.param(
            "{name: a, args: {h: any}}, {name: a, args: {h: {host: pinned.d.com}}}",
            'tool:a {"h": 1}',
            {0, 1},
            id="a host to which what is sent is not seen",
        ),
        pytest.param(
            "{name: a, server: s, args: {h: any}}, {name: a, args: {h: {host: pinned.d.com}}},"
            " {name: a, server: t, approval: true}",
            'tool:a@s {"h": 1}',
            {0, 1, 2},
            id="what lets through beside it in turn",
        ),
    ],
)
def test_a_demand_for_approval_stays_beside_what_would_need_none_without_it(profile_of, tools, used, kept):
    """A call that fits several rules needs approval if one of them asks: also where nobody used that one."""
    text = (
        f"agent_configs: {{dev: {{tools: [{tools}], filesystem_access: ['read:/workspace'],"
        " network_egress: [{host: pinned.d.com, tls: passthrough}],"
        f" requires_human_approval: {{egress: [POST], approvers: [{'A' * 43}]}}}}}}"
    )
    profiles = load_profiles(text.encode())
    written = re.split(r"(?<=[a}]), (?=\{name)", tools)
    made = drafted(log(used), profiles).profiles.profile("dev")
    expected = profile_of(f"tools: [{', '.join(written[at] for at in sorted(kept))}]")
    assert set(made.policy.tools) == set(expected.policy.tools)


def test_a_demand_for_approval_stays_where_what_was_denied_is_included():
    text = "agent_configs: {dev: {tools: [{name: a, server: s, approval: true}, {name: b, approval: true}]}}"
    made = drafted(
        log(denied("tool:a@?", "tool_other_server"), denied("tool:c", "tool_not_listed")),
        load_profiles(text.encode()),
        include_denied=True,
    )
    profile = made.profiles.profile("dev")
    assert {(rule.name, rule.server, rule.approval) for rule in profile.policy.tools} == {
        ("a", "s", True),
        ("a", None, False),
        ("c", None, False),
    }
    assert not profile.compiled.decide_tool("a", Origin("s")).allowed
    assert "{name: a, server: s, approval: true}  # kept: a demand for approval" in made.text


def test_a_draft_lints(start: ProfileSet):
    made = drafted(log("connect:pinned.d.com"), start)
    assert "tls_passthrough" in {each.code for each in lint_profiles(made.profiles)}


def test_more_than_anybody_could_review_is_not_learned_in_part(monkeypatch):
    many = log(*(f"GET https://api.b.com/v1/{number}" for number in range(600)))
    assert sum(len(rule.paths or ()) for rule in drafted(many).profiles.profile("dev").policy.egress) == 600
    long = log(*(f"GET https://api.b.com/v1/{number:>02000}" for number in range(600)))
    with pytest.raises(LearningRefused, match="would not load"):
        drafted(long)
    monkeypatch.setattr("affiant.policy.learn.learned.MAX_USES", 599)
    with pytest.raises(LearningRefused, match="more different requests"):
        learn(many)
    assert learn(many, paths_below=1).uses == 1


def test_denials_beyond_the_bound_are_counted(start: ProfileSet):
    made = drafted(
        log("tool:run_tests", *(denied(f"tool:t{n}", "tool_not_listed") for n in range(1200))), start
    )
    assert "200 more decisions about other requests" in made.text


@pytest.mark.parametrize(
    "sections",
    [
        "secrets_access: [{name: A, hosts: [a.b.com], inject: {basic: git}}]",
        "secrets_access: [{name: A, hosts: [a.b.com], inject: {query: key}}]",
        "secrets_access: [{name: A, hosts: [a.b.com], inject: {body: {json: /a/b}}}]",
        "secrets_access: [{name: A, hosts: [a.b.com], inject: {body: {form: key}}}]",
        "secrets_access: [{name: A, hosts: [a.b.com], inject: {sigv4: {service: s3, region: eu-central-1}}}]",
        "secrets_access: [{name: A, hosts: [a.b.com], inject: {header: X-Key, format: 'k {}'}}]",
        "secrets_access: [{name: A, hosts: [b.c], inject: {exchange: {grant: token_exchange, url: 'https://i.c/t'}}}]",
        "tools: [{name: x, rate: 10/min}]",
        "secrets_access: [{name: A, hosts: [a.b.com], max_uses: 7}]",
        "models: [{name: m, max_tokens: 4096}]",
        "models: [{name: m, upstream: attested, max_tokens: 8k}]",
        "network_egress: [{host: a.b.com, limits: {requests: [60/min, 500], bytes_out: 5MiB/h}}]",
        "tools: [{name: x, args: {a: {pattern: '[a-z]+', max_len: 4}, b: {each: {pattern: 'v[0-9]'}}}}]",
    ],
)
def test_a_rule_is_written_as_it_is_read(profile_of, sections: str) -> None:
    section = sections.partition(":")[0]
    (rule,) = rules_of(profile_of(sections), section).values()
    assert [*rules_of(profile_of(f"{section}: [{rule_text(rule)}]"), section).values()] == [rule]


@pytest.mark.parametrize(
    "limits",
    ["{tool_calls: 500, wall: 2h}", "{requests: [120/min, 9000/day], tokens: 2M/day, bytes_out: 50MiB}"],
)
def test_limits_are_written_as_they_are_read(profile_of, limits: str) -> None:
    read = profile_of(f"limits: {limits}").compiled.policy.limits
    assert profile_of(f"limits: {limits_text(read)}").compiled.policy.limits == read


@pytest.mark.parametrize(
    "approval",
    [
        "true",
        "{egress: [POST]}",
        f"{{everything: true, approvers: [{'A' * 43}], ttl: 90s}}",
        f"{{egress: [PUT, POST], approvers: [{'A' * 43}, {'B' * 42}A], quorum: 2}}",
    ],
)
def test_approval_is_written_as_it_is_read(profile_of, approval: str) -> None:
    read = profile_of(f"requires_human_approval: {approval}").policy.approval
    assert profile_of(f"requires_human_approval: {approval_text(read)}").policy.approval == read


def test_a_secret_at_a_host_that_counts_needs_no_other_rule() -> None:
    text = (
        "agent_configs: {dev: {network_egress: [{host: b.c, limits: {bytes_out: 1KiB}}],"
        " secrets_access: [{name: K, hosts: [b.c]}]}}"
    )
    profiles = load_profiles(text.encode())
    found = log({"agent": "dev", "request": "secret:K@b.c", "rules": ["secrets/0"]})
    assert (
        drafted(found, profiles).profiles.profile("dev").policy.egress
        == profiles.profile("dev").policy.egress
    )


def test_a_rule_that_counts_is_kept_whole_and_so_is_every_limit() -> None:
    text = (
        "agent_configs: {dev: {network_egress: [{host: a.b.com, methods: [GET, POST], limits: {requests: 60/min}},"
        " {host: c.b.com}], models: [{name: m, max_tokens: 64}], limits: {requests: 9},"
        " secrets_access: [{name: K, hosts: [c.b.com], max_uses: 2}]}}"
    )
    profiles = load_profiles(text.encode())
    start = profiles.profile("dev")
    rules = {rule.host: f"egress/{at}" for at, rule in enumerate(start.policy.egress)}
    asked = {
        "GET https://a.b.com/x": rules["a.b.com"],
        "POST https://a.b.com/y": rules["a.b.com"],
        "GET https://c.b.com/z": rules["c.b.com"],
        "secret:K@c.b.com": "secrets/0",
        "model:m": "models/0",
    }
    found = log(*({"agent": "dev", "request": each, "rules": [rule]} for each, rule in asked.items()))
    made = drafted(found, profiles).profiles.profile("dev")
    kept = {rule.host: rule for rule in made.policy.egress}
    assert kept["a.b.com"].limits == start.policy.egress[int(rules["a.b.com"][-1])].limits
    assert kept["a.b.com"].methods == ("GET", "POST") and kept["c.b.com"].methods == ("GET",)
    assert (made.policy.models, made.policy.secrets) == (start.policy.models, start.policy.secrets)
    assert made.compiled.policy.limits == start.compiled.policy.limits


def test_a_secret_that_no_rule_can_name_is_listed_and_its_connection_stays():
    value = "sk-aB3dE5gH7jK9mN1pQ3sT5"
    made = drafted(
        log(f"secret:{value.replace('-', '_')}@api.b.com", *(f"secret:KEY@h{n}.b.com" for n in range(70)))
    )
    profile = made.profiles.profile("dev")
    assert profile.policy.secrets == ()
    assert made.text.count("no rule can name it") == 71


def test_a_secret_stands_where_its_placeholder_stood():
    for surface, place in (
        ("header:authorization", "- {name: KEY, hosts: [a.b.com]}  #"),
        ("header:x-key", 'inject: {header: x-key, format: "{}"}}'),
        ("query:key", "inject: {query: key}}"),
        ("body:form:key", "inject: {body: {form: key}}}"),
        ("body:json:/a/b", "inject: {body: {json: /a/b}}}"),
        ("sigv4:eu-central-1/s3", "inject: {sigv4: {service: s3, region: eu-central-1}}}"),
    ):
        found = log({"request": "secret:KEY@a.b.com", "surface": surface})
        assert place in drafted(found).text


WRITTEN = {
    Policy: {
        "tools",
        "provider_tools",
        "filesystem",
        "egress",
        "secrets",
        "models",
        "ports",
        "may_start",
        "approval",
        "resources",
        "floor",
        "limits",
        "share",
    },
    ToolRule: {"name", "approval", "arguments", "server", "schema", "rate"},
    PathGrant: {"path", "mode"},
    EgressRule: {"host", "port", "scheme", "methods", "paths", "tls", "address", "limits"},
    EgressDenial: {"host", "port", "methods", "paths"},
    SecretGrant: {"name", "hosts", "ref", "inject", "shape", "max_uses"},
    Injection: {"header", "format", "user", "query", "json", "form", "exchange", "sigv4"},
    SigV4: {"service", "region"},
    ProviderTool: {"name"},
    PortGrant: {"first", "last"},
    StartGrant: {"agent", "at_most"},
    ModelRule: {"name", "attested", "max_tokens"},
    Approval: {"everything", "methods", "approvers", "quorum", "ttl", "trusted_root"},
    Resources: {"cpus", "memory", "disk", "pids"},
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_member_of_a_rule_is_written_or_a_draft_would_drop_it(kind: type):
    """Whoever adds one writes it in ``rule_text``, or in ``draft_text``, and here."""
    assert {each.name for each in fields(kind)} == WRITTEN[kind]
