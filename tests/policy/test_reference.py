"""The compiled planes against a reading of the specification that is too slow to enforce and shares no code with them.

Requests are asked in their one spelling and in others that servers, kernels and resolvers read alike: nothing may be
allowed because of how it is written.
"""

from __future__ import annotations

import json
import posixpath
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.policies import (
    calls,
    connections,
    egress,
    models,
    paths,
    policies,
    ports,
    provider_tools,
    secrets,
    starts,
    tool_rules,
    tools,
)
from tests.properties import thorough

from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
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
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.arguments import (
    AnyValue,
    Argument,
    Argv,
    Constraint,
    Each,
    Host,
    Number,
    OneOf,
    Pattern,
    Text,
    Under,
)
from affiant.policy.model.profile import (
    Approval,
    EgressDenial,
    EgressRule,
    Endpoint,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    SecretGrant,
    StartDenial,
    StartGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)

DENY, ASK, ALLOW = Effect.DENY, Effect.ASK, Effect.ALLOW
METHODS = "GET HEAD POST PUT PATCH DELETE OPTIONS PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH QUERY"


# What the specification says, slowly


def effect(allowing: list[bool], *, denied: bool, ask: bool) -> Effect:
    """Args: allowing: of each allow that matches, whether it needs approval."""
    if denied or not allowing:
        return DENY
    return ASK if ask or any(allowing) else ALLOW


def tool(policy: Policy, name: str, origin: Origin = Origin()) -> Effect:
    denied = any(isinstance(rule, ToolDenial) and rule.name == name for rule in policy.tools)
    allowing = [
        rule.approval
        for rule in policy.tools
        if isinstance(rule, ToolRule)
        and rule.name == name
        and (rule.server is None or origin.server in (rule.server, ANY))
        and (rule.schema is None or origin.schema in (rule.schema, ANY))
    ]
    return effect(allowing, denied=denied, ask=policy.approval.everything)


def provider_tool(policy: Policy, name: str) -> Effect:
    denied = any(rule == ProviderToolDenial(name) for rule in policy.provider_tools)
    allowing = [False for rule in policy.provider_tools if rule == ProviderTool(name)]
    return effect(allowing, denied=denied or policy.approval.everything, ask=False)


def port(policy: Policy, number: int) -> Effect:
    listed = [rule for rule in policy.ports if number in range(rule.first, rule.last + 1)]
    denied = any(isinstance(rule, PortDenial) for rule in listed)
    return effect([False for rule in listed if isinstance(rule, PortGrant)], denied=denied, ask=False)


def start(policy: Policy, agent: str) -> Effect:
    listed = [rule for rule in policy.may_start if rule.agent == agent]
    denied = any(isinstance(rule, StartDenial) for rule in listed)
    allowing = [False for rule in listed if isinstance(rule, StartGrant)]
    return effect(allowing, denied=denied, ask=policy.approval.everything)


def is_path(text: str) -> bool:
    return (
        text.startswith("/")
        and not text.startswith("//")
        and posixpath.normpath(text) == text
        and unicodedata.normalize("NFC", text) == text
        and all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in text)
        and "\\" not in text
    )


def path(policy: Policy, text: str, mode: PathMode) -> Effect:
    if not is_path(text):
        return DENY
    covering = {grant.mode for grant in policy.filesystem if PurePosixPath(text).is_relative_to(grant.path)}
    if PathMode.NONE in covering:
        return DENY
    return ALLOW if mode in covering or PathMode.READ_WRITE in covering else DENY


