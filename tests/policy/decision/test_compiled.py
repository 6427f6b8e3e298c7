"""Decisions: default deny, denials win, order never matters."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.canonical.addresses import is_forbidden_address
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import REASONS, Effect
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    PathGrant,
    PathMode,
    Policy,
    Scheme,
    TLSMode,
    ToolDenial,
    ToolRule,
)

Make = Callable[..., Profile]


def reason(
    policy: CompiledPolicy, host: str, method: str | None = None, target: str | None = None, **more: object
) -> str:
    request = {"port": 443, "scheme": "https", **more}
    return policy.decide_egress(host=host, method=method, target=target, **request).reason  # type: ignore[arg-type]


# Tools and models


@pytest.mark.parametrize(
    "name",
    [
        "Read_file",
        "read_file ",
        " read_file",
        "read_fil\u0435",
        "read-file",
        "",
        "fs_read_file",
        "read_file\0",
        "readfile",
    ],
)
def test_a_tool_is_its_exact_name(profile_of: Make, name: str) -> None:
    assert profile_of("tools: [read_file]").compiled.decide_tool(name).reason == "tool_not_listed"


def test_a_denied_tool_is_denied_whatever_allows_it(profile_of: Make) -> None:
    policy = profile_of("tools: [{deny: x}, x, y]").compiled
    assert policy.decide_tool("x").reason == "tool_denied"
    assert policy.decide_tool("x").rules == ("tools/2",)
    assert policy.decide_tool("y").rules == ("tools/1",)


def test_what_needs_approval_is_denied_while_nobody_can_approve(seed: bytes) -> None:
    policy = load_profiles(seed).profile("deployment_agent").compiled
    decisions = [
        policy.decide_tool("run_terraform"),
        policy.decide_egress(host="api.cloud-provider.com", port=443, scheme="https"),
        policy.decide_egress(
            host="api.cloud-provider.com", port=443, scheme="https", method="GET", target="/"
        ),
        policy.decide_secret("DEPLOY_KEY", host="api.cloud-provider.com", port=443, scheme="https"),
    ]
    assert {(d.effect, d.reason) for d in decisions} == {(Effect.DENY, "approval_no_approver")}
    assert all(decision.rules for decision in decisions)
    assert policy.decide_tool("rm").reason == "tool_not_listed"
    assert policy.decide_path("/workspace/infra/main.tf", "read").allowed
    assert policy.decide_model("any").allowed


def test_approval_for_methods_is_asked_where_the_method_is_seen(profile_of: Make) -> None:
    policy = profile_of(
        "network_egress: ['allowed:a.b.com', {host: p.b.com, tls: passthrough}],"
        "requires_human_approval: {egress: [POST]}"
    ).compiled
    assert reason(policy, "a.b.com") == "allowed"
    assert reason(policy, "a.b.com", "GET", "/") == "allowed"
    assert reason(policy, "a.b.com", "POST", "/") == "approval_no_approver"
    assert reason(policy, "p.b.com") == "approval_no_approver"


def test_models_are_the_one_plane_where_absence_is_not_denial(profile_of: Make) -> None:
    assert profile_of("tools: []").compiled.decide_model("anything").allowed
    assert profile_of("models: []").compiled.decide_model("anything").reason == "model_not_listed"
    policy = profile_of("models: [a, {name: b, upstream: attested}]").compiled
    assert policy.decide_model("a").allowed
    assert policy.decide_model("A").reason == "model_not_listed"
    assert policy.decide_model("b").reason == "model_upstream_unattested"
    assert policy.decide_model("b", attested=True).allowed


# Paths


@pytest.mark.parametrize(
    ("path", "mode", "expected"),
    [
        ("/workspace", "read", "allowed"),
        ("/workspace/src/a.py", "read", "allowed"),
        ("/workspace/src/a.py", "read-write", "path_read_only"),
        ("/workspace/out/x", "read-write", "allowed"),
        ("/workspace2", "read", "path_not_listed"),
        ("/workspaces/x", "read", "path_not_listed"),
        ("/", "read", "path_not_listed"),
        ("/workspace/out/secret", "read", "path_carved_out"),
        ("/workspace/out/secret/deep/er", "read", "path_carved_out"),
        ("/workspace/out/secrets", "read", "allowed"),
        ("/workspace/../etc/passwd", "read", "path_not_canonical"),
        ("/workspace//x", "read", "path_not_canonical"),
        ("/workspace/./x", "read", "path_not_canonical"),
        ("/workspace/x\0", "read", "path_not_canonical"),
        ("workspace", "read", "path_not_canonical"),
        ("/workspace/cafe\u0301", "read", "path_not_canonical"),
        ("/workspace/caf\u00e9", "read", "allowed"),
    ],
)
def test_paths_are_covered_by_segment_and_carve_outs_win(
    profile_of: Make, path: str, mode: str, expected: str
) -> None:
    policy = profile_of(
        "filesystem_access: ['read:/workspace', 'read-write:/workspace/out', {path: /workspace/out/secret, mode: none},"
        " 'read-write:/workspace/out/secret/deep']"
    ).compiled
    assert policy.decide_path(path, mode).reason == expected


def test_an_unknown_mode_is_an_error(profile_of: Make) -> None:
    with pytest.raises(ValueError, match="write"):
        profile_of("filesystem_access: 'read-write:/w'").compiled.decide_path("/w", "write")
    assert not profile_of("filesystem_access: 'read-write:/w'").compiled.decide_path("/w", "none").allowed


def test_mounts_are_the_effective_modes_parents_first(profile_of: Make) -> None:
    policy = profile_of(
        "filesystem_access: ['read-write:/w/out/x', 'read:/w/out/y', 'read-write:/w/out', 'read:/w', 'read:/w-2',"
        " {path: /w/out/none, mode: none}, 'read:/w/out/none/a', {path: /w/out/none/b, mode: none},"
        " {path: /z, mode: none},"
        " 'read:/d', 'read-write:/d']"
    ).compiled
    assert policy.mounts() == (
        PathGrant("/d", PathMode.READ_WRITE),
        PathGrant("/w", PathMode.READ),
        PathGrant("/w/out", PathMode.READ_WRITE),
        PathGrant("/w/out/none", PathMode.NONE),
        PathGrant("/w-2", PathMode.READ),
        PathGrant("/z", PathMode.NONE),
    )


PATHS = ["/a", "/a/b", "/a/b/c", "/a/c", "/b", "/ab"]
GRANTS = st.builds(PathGrant, st.sampled_from(PATHS), st.sampled_from(PathMode))


@thorough(200)
@given(st.lists(GRANTS, max_size=6))
def test_mounts_and_decisions_agree_about_every_path(grants: list[PathGrant]) -> None:
    policy = compile_policy(Policy(filesystem=tuple(grants)))
    for path in [*PATHS, "/a/b/x", "/a/b/c/d"]:
        covering = [
            grant for grant in policy.mounts() if path == grant.path or path.startswith(grant.path + "/")
        ]
        mode = covering[-1].mode if covering else PathMode.NONE
        assert policy.decide_path(path, "read").allowed == (mode is not PathMode.NONE)
        assert policy.decide_path(path, "read-write").allowed == (mode is PathMode.READ_WRITE)


# Egress


@pytest.fixture(scope="module")
def web() -> CompiledPolicy:
    sections = (
        "network_egress: [{host: api.ok.com, methods: [GET, POST], paths: ['/v1/**', /health]},"
        " {host: plain.ok.com, scheme: http},"
        " 'allowed:any.ok.com', {host: '*.one.com'}, {host: '**.many.com'}, {deny: bad.one.com},"
        " {deny: any.ok.com, methods: [DELETE]},"
        " {deny: any.ok.com, paths: ['/admin/**']}, {host: raw.ok.com, tls: passthrough},"
        " {host: half.ok.com, tls: passthrough},"
        " {deny: half.ok.com, methods: [PUT]}, {deny: any.ok.com, port: 8443}, 'allowed:any.ok.com:8443']"
    )
    return load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled


@pytest.mark.parametrize(
    ("host", "method", "target", "more", "expected"),
    [
        ("api.ok.com", None, None, {}, "allowed"),
        ("api.ok.com", "GET", "/v1/x?y=1", {}, "allowed"),
        ("api.ok.com", "GET", "/health", {}, "allowed"),
        ("api.ok.com", "GET", "/health/", {}, "target_not_listed"),
        ("api.ok.com", "GET", "/v1", {}, "target_not_listed"),
        ("api.ok.com", "GET", "/v2/x", {}, "target_not_listed"),
        ("api.ok.com", "PUT", "/v1/x", {}, "method_not_listed"),
        ("api.ok.com", "HEAD", "/v1/x", {}, "method_not_listed"),
        ("api.ok.com", "get", "/v1/x", {}, "method_forbidden"),
        ("any.ok.com", "TRACE", "/", {}, "method_forbidden"),
        ("any.ok.com", "TRACK", "/", {}, "method_forbidden"),
        ("any.ok.com", "CONNECT", "/", {}, "method_forbidden"),
        ("any.ok.com", "PRI", "*", {}, "method_forbidden"),
        ("any.ok.com", "", "/", {}, "method_forbidden"),
        ("any.ok.com", "GET", "/a/../b", {}, "target_not_canonical"),
        ("any.ok.com", "GET", "/%2e%2e/b", {}, "target_not_canonical"),
        ("any.ok.com", "GET", "http://any.ok.com/", {}, "target_not_canonical"),
        ("any.ok.com", "OPTIONS", "*", {}, "target_not_canonical"),
        ("any.ok.com", "GET", "", {}, "target_not_canonical"),
        ("any.ok.com", "GET", None, {}, "target_not_canonical"),
        ("any.ok.com", "GET", "/x", {}, "allowed"),
        ("any.ok.com", "DELETE", "/x", {}, "egress_denied"),
        ("any.ok.com", "GET", "/admin", {}, "egress_denied"),
        ("any.ok.com", "GET", "/%61dmin/x", {}, "target_not_canonical"),
        ("any.ok.com", "GET", "/admin/x", {}, "egress_denied"),
        ("any.ok.com", None, None, {"port": 8443}, "egress_denied"),
        ("any.ok.com", "GET", "/", {"port": 8443}, "egress_denied"),
        ("any.ok.com", None, None, {"port": 22}, "port_not_listed"),
        ("any.ok.com", None, None, {"port": 80}, "port_not_listed"),
        ("any.ok.com", "GET", "/", {"scheme": "http"}, "scheme_not_listed"),
        ("plain.ok.com", "GET", "/", {"scheme": "http", "port": 80}, "allowed"),
        ("plain.ok.com", "GET", "/", {}, "port_not_listed"),
        ("plain.ok.com", None, None, {"port": 80}, "scheme_not_listed"),
        ("any.ok.com", None, None, {"scheme": "ftp"}, "scheme_not_listed"),
        ("ok.com", None, None, {}, "host_not_listed"),
        ("evilany.ok.com", None, None, {}, "host_not_listed"),
        ("any.ok.com.evil.net", None, None, {}, "host_not_listed"),
        ("a.one.com", None, None, {}, "allowed"),
        ("bad.one.com", None, None, {}, "egress_denied"),
        ("a.b.one.com", None, None, {}, "host_not_listed"),
        ("one.com", None, None, {}, "host_not_listed"),
        ("notone.com", None, None, {}, "host_not_listed"),
        ("a.b.many.com", None, None, {}, "allowed"),
        ("many.com", None, None, {}, "host_not_listed"),
        ("raw.ok.com", None, None, {}, "allowed"),
        ("half.ok.com", None, None, {}, "egress_denied"),
        ("evil\0.one.com", None, None, {}, "host_not_canonical"),
        ("evil@x.one.com", None, None, {}, "host_not_canonical"),
        ("A.one.com", None, None, {}, "host_not_canonical"),
        (".one.com", None, None, {}, "host_not_canonical"),
        ("a.one.com.", None, None, {}, "host_not_canonical"),
        ("a_b.one.com", None, None, {}, "host_not_canonical"),
        ("Any.ok.com", None, None, {}, "host_not_canonical"),
        ("127.0.0.1", None, None, {}, "host_not_canonical"),
        ("", None, None, {}, "host_not_canonical"),
    ],
)
def test_a_request_is_judged_in_every_dimension(
    web: CompiledPolicy,
    host: str,
    method: str | None,
    target: str | None,
    more: dict[str, object],
    expected: str,
) -> None:
    assert reason(web, host, method, target, **more) == expected


def test_a_miss_names_the_nearest_allow(web: CompiledPolicy) -> None:
    decision = web.decide_egress(host="api.ok.com", port=443, scheme="https", method="PUT", target="/v1/x")
    assert decision.rules == ()
    assert decision.nearest is not None
    index = int(decision.nearest.removeprefix("egress/"))
    rule = web.policy.egress[index]
    assert isinstance(rule, EgressRule)
    assert rule.host == "api.ok.com"


def test_tls_is_inspected_if_any_rule_says_so(profile_of: Make, web: CompiledPolicy) -> None:
    assert web.tls_mode("raw.ok.com", 443) is TLSMode.PASSTHROUGH
    assert web.tls_mode("api.ok.com", 443) is TLSMode.INSPECT
    assert web.tls_mode("unknown.com", 443) is TLSMode.INSPECT
    both = profile_of(
        "network_egress: [{host: a.b.com, tls: passthrough}, {host: '*.b.com', methods: [GET]}]"
    ).compiled
    assert both.tls_mode("a.b.com", 443) is TLSMode.INSPECT


def test_a_host_is_dialled_at_its_own_addresses_only(profile_of: Make) -> None:
    policy = profile_of("network_egress: [{host: db, address: 10.0.0.0/24}, 'allowed:a.b.com']").compiled
    allowed = policy.addresses_for("db")
    assert allowed is not None
    assert not is_forbidden_address("10.0.0.7", allowed)
    assert is_forbidden_address("10.0.1.7", allowed)
    assert policy.addresses_for("a.b.com") is None
    assert is_forbidden_address("10.0.0.7", policy.addresses_for("a.b.com") or ())


# Secrets


def test_a_secret_is_used_where_it_is_bound_and_nowhere_else(profile_of: Make) -> None:
    policy = profile_of(
        "network_egress: ['allowed:a.b.com', {host: p.b.com, scheme: http}, {host: t.b.com, tls: passthrough},"
        " {host: '*.w.com'}],"
        "secrets_access: [A, {name: B, hosts: [x.w.com, gone.com], inject: {header: X-Key}}]"
    ).compiled

    def used(
        name: str, host: str, port: int = 443, scheme: str = "https", surface: str = "header:authorization"
    ) -> str:
        return policy.decide_secret(name, host=host, port=port, scheme=scheme, surface=surface).reason

    assert used("A", "a.b.com") == "allowed"
    assert used("A", "a.b.com", 8443) == "secret_not_bound"
    assert used("A", "a.b.com", scheme="http") == "secret_plain_http"
    assert used("A", "p.b.com", 80, "http") == "secret_plain_http"
    assert used("A", "t.b.com") == "secret_not_bound"
    assert used("A", "x.w.com") == "secret_not_bound"
    assert used("A", "a.b.com", surface="header:x-key") == "secret_surface"
    assert used("A", "a.b.com", surface="query:token") == "secret_surface"
    assert used("A", "a.b.com", surface="Header:Authorization") == "secret_surface"
    assert used("a", "a.b.com") == "secret_not_listed"
    assert used("B", "x.w.com", surface="header:x-key") == "allowed"
    assert used("B", "x.w.com") == "secret_surface"
    assert used("B", "gone.com", surface="header:x-key") == "secret_not_bound"


def test_a_secret_without_a_sink_loads_and_cannot_be_used(seed: bytes) -> None:
    policy = load_profiles(seed).profile("code_implementer").compiled
    assert (
        policy.decide_secret("GITHUB_TOKEN", host="github.com", port=443, scheme="https").reason
        == "secret_no_sink"
    )
    (grant,) = policy.secret_grants()
    assert (grant.name, grant.hosts, grant.surface) == ("GITHUB_TOKEN", (), "header:authorization")


# Laws

HOSTS = ["a.x.com", "b.x.com", "c.d.x.com", "x.com", "y.com"]
PATTERNS = [*HOSTS, "*.x.com", "**.x.com"]
METHODS = st.none() | st.lists(st.sampled_from(["GET", "POST"]), min_size=1).map(tuple)
TARGETS = st.none() | st.lists(st.sampled_from(["/a", "/a/**", "/b/**"]), min_size=1).map(tuple)
PORTS = [80, 443]


@st.composite
def egress_rules(draw: st.DrawFn) -> EgressRule:
    scheme = draw(st.sampled_from(Scheme))
    if scheme is Scheme.HTTPS and draw(st.booleans()):
        return EgressRule(
            draw(st.sampled_from(PATTERNS)), draw(st.sampled_from(PORTS)), tls=TLSMode.PASSTHROUGH
        )
    return EgressRule(
        draw(st.sampled_from(PATTERNS)), draw(st.sampled_from(PORTS)), scheme, draw(METHODS), draw(TARGETS)
    )


DENIALS = st.builds(
    EgressDenial, st.sampled_from(PATTERNS), st.none() | st.sampled_from(PORTS), METHODS, TARGETS
)
TOOLS = st.builds(ToolRule, st.sampled_from("ab"), st.booleans())
POLICIES = st.builds(
    Policy,
    tools=st.lists(TOOLS | st.builds(ToolDenial, st.sampled_from("ab")), max_size=3).map(tuple),
    filesystem=st.lists(GRANTS, max_size=4).map(tuple),
    egress=st.lists(egress_rules() | DENIALS, max_size=5).map(tuple),
)
REQUESTS = [
    {"host": host, "port": port, "scheme": scheme, "method": method, "target": target}
    for host, port, scheme in itertools.product(HOSTS, PORTS, ("http", "https"))
    for method, target in ((None, None), ("GET", "/a"), ("POST", "/a/b"), ("PUT", "/b/c"), ("GET", "/c"))
]


def allowed(policy: Policy) -> set[object]:
    """Everything that a policy allows, out of a small world."""
    compiled = compile_policy(policy)
    found: set[object] = {name for name in "abc" if compiled.decide_tool(name).allowed}
    found |= {(p, m) for p in PATHS for m in ("read", "read-write") if compiled.decide_path(p, m).allowed}
    for request in REQUESTS:
        if compiled.decide_egress(**request).allowed:  # type: ignore[arg-type]
            found.add(tuple(request.values()))
    return found


@thorough(60)
@given(POLICIES, DENIALS, st.sampled_from("ab"), st.sampled_from(PATHS))
def test_adding_a_denial_only_shrinks(policy: Policy, denial: EgressDenial, tool: str, path: str) -> None:
    before = allowed(policy)
    more = Policy(
        tools=(*policy.tools, ToolDenial(tool)),
        filesystem=(*policy.filesystem, PathGrant(path, PathMode.NONE)),
        egress=(*policy.egress, denial),
    )
    assert allowed(more) <= before


@thorough(60)
@given(
    POLICIES,
    egress_rules(),
    st.sampled_from("ab"),
    GRANTS.filter(lambda grant: grant.mode is not PathMode.NONE),
)
def test_adding_an_allow_only_grows(policy: Policy, rule: EgressRule, tool: str, grant: PathGrant) -> None:
    before = allowed(policy)
    more = Policy(
        tools=(*policy.tools, ToolRule(tool)),
        filesystem=(*policy.filesystem, grant),
        egress=(*policy.egress, rule),
    )
    assert before <= allowed(more)


@thorough(60)
@given(POLICIES, egress_rules(), METHODS, TARGETS)
def test_adding_a_constraint_only_shrinks(
    policy: Policy, rule: EgressRule, methods: tuple[str, ...] | None, paths: tuple[str, ...] | None
) -> None:
    if rule.tls is TLSMode.PASSTHROUGH or rule.methods is not None or rule.paths is not None:
        rule = EgressRule(rule.host, rule.port, rule.scheme)
    narrow = EgressRule(rule.host, rule.port, rule.scheme, methods, paths)
    before = Policy(policy.tools, policy.filesystem, (*policy.egress, rule))
    assert allowed(Policy(policy.tools, policy.filesystem, (*policy.egress, narrow))) <= allowed(before)


@thorough(60)
@given(POLICIES, st.randoms(use_true_random=False))
def test_order_and_duplicates_never_matter(policy: Policy, source: object) -> None:
    def mixed(rules: tuple[object, ...]) -> tuple[object, ...]:
        doubled = [*rules, *rules]
        source.shuffle(doubled)  # type: ignore[attr-defined]
        return tuple(doubled)

    other = Policy(mixed(policy.tools), mixed(policy.filesystem), mixed(policy.egress))  # type: ignore[arg-type]
    assert compile_policy(other).normal_form == compile_policy(policy).normal_form
    assert allowed(other) == allowed(policy)


@thorough(40)
@given(POLICIES)
def test_approval_of_everything_leaves_no_tool_and_no_request(policy: Policy) -> None:
    from affiant.policy.model.profile import Approval

    asking = Policy(policy.tools, policy.filesystem, policy.egress, approval=Approval(everything=True))
    assert all(isinstance(found, tuple) and len(found) == 2 for found in allowed(asking))


@thorough(60)
@given(POLICIES)
def test_a_request_never_passes_where_its_connection_does_not(policy: Policy) -> None:
    compiled = compile_policy(policy)
    for request in REQUESTS:
        if compiled.decide_egress(**request).allowed and request["scheme"] == "https":  # type: ignore[arg-type]
            first = {**request, "method": None, "target": None}
            decision = compiled.decide_egress(**first)  # type: ignore[arg-type]
            blind = compiled.tls_mode(request["host"], request["port"]) is TLSMode.PASSTHROUGH  # type: ignore[arg-type]
            assert decision.allowed or blind


def test_every_reason_is_documented_and_every_decision_says_one_of_them(web: CompiledPolicy) -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "policy" / "FORMAT.md").read_text()
    assert [reason for reason in REASONS if f"`{reason}`" not in page] == []
    assert web.decide_tool("x").text == REASONS["tool_not_listed"]
