"""Random policies out of few names, so that their rules meet, and random requests that meet them."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from affiant.attestation.signatures.approvers.identities import ApproverIdentity
from affiant.policy.canonical.errors import PolicyConflict
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
)
from affiant.policy.model.limits import NO_EGRESS_LIMITS, NO_LIMITS, Bound, EgressLimits, Limits
from affiant.policy.model.profile import (
    Approval,
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    Resources,
    Scheme,
    SecretGrant,
    StartDenial,
    StartGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
    trusted_root_text,
)
from affiant.policy.model.share import NO_SHARE, Priority, Share
from affiant.policy.model.sigv4 import SigV4
from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange

__all__ = [
    "NAMES",
    "calls",
    "connections",
    "egress",
    "models",
    "paths",
    "policies",
    "ports",
    "provider_tools",
    "secrets",
    "starts",
    "tool_rules",
    "tools",
]

NAMES = ["a", "b", "x", "y"]
HOSTS = ["b.c", "a.b.c", "x.b.c", "a.x.b.c", "x.x.b.c", "z.c", "y.z.c", "q.y.b.c"]
PATTERNS = [*HOSTS, "*.b.c", "**.b.c", "*.x.b.c", "**.a.b.c", "**.z.c"]
TARGETS = ["/", "/a", "/a/", "/a/x", "/a/x/", "/a/b", "/a/b/x", "/b", "/x", "/x/x", "/é", "/ab"]
TARGET_PATTERNS = ["/", "/**", "/a", "/a/", "/a/**", "/a/b", "/a/b/**", "/x/**", "/%C3%A9", "/%C3%A9/**"]
PATHS = ["/w", "/w/a", "/w/a/b", "/w/x", "/w2", "/v", "/w/a/b/c", "/other"]
METHODS = ["GET", "POST", "DELETE", "PROPFIND"]
PORTS = [443, 80, 8443]
SERVER_PORTS = [1, 2, 79, 8000, 8001, 8003, 65533, 65535]
APPROVERS = ["A" * 43, "b" * 42 + "A", "c" * 42 + "8"]
IDENTITIES = [
    ApproverIdentity("https://a.example", "ann@example.org"),
    ApproverIdentity("https://b.example", "ann@example.org"),
    ApproverIdentity("https://a.example", "https://a.example/bob"),
]
TRUSTED_ROOTS = [
    trusted_root_text(f'{{"mediaType": "application/vnd.dev.sigstore.trustedroot+json", "tlogs": [{n}]}}')
    for n in (1, 2)
]
SURFACES = [
    *("body:json:/a/b", "body:form:key", "header:authorization", "header:x-key"),
    *("sigv4:eu-central-1/s3", "sigv4:eu-west-1/s3"),
]

_some_methods = st.none() | st.lists(st.sampled_from(METHODS), min_size=1, max_size=3).map(tuple)
_some_targets = st.none() | st.lists(st.sampled_from(TARGET_PATTERNS), min_size=1, max_size=3).map(tuple)


_bounds = st.lists(st.builds(Bound, st.integers(1, 3), st.sampled_from([None, 60])), max_size=2).map(tuple)
_sizes_out = _bounds.map(lambda bounds: tuple(Bound(most << 10, per) for most, per in bounds))
_rates = st.integers(1, 3).map(lambda most: (Bound(most, 60),))
_limits = st.builds(Limits, _bounds, _bounds, _bounds, _sizes_out, st.none() | st.integers(1, 3))


@st.composite
def _allows(draw: st.DrawFn) -> EgressRule:
    if draw(st.integers(0, 4)) == 0:
        return EgressRule(draw(st.sampled_from(PATTERNS)), tls=TLSMode.PASSTHROUGH)
    return EgressRule(
        draw(st.sampled_from(PATTERNS)),
        draw(st.sampled_from(PORTS)),
        draw(st.sampled_from(list(Scheme))),
        draw(_some_methods),
        draw(_some_targets),
        limits=draw(st.just(NO_EGRESS_LIMITS) | st.builds(EgressLimits, _bounds, _sizes_out)),
    )


_denials = st.builds(
    EgressDenial, st.sampled_from(PATTERNS), st.none() | st.sampled_from(PORTS), _some_methods, _some_targets
)
_grants = st.builds(PathGrant, st.sampled_from(PATHS), st.sampled_from(list(PathMode)))
SERVERS = ["k8s", "docs"]
PINS = ["sha256:" + digit * 64 for digit in "ab"]
_tools = (
    st.builds(ToolRule, st.sampled_from(NAMES), st.booleans(), rate=st.just(()) | _rates)
    | st.builds(
        ToolRule,
        st.sampled_from(NAMES[:2]),
        st.booleans(),
        st.none(),
        st.none() | st.sampled_from(SERVERS),
        st.none() | st.sampled_from(PINS),
    )
    | st.builds(ToolDenial, st.sampled_from(NAMES))
)
_provider_tools = st.builds(ProviderTool, st.sampled_from(NAMES)) | st.builds(
    ProviderToolDenial, st.sampled_from(NAMES)
)
_port_ranges = st.tuples(st.sampled_from(SERVER_PORTS), st.integers(0, 3)).map(
    lambda at: (at[0], min(at[0] + at[1], 65535))
)
_ports = st.builds(
    lambda kind, at: kind(*at), st.sampled_from([PortGrant, PortGrant, PortDenial]), _port_ranges
)
_starts = st.builds(StartGrant, st.sampled_from(NAMES), st.sampled_from([None, None, 1, 2])) | st.builds(
    StartDenial, st.sampled_from(NAMES)
)
_models = st.builds(
    ModelRule, st.sampled_from(NAMES), st.booleans(), max_tokens=st.none() | st.integers(1, 3)
)
_endpoints = st.builds(Endpoint, st.sampled_from(HOSTS), st.sampled_from(PORTS))
_INJECTIONS = (
    Injection(),
    Injection(None, json="/a/b"),
    Injection(None, form="key"),
    Injection.of_token(
        TokenExchange(
            GrantType.CLIENT_CREDENTIALS,
            "https://login.issuer.net/token",
            client_id="a",
            client_auth=ClientAuth.BASIC,
        )
    ),
    Injection(None, sigv4=SigV4("s3", "eu-central-1")),
)
_secrets = st.dictionaries(
    st.sampled_from(["KEY", "TOKEN"]), st.lists(_endpoints, max_size=3, unique=True).map(tuple), max_size=2
).map(
    lambda found: tuple(
        SecretGrant(
            name, hosts, inject=_INJECTIONS[(len(hosts) + len(name)) % 5], max_uses=len(hosts) or None
        )
        for name, hosts in found.items()
    )
)
_sizes = st.none() | st.integers(1, 3)


def _with_root(who: dict[str, object]) -> st.SearchStrategy[dict[str, object]]:
    if all(isinstance(each, str) for each in who["approvers"]):
        return st.just(who)
    return st.sampled_from(TRUSTED_ROOTS).map(lambda root: {**who, "trusted_root": root})


_who_approves = st.sampled_from([0, 0, 1, 2]).flatmap(
    lambda count: st.fixed_dictionaries(
        {
            "approvers": st.permutations([*APPROVERS, *IDENTITIES]).map(lambda keys: tuple(keys[:count])),
            "quorum": st.integers(1, max(count, 1)),
            "ttl": st.sampled_from([30, 600]),
        }
    ).flatmap(_with_root)
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """A policy that could have been loaded."""
    egress = tuple(draw(st.lists(_allows() | _denials, max_size=5)))
    asked = st.lists(st.sampled_from(METHODS), max_size=2, unique=True).map(tuple)
    parts = {
        "tools": tuple(draw(st.lists(_tools, max_size=4))),
        "filesystem": tuple(draw(st.lists(_grants, max_size=4))),
        "egress": egress,
        "models": draw(st.none() | st.lists(_models).map(tuple)),
        "approval": Approval(draw(st.booleans()) and draw(st.booleans()), draw(asked), **draw(_who_approves)),
        "resources": Resources(cpus=draw(_sizes)),
        "limits": draw(st.just(NO_LIMITS) | _limits),
        "provider_tools": tuple(draw(st.lists(_provider_tools, max_size=2))),
        "ports": tuple(draw(st.lists(_ports, max_size=3))),
        "may_start": tuple(draw(st.lists(_starts, max_size=2, unique_by=lambda rule: rule.agent))),
        "share": draw(st.just(NO_SHARE) | st.builds(Share, st.integers(1, 3), st.sampled_from(Priority))),
    }
    try:
        return Policy(**parts, secrets=draw(_secrets))
    except PolicyConflict:  # a secret at a host that is only passed through
        return Policy(**parts)


_origins = st.builds(
    Origin,
    st.sampled_from([*SERVERS, "other-server", "elsewhere", None]),
    st.sampled_from([*PINS, "sha256:" + "0" * 64, "sha256:" + "c" * 64, None]),
)
tools = st.builds(ToolQuestion, st.sampled_from([*NAMES, "other", "other_tool"]), st.none(), _origins)
provider_tools = st.builds(ProviderToolQuestion, st.sampled_from([*NAMES, "other", "other_tool"]))
ports = st.builds(
    PortQuestion, st.sampled_from([*SERVER_PORTS, 3, 8002, 8004, 8080, 65534]) | st.integers(1, 65535)
)
starts = st.builds(StartQuestion, st.sampled_from([*NAMES, "other", "other_agent"]))
models = st.builds(ModelQuestion, st.sampled_from([*NAMES, "other", "other-model"]))
paths = st.builds(
    PathQuestion,
    st.sampled_from([*PATHS, "/w/a/q", "/w/a/b/c/d", "/q", "/w22", "/other/x", "/"]),
    st.sampled_from([PathMode.READ, PathMode.READ_WRITE]),
)
_question_hosts = st.sampled_from(
    [*HOSTS, "n.b.c", "n.n.b.c", "n.x.b.c", "n.a.b.c", "n.n.a.b.c", "n.z.c", "c.d", "z.y.z.c"]
)
_question_targets = st.sampled_from(
    ["%C3%A9".join(target.split("é")) for target in TARGETS]
    + ["/n", "/a/n", "/a/n/", "/a/b/n/n", "/n/?q=1", "/a?x", "/%C3%A9/n"]
)
egress = st.builds(
    EgressQuestion,
    _question_hosts,
    st.sampled_from([*PORTS, 1]),
    st.sampled_from(list(Scheme)),
    st.sampled_from([*METHODS, "PUT", "SEARCH"]),
    _question_targets,
)
connections = st.builds(
    EgressQuestion, _question_hosts, st.sampled_from([*PORTS, 1]), st.sampled_from(list(Scheme))
)
secrets = st.tuples(
    st.builds(
        SecretQuestion,
        st.sampled_from(["KEY", "TOKEN", "OTHER"]),
        st.sampled_from(HOSTS),
        st.sampled_from(PORTS),
    ),
    st.sampled_from(SURFACES),
)

_values = st.sampled_from(["a", "b", "/w", "/w/a", "'1'", "1", "2", "5", "true"])
_constraints = st.one_of(
    st.lists(_values, min_size=1, max_size=3).map(lambda values: f"{{one_of: [{', '.join(values)}]}}"),
    st.tuples(st.integers(0, 3), st.integers(3, 6)).map(
        lambda bounds: f"{{min: {bounds[0]}, max: {bounds[1]}}}"
    ),
    st.sampled_from([1, 4, 7]).map(lambda most: f"{{max_len: {most}}}"),
    st.sampled_from(["[ab]", "a?b?", "[a-c]{1,2}", "(a|ab)(b|x)?", "x+", "[0-9]+"]).flatmap(
        lambda pattern: st.sampled_from([1, 2, 3]).map(
            lambda most: f"{{pattern: '{pattern}', max_len: {most}}}"
        )
    ),
    st.sampled_from(["/w", "/w/a", "/w/s", "/v"]).map(lambda path: f"{{under: {path}}}"),
    st.sampled_from(["{argv: [[a], [a, b]]}", "{argv: [[b]]}", "any", "{host: '*.b.com'}"]),
    st.tuples(
        st.sampled_from(
            ["{one_of: [a]}", "{one_of: [b, 1]}", "{max_len: 1}", "{under: /w}", "{pattern: '[ab]?'}"]
        ),
        st.integers(1, 2),
    ).map(lambda each: f"{{each: {each[0]}, max_items: {each[1]}}}"),
)


@st.composite
def tool_rules(draw: st.DrawFn) -> str:
    """``tools`` with one or two rules for ``x``, whose arguments are ``p`` and ``q``."""
    rules = []
    for _ in range(draw(st.integers(1, 2))):
        names = draw(st.lists(st.sampled_from(["p", "q"]), unique=True, max_size=2))
        args = ", ".join(f"{name}: {draw(_constraints)}" for name in names)
        approval = draw(st.booleans())
        rules.append(f"{{name: x, approval: {str(approval).lower()}, args: {{{args}}}}}")
    return f"tools: [{', '.join(rules)}]"


_json = st.sampled_from(
    [
        *(
            "a",
            "b",
            "x",
            "1",
            "",
            "ab",
            "abx",
            "12",
            "\u00e9",
            "/w",
            "/w/a",
            "/w/a/z",
            "/w/zzzzzz",
            "/w/s/t",
            "/v/q",
            "a.b.com",
            "xxxx",
            "xxxxxxxx",
        )
    ]
    + [0, 1, 2, 3, 5, 6, 7, -1, True, False, None, 0.5]  # type: ignore[list-item]
    + [[], ["a"], ["a", "b"], ["b"], ["b", "a"], ["b", 1], ["/w/a", "a"], ["a", "a", "a"], {}]  # type: ignore[list-item]
)
calls = st.dictionaries(st.sampled_from(["p", "q", "r"]), _json, max_size=2).map(json.dumps)