def is_host(text: str) -> bool:
    labels = text.split(".")
    return (
        len(text) <= 253
        and all(re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", label) for label in labels)
        and not any(label[2:4] == "--" for label in labels)  # none of ours is an A-label
        and not re.fullmatch("[0-9]+|0x[0-9a-f]*", labels[-1])
    )


def covers(pattern: str, host: str) -> bool:
    wildcard, _, rest = pattern.partition(".")
    if "*" not in wildcard:
        return pattern == host
    tail, labels = rest.split("."), host.split(".")
    more = len(labels) - len(tail)
    return labels[-len(tail) :] == tail and (more == 1 if wildcard == "*" else more >= 1)


def target_path(text: str) -> str | None:
    """The decoded path of a target that every server reads alike."""
    raw, _, query = text.partition("?")
    if (
        not raw.startswith("/")
        or len(text) > 8192
        or not text.isascii()
        or re.search(r"[;\\#\s\x00-\x1f\x7f]", raw)
    ):
        return None
    if re.search(r"""[^A-Za-z0-9._~!$&'()*+,;=:@/?\[\]%-]""", query) or re.search(
        "%(?![0-9A-Fa-f]{2})", query
    ):
        return None
    try:
        plain = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    escapes, rest = re.findall("%[0-9A-F]{2}", raw), re.sub("%[0-9A-F]{2}", "", raw)
    needless = any(quote(chr(int(escape[1:], 16))) != escape for escape in escapes if escape < "%80")
    if quote(rest, safe="/~!$&'()*+,=:@-._") != rest or needless:
        return None
    folded = unicodedata.normalize("NFKC", plain)
    if not plain.isprintable() or any(folded.count(char) > plain.count(char) for char in "/\\%;.?#"):
        return None
    if any(char in plain for char in "\\%;?#") or "%2E" in raw or "%2F" in raw:
        return None
    segments = plain[1:].removesuffix("/").split("/")
    return None if plain != "/" and {"", ".", ".."} & set(segments) else plain


def under(pattern: str, plain: str, *, node: bool) -> bool:
    """Args: node: of a denial, which takes the pattern's own node along, with or without a slash at its end."""
    wanted = unquote(pattern)
    if wanted.endswith("/**"):
        below = plain.startswith(wanted[:-2])
        return below or (node and plain.rstrip("/") == wanted[:-3].rstrip("/"))
    return plain.rstrip("/") == wanted.rstrip("/") if node else plain == wanted


def request(policy: Policy, host: str, port: int, scheme: str, method: str, target: str) -> Effect:
    plain = target_path(target)
    if not is_host(host) or plain is None or method not in METHODS.split():
        return DENY

    def meets(rule: EgressRule | EgressDenial, *, node: bool) -> bool:
        return (
            covers(rule.host, host)
            and rule.port in (None, port)
            and (rule.methods is None or method in rule.methods)
            and (rule.paths is None or any(under(each, plain, node=node) for each in rule.paths))
        )

    denied = any(isinstance(rule, EgressDenial) and meets(rule, node=True) for rule in policy.egress)
    allowing = [
        False
        for rule in policy.egress
        if isinstance(rule, EgressRule) and rule.scheme == scheme and meets(rule, node=False)
    ]
    ask = policy.approval.everything or method in policy.approval.methods
    return effect(allowing, denied=denied, ask=ask)


def connection(policy: Policy, host: str, port: int, scheme: str) -> Effect:
    """Before a request is seen; where none ever will be, every denial of the host and port matches."""
    covering = [rule for rule in policy.egress if covers(rule.host, host) and rule.port in (None, port)]
    allows = [rule for rule in covering if isinstance(rule, EgressRule) and rule.scheme == scheme]
    unseen = scheme == "https" and bool(allows) and all(rule.tls is TLSMode.PASSTHROUGH for rule in allows)
    denied = any(
        isinstance(rule, EgressDenial) and (unseen or (rule.methods is None and rule.paths is None))
        for rule in covering
    )
    ask = policy.approval.everything or (unseen and bool(policy.approval.methods))
    return effect([False for _ in allows], denied=denied or not is_host(host), ask=ask)


def model(policy: Policy, name: str, *, attested: bool) -> Effect:
    """Models need no approval."""
    return (
        ALLOW
        if policy.models is None
        else effect(
            [False for rule in policy.models if rule.name == name and (attested or not rule.attested)],
            denied=False,
            ask=False,
        )
    )


def secret(policy: Policy, name: str, host: str, port: int, scheme: str, surface: str) -> Effect:
    """Over inspected https alone, at an endpoint that is named in full, in its own place."""
    inspected = any(
        isinstance(rule, EgressRule)
        and (rule.port, rule.scheme, rule.tls) == (port, "https", TLSMode.INSPECT)
        and covers(rule.host, host)
        for rule in policy.egress
    )
    granted = [
        False
        for grant in policy.secrets
        if grant.name == name and (host, port) in grant.hosts and grant.surface == surface
    ]
    return effect(granted, denied=scheme != "https" or not inspected, ask=policy.approval.everything)


def call(policy: Policy, name: str, values: dict[str, object], origin: Origin = Origin()) -> Effect:
    denied = any(isinstance(rule, ToolDenial) and rule.name == name for rule in policy.tools)
    allowing = [
        rule.approval or asks
        for rule in policy.tools
        if isinstance(rule, ToolRule)
        and rule.name == name
        and (rule.server is None or origin.server in (rule.server, ANY))
        and (rule.schema is None or origin.schema in (rule.schema, ANY))
        for asks in [fits(policy, rule, values)]
        if asks is not None
    ]
    return effect(allowing, denied=denied, ask=policy.approval.everything)


def fits(policy: Policy, rule: ToolRule, values: dict[str, object]) -> bool | None:
    """Whether a host among the arguments needs approval; None: the rule does not allow the call."""
    known = {each.name: each for each in rule.arguments or ()}
    if rule.arguments is None:
        return False
    if values.keys() - known.keys() or any(
        not each.optional for name, each in known.items() if name not in values
    ):
        return None
    effects = [argument(policy, known[name].constraint, value) for name, value in values.items()]
    return None if DENY in effects else ASK in effects


def argument(policy: Policy, constraint: Constraint, value: object) -> Effect:
    match constraint:
        case AnyValue():
            return ALLOW
        case Argv(lists):
            return ALLOW if json.dumps(value) in {json.dumps(list(each)) for each in lists} else DENY
        case Each(item, most):
            if not isinstance(value, list) or len(value) > most:
                return DENY
            found = {argument(policy, item, each) for each in value}
            return DENY if DENY in found else ASK if ASK in found else ALLOW
        case OneOf(values):
            return ALLOW if json.dumps(value) in map(json.dumps, values) else DENY
        case Number(least, most):
            integer = re.fullmatch("-?[0-9]+", json.dumps(value)) is not None
            bounds = (-(2**60) if least is None else least, 2**60 if most is None else most)
            return ALLOW if integer and bounds[0] <= int(json.dumps(value)) <= bounds[1] else DENY
        case Text(most):
            return ALLOW if isinstance(value, str) and len(value) <= most else DENY
        case Pattern(pattern, most):
            fit = isinstance(value, str) and re.fullmatch(pattern, value) is not None
            return ALLOW if fit and (most is None or len(str(value)) <= most) else DENY
        case Under(place, write):
            if not isinstance(value, str) or not is_path(value):
                return DENY
            mode = PathMode.READ_WRITE if write else PathMode.READ
            return path(policy, value, mode) if PurePosixPath(value).is_relative_to(place) else DENY
        case Host(pattern):
            fit = isinstance(value, str) and is_host(value) and covers(pattern, value)
            return connection(policy, str(value), 443, "https") if fit else DENY


# Other spellings

TARGETS = ["/", "/a", "/a/", "/a/x", "/b/x.y", "/b/%C3%A9", "/b?q=1", "/b/c/d?x=%2F"]
SPLICES = [
    *(
        "/",
        "//",
        "/.",
        "/./",
        "/..",
        "/../",
        "..",
        ".",
        "\\",
        "%2f",
        "%2F",
        "%2e",
        "%2E",
        "%5c",
        "%00",
        "%25",
    ),
    *(
        "%252f",
        "%c0%af",
        "%C0%AF",
        "%ef%bc%8f",
        "%EF%BC%8F",
        "%20",
        "%61",
        ";",
        ";x=1",
        "#",
        "?",
        "*",
        "~",
        "$HOME",
    ),
    *(
        "\x00",
        "\x1f",
        "\x7f",
        "\t",
        "\n",
        "\r\n",
        " ",
        "\u00a0",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\u3002",
        "\uff0e",
    ),
    *(
        "\uff0f",
        "\u2215",
        "\u0301",
        "e\u0301",
        "\u212a",
        "\u017f",
        "\u0131",
        "@",
        ":80",
        "@ok.com",
        "_",
        "-",
        "xn--",
    ),
]
CHANGES: list[Callable[[str], str]] = [
    str.upper,
    str.capitalize,
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
]
"""Of the whole; the last in fullwidth letters."""


def respelt(text: str, source: random.Random) -> str:
    """Another spelling of ``text``, or of something near; sometimes itself."""
    for _ in range(source.choice([0, 1, 1, 1, 1, 2])):
        at = source.randrange(len(text) + 1)
        kind = source.randrange(4)
        if kind == 0:
            text = source.choice(CHANGES)(text)
        elif kind == 1 and at < len(text):
            escapes = "".join(f"%{byte:02X}" for byte in text[at].encode("utf-8", "surrogatepass"))
            text = text[:at] + source.choice([escapes, escapes.lower()]) + text[at + 1 :]
        else:
            text = text[:at] + source.choice(SPLICES) + text[at:]
    return text


WIDE = Policy(
    tools=(ToolRule("run_tests"), ToolRule("deploy", approval=True), ToolDenial("rm")),
    filesystem=(
        PathGrant("/w", PathMode.READ_WRITE),
        PathGrant("/w/h\u00e9", PathMode.NONE),
        PathGrant("/r", PathMode.READ),
    ),
    egress=(
        EgressRule("**.b.com"),
        EgressRule("c.com"),
        EgressDenial("x.b.com"),
        EgressDenial("c.com", paths=("/a/**",)),
    ),
)
"""Allows so much that a spelling has to be refused for its own sake."""


def spellings_agree(source: random.Random, count: int) -> Counter[Effect]:
    compiled, found = compile_policy(WIDE, asks=True), Counter[Effect]()
    for _ in range(count):
        name = respelt(source.choice(["run_tests", "deploy", "rm"]), source)
        decision = compiled.decide_tool(name)
        assert decision.effect is tool(WIDE, name), name
        found[decision.effect] += 1
        text = respelt(source.choice(["/w", "/w/h\u00e9", "/w/h\u00e9/a", "/w/a b", "/r/a.b", "/w2"]), source)
        mode = source.choice([PathMode.READ, PathMode.READ_WRITE])
        decision = compiled.decide_path(text, mode)
        assert decision.effect is path(WIDE, text, mode), text
        found[decision.effect] += 1
        host, target, method = (
            source.choice(["a.b.com", "q.a.b.com", "x.b.com", "c.com"]),
            source.choice(TARGETS),
            "GET",
        )
        what = source.randrange(4)
        if what == 0:
            host = respelt(host, source)
        elif what == 1:
            method = respelt(source.choice(["GET", "DELETE", "TRACE", "CONNECT"]), source)
        else:
            target = respelt(target, source)
        decision = compiled.decide_egress(host=host, port=443, scheme="https", method=method, target=target)
        assert decision.effect is request(WIDE, host, 443, "https", method, target), (host, method, target)
        found[decision.effect] += 1
    return found


def test_no_other_spelling_is_decided_otherwise_than_by_the_slow_reading() -> None:
    found = spellings_agree(random.Random(1), 12_000)
    assert min(found[each] for each in Effect) > 300


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_very_many_spellings_are_decided_as_by_the_slow_reading(seed: int) -> None:
    spellings_agree(random.Random(100 + seed), 150_000)


@thorough(80)
@given(policies(), st.lists(tools, max_size=4), st.lists(paths, max_size=8), st.lists(egress, max_size=12))
def test_random_policies_decide_as_by_the_slow_reading(
    policy: Policy, names: list[ToolQuestion], places: list[PathQuestion], requests: list[EgressQuestion]
) -> None:
    compiled = compile_policy(policy, asks=True)
    for name in names:
        assert compiled.decide_tool(name.name, name.origin).effect is tool(policy, name.name, name.origin)
    for place in places:
        assert compiled.decide_path(place.path, place.mode).effect is path(policy, place.path, place.mode)
    for each in requests:
        asked = (each.host, each.port, each.scheme.value, each.method, each.target)
        found = compiled.decide_egress(
            **dict(zip(("host", "port", "scheme", "method", "target"), asked, strict=True))
        )
        assert found.effect is request(policy, *asked), asked


@thorough(80)
@given(
    policies(),
    st.lists(connections, min_size=4, max_size=12),
    st.lists(models, max_size=4),
    st.lists(provider_tools, max_size=4),
    st.lists(ports, max_size=8),
    st.lists(starts, max_size=4),
    st.lists(secrets, min_size=4, max_size=12),
)
def test_random_policies_decide_connections_models_and_secrets_as_by_the_slow_reading(
    policy: Policy,
    opened: list[EgressQuestion],
    named: list[ModelQuestion],
    provided: list[ProviderToolQuestion],
    reached: list[PortQuestion],
    started: list[StartQuestion],
    wanted: list[tuple[SecretQuestion, str]],
) -> None:
    compiled = compile_policy(policy, asks=True)
    for each in opened:
        asked = (each.host, each.port, each.scheme.value)
        found = compiled.decide_egress(host=each.host, port=each.port, scheme=each.scheme.value)
        assert found.effect is connection(policy, *asked), asked
    for name, attested in product(named, (False, True)):
        assert compiled.decide_model(name.name, attested=attested).effect is model(
            policy, name.name, attested=attested
        )
    for run in provided:
        assert compiled.decide_provider_tool(run.name).effect is provider_tool(policy, run.name)
    for at in reached:
        assert compiled.decide_port(at.number).effect is port(policy, at.number)
    for child in started:
        assert compiled.decide_start(child.name).effect is start(policy, child.name)
    for question, surface in wanted:
        for scheme in ("https", "http"):
            place = (question.name, question.host, question.port, scheme, surface)
            decision = compiled.decide_secret(
                question.name, host=question.host, port=question.port, scheme=scheme, surface=surface
            )
            assert decision.effect is secret(compiled.policy, *place), place


AROUND = """filesystem_access: [{path: /w, mode: read-write}, {path: /w/s, mode: none}, {path: /v, mode: read}],
network_egress: [{host: '**.b.com'}, {deny: x.b.com}]"""


@thorough(150)
@given(tool_rules(), st.lists(calls, min_size=4, max_size=12))
def test_random_calls_are_decided_as_by_the_slow_reading(rules: str, asked: list[str]) -> None:
    data = f"agent_configs: {{dev: {{{rules}, {AROUND}}}}}".encode()
    policy = load_profiles(data).profile("dev").compiled.policy
    compiled = compile_policy(policy, asks=True)
    for text in asked:
        assert compiled.decide_call("x", text).effect is call(policy, "x", json.loads(text)), text


def test_the_slow_reading_allows_asks_and_denies() -> None:
    """A comparison in which everything is denied would hold of anything."""
    policy = Policy(
        tools=(ToolRule("a"), ToolRule("b", approval=True), ToolDenial("c")),
        filesystem=(PathGrant("/w", PathMode.READ_WRITE), PathGrant("/w/x", PathMode.NONE)),
        egress=(
            EgressRule("*.b.c", paths=("/a/**",)),
            EgressDenial("x.b.c"),
            EgressRule("z.c", tls=TLSMode.PASSTHROUGH),
        ),
    )
    assert [tool(policy, name) for name in "abcd"] == [ALLOW, ASK, DENY, DENY]
    assert path(policy, "/w/a", PathMode.READ) is ALLOW and path(policy, "/w/x/y", PathMode.READ) is DENY
    asked = [("a.b.c", "/a/x"), ("a.b.c", "/a"), ("x.b.c", "/a/x"), ("b.c", "/a/x"), ("z.c", "/")]
    found = [request(policy, host, 443, "https", "GET", target) for host, target in asked]
    assert found == [ALLOW, DENY, DENY, DENY, ALLOW]
    passed = EgressRule("p.b.c", tls=TLSMode.PASSTHROUGH)
    grants = (SecretGrant("KEY", (Endpoint("a.b.c", 443),)),)
    tools = (
        ToolRule("x", False, (Argument("p", Number(1, 2)),)),
        ToolRule("x", True, (Argument("p", Text(1)),)),
    )
    policy = Policy(
        tools=tools,
        egress=(EgressRule("a.b.c"), passed, EgressDenial("a.b.c", methods=("PUT",))),
        secrets=grants,
        models=(ModelRule("m", attested=True),),
        approval=Approval(methods=("GET",)),
    )
    hosts = ("a.b.c", "p.b.c", "z.b.c")
    assert [connection(policy, host, 443, "https") for host in hosts] == [ALLOW, ASK, DENY]
    assert [model(policy, "m", attested=each) for each in (True, False)] == [ALLOW, DENY]
    surfaces = ("header:authorization", "query:key")
    assert [secret(policy, "KEY", "a.b.c", 443, "https", each) for each in surfaces] == [ALLOW, DENY]
    values: list[object] = [1, "1", "22", 3, True]
    assert [call(policy, "x", {"p": each}) for each in values] == [ALLOW, ASK, DENY, DENY, DENY]
