"""Warnings: each is given where it is due, and not elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from affiant.policy.lint.codes import ADVICE, WARNINGS
from affiant.policy.lint.lint import lint_profile, lint_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile

Make = Callable[..., Profile]

KEY = "A" * 43
BOTH = (
    "{everything: true, approvers: [{issuer: 'https://id.example', subject: ann@example.org}, "
    "{issuer: 'https://id.example', subject: Ann@example.org}], "
    """trusted_root: '{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'}"""
)
ASKED = f"{{everything: true, approvers: [{KEY}]}}"
CASES = [
    ("secrets_access: [A]", {"secret_no_sink"}),
    ("secrets_access: [{name: A, hosts: [a.b.com]}]", {"secret_unreachable_host"}),
    (
        "network_egress: [{host: a.b.com, paths: [/a]}], secrets_access: [{name: A, inject: {header: X-Key}}]",
        {"secret_storable_sink"},
    ),
    (
        "secrets_access: [{name: A, inject: {query: key}}], network_egress: [{host: a.b.com, methods: [GET]}]",
        {"secret_storable_sink"},
    ),
    (
        "secrets_access: [{name: A, inject: {body: {json: /k}}}], network_egress: [{host: a.b.com, methods: [POST]}]",
        {"secret_storable_sink"},
    ),
    (
        "secrets_access: [{name: A, inject: {body: {form: k}}}], network_egress: [{host: a.b.com, methods: [POST]}]",
        {"secret_storable_sink"},
    ),
    (
        (
            "network_egress: [{host: a.b.com, methods: [GET]}], "
            "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: auto}}}]"
        ),
        {"secret_signs"},
    ),
    (
        (
            "network_egress: [{host: a.b.com, methods: [GET]}], "
            "secrets_access: [{name: A, inject: {sigv4: {service: sts, region: auto}}}]"
        ),
        {"secret_signs", "secret_mints"},
    ),
    (
        "secrets_access: [{name: A, inject: {basic: git}}], network_egress: [{host: a.b.com, methods: [GET]}]",
        set(),
    ),
    (
        "secrets_access: [{name: A, inject: {exchange: {grant: token_exchange, url: 'https://i.com/t'}}}]",
        {"secret_no_sink", "secret_token_endpoint"},
    ),
    ("network_egress: 'allowed:a.b.com'", {"host_unrestricted"}),
    ("network_egress: [{host: a.b.com, methods: [GET]}]", set()),
    ("network_egress: [{host: x.s3.amazonaws.com, methods: [GET]}]", {"host_shared"}),
    ("network_egress: [{host: notamazonaws.com, methods: [GET]}]", set()),
    ("network_egress: [{host: '*.b.com', methods: [GET]}]", {"host_wildcard"}),
    ("network_egress: [{host: a.b.com, methods: [GET], address: 10.0.0.1}]", {"upstream_resolves"}),
    ("network_egress: [{host: a.b.com, methods: [GET], address: 10.0.0.1}], models: []", set()),
    ("network_egress: [{host: a.b.com, methods: [POST], address: 10.0.0.1}]", set()),
    (
        "provider_tools: [mcp], network_egress: [{host: a.b.com, methods: [POST], address: 10.0.0.1}]",
        {"provider_tool", "upstream_resolves"},
    ),
    (
        "provider_tools: [{deny: mcp}], network_egress: [{host: a.b.com, methods: [POST], address: 10.0.0.1}]",
        {"denial_without_allow"},
    ),
    (
        "network_egress: [{host: a.b.com, methods: [GET], address: 10.0.0.1, limits: {requests: 3}}]",
        set(),
    ),
    (
        "limits: {bytes_out: 1MiB}, network_egress: [{host: a.b.com, methods: [GET], address: 10.0.0.1}]",
        set(),
    ),
    ("network_egress: [{host: a.b.com, tls: passthrough}]", {"tls_passthrough"}),
    ("network_egress: [{host: a.b.com, scheme: http, methods: [GET]}]", {"scheme_http"}),
    ("tools: [x, {name: x, rate: 1/s}]", {"limit_without_effect"}),
    ("tools: [{name: x, rate: 2/s}, {name: x, rate: 1/s, args: {a: any}}]", set()),
    ("tools: [{name: x, rate: 1/s}, {name: x, args: {a: any}}]", set()),
    ("filesystem_access: 'read-write:/workspace'", {"rw_hooks"}),
    ("filesystem_access: 'read:/workspace'", set()),
    ("filesystem_access: 'read-write:/usr/local/data'", {"rw_hooks", "rw_system_path"}),
    (f"requires_human_approval: {BOTH}", {"approvers_alike"}),
    ("tools: [{deny: a}]", {"denial_without_allow"}),
    ("tools: [a, {deny: a}]", set()),
    ("provider_tools: [web_search]", {"provider_tool"}),
    ("may_start: [{deny: other}]", {"denial_without_allow"}),
    ("ports: [8080]", set()),
    ("ports: [1023]", {"port_system"}),
    ("ports: [1000-1024, {deny: 1-1023}]", set()),
    ("ports: [1000-1024, {deny: 1-1022}]", {"port_system"}),
    ("ports: [8000-8099]", set()),
    ("ports: [8000-8100]", {"port_range_wide"}),
    ("ports: [8000-8099, 8100]", {"port_range_wide"}),
    ("ports: [{deny: 22}]", {"denial_without_allow"}),
    ("ports: [8000-8010, {deny: 8005-9000}]", set()),
    ("provider_tools: [a, {deny: a}]", set()),
    ("provider_tools: [a], filesystem_access: 'read:/w'", {"provider_tool", "outsiders_can_steer"}),
    ("tools: [{name: a, server: k8s}]", {"tool_unpinned"}),
    (f"tools: [{{name: a, server: k8s, schema: 'sha256:{'0' * 64}'}}]", set()),
    ("tools: [{name: a, args: {b: {pattern: '[a-z]{1,3}'}}}]", {"argument_pattern"}),
    ("tools: [{name: a, args: {b: {each: {pattern: '[a-z]{1,3}'}}}}]", {"argument_pattern"}),
    ("tools: [{name: a, args: {b: {max_len: 3}}}]", set()),
    ("requires_human_approval: true", {"approval_no_approver"}),
    ("tools: [{name: a, approval: true}]", {"approval_no_approver"}),
    ("requires_human_approval: {egress: [POST]}", {"approval_no_approver"}),
    (f"requires_human_approval: {{egress: [POST], approvers: [{KEY}]}}", set()),
    (f"requires_human_approval: {{approvers: [{KEY}]}}", {"approvers_unused"}),
    (f"requires_human_approval: {{tools: [a], approvers: [{KEY}]}}, tools: [a]", set()),
    (
        f"tools: [{{name: a, server: web, approval: true}}], requires_human_approval: {ASKED}",
        {"approval_unshowable", "tool_unpinned"},
    ),
    (
        f"tools: [{{name: a, args: {{n: {{max: 2}}}}}}], requires_human_approval: {{tools: [a], approvers: [{KEY}]}}",
        set(),
    ),
    (
        f"tools: [{{name: a, args: {{p: {{each: {{under: /w}}}}}}}}], requires_human_approval: {ASKED}",
        set(),
    ),
    (
        f"tools: [{{name: a, args: {{p: {{under: /w, write: true}}}}}}], requires_human_approval: {ASKED}",
        {"approval_unshowable"},
    ),
    (
        f"network_egress: [{{host: a.b.com, tls: passthrough}}], requires_human_approval: {ASKED}",
        {"approval_unshowable", "tls_passthrough"},
    ),
    ("network_egress: [{host: '**.windows.net', methods: [GET]}]", {"host_shared", "host_wildcard"}),
    ("network_egress: [{host: api.github.com, methods: [POST], paths: [/gists]}]", {"host_shared"}),
    ("network_egress: [{host: api.github.com, methods: [POST], paths: [/repos/**]}]", set()),
    (
        "tools: [git_push], secrets_access: [{name: A, hosts: [a.b.com]}]",
        {"approval_missing", "secret_unreachable_host"},
    ),
    ("tools: [sendMail, write_file], network_egress: [{host: a.b.com, paths: [/a]}]", {"approval_missing"}),
    ("tools: [sendMail, {deny: sendMail}], network_egress: [{host: a.b.com, paths: [/a]}]", set()),
    (
        "tools: [{name: send, approval: true}], network_egress: [{host: a.b.com, paths: [/a]}]",
        {"approval_no_approver"},
    ),
    (
        "tools: [run_tests, kubectl_get, settings, running], network_egress: [{host: a.b.com, paths: [/a]}]",
        set(),
    ),
    ("tools: [write_file]", set()),
    (
        "filesystem_access: 'read:/w', network_egress: [{host: api.github.com, methods: [GET]}]",
        {"outsiders_can_steer"},
    ),
    ("network_egress: [{host: api.github.com, methods: [GET]}]", set()),
    (
        "network_egress: [{host: '*.b.com', methods: [GET]}, {host: c.d.com, paths: [/a]}], secrets_access: [A]",
        {"host_wildcard", "outsiders_can_steer"},
    ),
    (
        "filesystem_access: 'read:/w', network_egress: ['allowed:x.com'], requires_human_approval: true",
        {"approval_no_approver", "host_unrestricted"},
    ),
    ("filesystem_access: 'read:/w', network_egress: [{host: a.b.com, paths: [/a]}]", set()),
    ("", set()),
]

AMONG = [
    (
        "a: {secrets_access: [{name: K, hosts: [x.b.com]}]}, b: {secrets_access: [{name: K, hosts: [y.b.com]}]}",
        {"secret_shared"},
    ),
    (
        "a: {secrets_access: [{name: K, hosts: [x.c]}]}, b: {tools: [t], secrets_access: [{name: K, hosts: [x.c]}]}",
        set(),
    ),
    (
        "a: {secrets_access: [{name: K, ref: 'local:A'}]}, b: {secrets_access: [{name: K, hosts: [y.c]}]}",
        set(),
    ),
    ("a: {tools: [t, u]}, b: {tools: [u, t, t]}", {"profile_twin"}),
    ("a: {tools: [t]}, b: {tools: [u]}", set()),
]
STARTED = [
    ("a: {may_start: [b]}, b: {models: []}", {"start_unlimited"}),
    ("a: {may_start: [{agent: b, at_most: 1}]}, b: {models: []}", set()),
    ("a: {may_start: [{agent: b, at_most: 1}]}, b: {tools: [x]}", {"start_wider"}),
    (
        "a: {may_start: [{agent: b, at_most: 1}]}, b: {may_start: [{agent: c, at_most: 1}]}, c: {models: []}",
        {"start_wider"},
    ),
]


@pytest.mark.parametrize(("sections", "codes"), CASES)
def test_a_warning_is_given_where_it_is_due(profile_of: Make, sections: str, codes: set[str]) -> None:
    found = lint_profile(profile_of(sections))
    assert {warning.code for warning in found} == codes
    assert all(warning.where.startswith("profiles.yaml:1:") for warning in found)


@pytest.mark.parametrize(("agents", "codes"), AMONG)
def test_what_is_seen_only_beside_other_profiles_is_warned_of_in_each(agents: str, codes: set[str]) -> None:
    found = lint_profiles(load_profiles(f"agent_configs: {{{agents}}}".encode()))
    own = {"secret_shared", "profile_twin"}
    assert {warning.code for warning in found} & own == codes
    for code in codes:
        assert [warning.agent for warning in found if warning.code == code] == ["a", "b"]


@pytest.mark.parametrize(("agents", "codes"), STARTED)
def test_what_an_agent_may_start_is_warned_of_at_that_agent(agents: str, codes: set[str]) -> None:
    found = lint_profiles(load_profiles(f"agent_configs: {{{agents}}}".encode()))
    assert {warning.code for warning in found if warning.agent == "a"} == codes
    assert not {warning.code for warning in found if warning.agent != "a"} & codes


def test_every_warning_is_tested_and_documented() -> None:
    page = (Path(__file__).parents[3] / "policy" / "FORMAT.md").read_text()
    assert set().union(*(codes for _, codes in (*CASES, *AMONG, *STARTED))) == set(WARNINGS)
    rows = [f"| `{code}` | {WARNINGS[code]} | {ADVICE[code]} |" for code in WARNINGS]
    assert "\n".join(rows) in page


def test_a_hook_is_named_where_it_is_the_path_itself(profile_of: Make) -> None:
    (found,) = lint_profile(profile_of("filesystem_access: 'read-write:/w/.git/hooks/x'"))
    assert (found.code, found.subject) == ("rw_hooks", "/w/.git/hooks/x")


def test_carve_outs_silence_the_hooks_they_cover(profile_of: Make) -> None:
    hooks = [".git", ".github", ".gitlab-ci.yml", ".envrc", ".vscode", ".husky"]
    hooks += [".circleci", "Jenkinsfile", ".pre-commit-config.yaml", ".devcontainer"]
    masked = ", ".join(f"{{path: /w/{hook}, mode: none}}" for hook in hooks)
    assert lint_profile(profile_of(f"filesystem_access: ['read-write:/w', {masked}]")) == ()
