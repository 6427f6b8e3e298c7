"""The normal form: one sequence of bytes for one meaning."""

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.canonical import canonical
from affiant.policy.canonical.errors import NormalFormRefused
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.normal_form.digest import policy_digest

Make = Callable[..., Profile]

LONG = (
    "tools: [b, a, {deny: c}, {name: d, approval: true}],"
    "filesystem_access: ['read:/w/a', 'read-write:/w', {path: /w/n, mode: none}],"
    "network_egress: [{host: b.c.com, methods: [POST, GET], paths: [/y, '/x/**']},"
    " {host: a.c.com, address: [10.0.0.2, 10.0.0.0/30]},"
    " {host: '**.d.com', tls: passthrough}, {deny: z.c.com, methods: [PUT]}, {host: e.com, scheme: http}],"
    "secrets_access: [{name: B, hosts: ['b.c.com:443', a.c.com]}, A], models: [n, {name: m, upstream: attested}],"
    "requires_human_approval: {egress: [POST, DELETE]}, resources: {cpus: 1, pids: 64}"
)


def test_the_short_form_and_its_long_form_have_one_digest(seed: bytes) -> None:
    long = b"""
version: 1
agent_configs:
  deployment_agent:
    requires_human_approval: true
    secrets_access:
      - {name: CLOUD_CREDENTIALS, hosts: ["API.cloud-provider.com.:443"], inject: {header: authorization}}
      - name: DEPLOY_KEY
    network_egress:
      - {host: api.cloud-provider.com, port: 443, scheme: https, tls: inspect}
    filesystem_access: [{path: /workspace/infra, mode: read-only}]
    tools: [{name: kubectl_apply, approval: false}, run_terraform, kubectl_apply]
  code_implementer:
    tools: [write_file, read_file, run_tests]
    filesystem_access: ["read-write:/workspace", "read-write:/workspace"]
    network_egress: []
    secrets_access: [GITHUB_TOKEN]
  log_analyzer: {tools: [query_metrics, read_logs], filesystem_access: ["read:/var/log"]}
"""
    short, written_out = load_profiles(seed), load_profiles(long)
    assert {name: p.digest for name, p in short.profiles.items()} == {
        name: p.digest for name, p in written_out.profiles.items()
    }
    assert short.digest == written_out.digest
    assert short.source_digest != written_out.source_digest


def test_a_normal_form_names_no_agent_and_says_its_semantics(seed: bytes) -> None:
    for name, profile in load_profiles(seed).profiles.items():
        assert name.encode() not in profile.normal_form
        assert b'"semantics":"affiant.policy/1"' in profile.normal_form
        assert canonical(json.loads(profile.normal_form)) == profile.normal_form


def test_two_agents_with_one_meaning_have_one_digest() -> None:
    profiles = load_profiles(b"agent_configs: {a: {tools: [x, y]}, b: {tools: [y, x]}}")
    assert profiles.profile("a").digest == profiles.profile("b").digest
    renamed = load_profiles(b"agent_configs: {a: {tools: [x, y]}, c: {tools: [y, x]}}")
    assert renamed.digest != profiles.digest


def test_a_normal_form_is_read_back_to_the_same_policy(profile_of: Make) -> None:
    profile = profile_of(LONG)
    compiled = parse_normal_form(profile.normal_form)
    assert compiled.policy == profile.compiled.policy
    assert compiled.digest == profile.digest == policy_digest(profile.normal_form)
    assert compiled.normal_form == profile.normal_form


def test_the_digest_is_the_one_that_is_specified() -> None:
    import hashlib

    form = load_profiles(b"agent_configs: {a: {}}").profile("a").normal_form
    expected = (
        b'{"approval":{"everything":false,"methods":[]},"egress":[],"filesystem":[],"floor":null,"models":null,'
        b'"resources":{"cpus":null,"disk":null,"memory":null,"pids":null},"secrets":[],'
        b'"semantics":"affiant.policy/1","tools":[]}'
    )
    assert form == expected
    assert policy_digest(form) == "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + expected).hexdigest()


SECTIONS = [
    "tools: [a]",
    "tools: [b]",
    "tools: [{deny: a}]",
    "tools: [{name: a, approval: true}]",
    "filesystem_access: 'read:/a'",
    "filesystem_access: 'read-write:/a'",
    "filesystem_access: [{path: /a, mode: none}]",
    "filesystem_access: 'read:/b'",
    "network_egress: 'allowed:a.b.com'",
    "network_egress: 'allowed:a.b.com:444'",
    "network_egress: [{host: a.b.com, scheme: http, port: 443}]",
    "network_egress: [{host: a.b.com, methods: [GET]}]",
    "network_egress: [{host: a.b.com, methods: [GET, PUT]}]",
    "network_egress: [{host: a.b.com, paths: [/a]}]",
    "network_egress: [{host: a.b.com, paths: ['/a/**']}]",
    "network_egress: [{host: a.b.com, tls: passthrough}]",
    "network_egress: [{host: a.b.com, address: 10.0.0.1}]",
    "network_egress: [{deny: a.b.com}]",
    "network_egress: [{deny: a.b.com, port: 443}]",
    "network_egress: [{deny: a.b.com, methods: [GET]}]",
    "network_egress: [{host: '*.b.com'}]",
    "network_egress: [{host: '**.b.com'}]",
    "secrets_access: [A]",
    "secrets_access: [B]",
    "secrets_access: [{name: A, hosts: [a.b.com]}]",
    "secrets_access: [{name: A, hosts: ['a.b.com:8443']}]",
    "secrets_access: [{name: A, ref: 'local:A'}]",
    "secrets_access: [{name: A, ref: 'vault:kv/a#b'}]",
    "secrets_access: [{name: A, inject: {header: X-Key}}]",
    "secrets_access: [{name: A, inject: {header: Authorization, format: 'Bearer {}'}}]",
    "secrets_access: [{name: A, inject: {basic: git}}]",
    "secrets_access: [{name: A, inject: {basic: other}}]",
    "secrets_access: [{name: A, inject: {query: key}}]",
    "secrets_access: [{name: A, inject: {query: token}}]",
    "secrets_access: [{name: A, inject: {body: {form: token}}}]",
    "secrets_access: [{name: A, inject: {body: {form: key}}}]",
    "secrets_access: [{name: A, inject: {body: {json: /token}}}]",
    "secrets_access: [{name: A, inject: {body: {json: /auth/token}}}]",
    *(
        f"secrets_access: [{{name: A, inject: {{exchange: {{{exchange}}}}}}}]"
        for exchange in (
            "grant: client_credentials, url: 'https://i.b.com/token', client_id: a",
            "grant: client_credentials, url: 'https://i.b.com/token', client_id: b",
            "grant: client_credentials, url: 'https://i.b.com/token', client_id: a, client_auth: client_secret_post",
            "grant: client_credentials, url: 'https://i.b.com/other', client_id: a",
            "grant: client_credentials, url: 'https://i.b.com:8443/token', client_id: a",
            "grant: client_credentials, url: 'https://i.b.com/token', client_id: a, scope: read",
            "grant: client_credentials, url: 'https://i.b.com/token', client_id: a, audience: read",
            "grant: client_credentials, url: 'https://i.b.com/token', client_id: a, resource: 'urn:read'",
            "grant: jwt_bearer, url: 'https://i.b.com/token', issuer: a",
            "grant: jwt_bearer, url: 'https://i.b.com/token', issuer: a, subject: a",
            "grant: jwt_bearer, url: 'https://i.b.com/token', issuer: a, audience: a",
            "grant: jwt_bearer, url: 'https://i.b.com/token', issuer: a, key_id: a",
            "grant: token_exchange, url: 'https://i.b.com/token'",
            "grant: token_exchange, url: 'https://i.b.com/token', client_id: a",
            "grant: token_exchange, url: 'https://i.b.com/token', subject_token_type: jwt",
        )
    ),
    "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: eu-central-1}}}]",
    "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: eu-west-1}}}]",
    "secrets_access: [{name: A, inject: {sigv4: {service: sqs, region: eu-central-1}}}]",
    "secrets_access: [{name: A, shape: 'a{30}'}]",
    "secrets_access: [{name: A, shape: 'b{30}'}]",
    "provider_tools: [a]",
    "provider_tools: [b]",
    "provider_tools: [{deny: a}]",
    "may_start: [{deny: a}]",
    "may_start: [{deny: b}]",
    "ports: [8080]",
    "ports: [8081]",
    "ports: [8080-8081]",
    "ports: [{deny: 8080}]",
    "models: []",
    "models: [a]",
    "models: [b]",
    "models: [{name: a, upstream: attested}]",
    "requires_human_approval: true",
    "requires_human_approval: {egress: [GET]}",
    "resources: {cpus: 1}",
    "resources: {cpus: 2}",
    "resources: {pids: 1}",
    "resources: {memory: 1GiB}",
    "resources: {disk: 1GiB}",
    "",
]


def test_every_change_of_authority_changes_the_digest(profile_of: Make) -> None:
    digests = {profile_of(sections).digest for sections in SECTIONS}
    assert len(digests) == len(SECTIONS)


@thorough(60)
@given(st.randoms(use_true_random=False))
def test_order_and_repetition_never_matter(profile_of: Make, source: random.Random) -> None:
    lists = {
        "tools": ["a", "b", "{deny: c}", "{name: d, approval: true}"],
        "filesystem_access": ["'read:/w'", "{path: /w/x, mode: read-write}", "{path: /w/n, mode: none}"],
        "network_egress": ["{host: b.c.com, methods: [GET]}", "'allowed:a.c.com'", "{deny: z.c.com}"],
        "secrets_access": ["A", "{name: B, hosts: [a.c.com, b.c.com]}"],
        "provider_tools": ["web_search", "{deny: mcp}"],
        "ports": ["8000-8010", "8005-8020", "9000", "{deny: 8003}"],
        "models": ["m", "{name: n, upstream: attested}"],
    }
    parts = []
    for section, entries in lists.items():
        shuffled = entries + source.choices(entries, k=2)
        source.shuffle(shuffled)
        parts.append(f"{section}: [{', '.join(shuffled)}]")
    source.shuffle(parts)
    plain = ", ".join(f"{section}: [{', '.join(entries)}]" for section, entries in lists.items())
    assert profile_of(", ".join(parts)).normal_form == profile_of(plain).normal_form


def changed(form: bytes, path: tuple[str | int, ...], value: object) -> bytes:
    document = json.loads(form)
    place = document
    for step in path[:-1]:
        place = place[step]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return canonical(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("semantics",), "affiant.policy/2"),
        (("semantics",), KeyError),
        (("name",), "dev"),
        (("tools",), None),
        (("provider_tools",), []),
        (("provider_tools",), [{"effect": "ask", "name": "a"}]),
        (("provider_tools",), [{"effect": "allow", "name": "a", "approval": True}]),
        (("may_start",), []),
        (("may_start",), [{"effect": "allow", "agent": "a b"}]),
        (("may_start",), [{"effect": "allow", "agent": 1}]),
        (("may_start",), [{"effect": "ask", "agent": "a"}]),
        (("may_start",), [{"effect": "deny", "agent": "a", "at_most": 1}]),
        (("may_start",), [{"effect": "allow", "agent": "a", "at_most": True}]),
        (("may_start",), [{"effect": "allow", "agent": "a", "at_most": 0}]),
        (("may_start",), [{"effect": "allow", "agent": "a", "at_most": None}]),
        (("may_start",), [{"effect": "allow", "agent": "a", "at_most": at} for at in (1, 2)]),
        (("ports",), []),
        (("ports",), [{"effect": "allow", "first": 8080}]),
        (("ports",), [{"effect": "allow", "first": True, "last": 2}]),
        (("ports",), [{"effect": "allow", "first": "8080", "last": 8080}]),
        (("ports",), [{"effect": "allow", "first": 0, "last": 1}]),
        (("ports",), [{"effect": "allow", "first": 1, "last": 65536}]),
        (("ports",), [{"effect": "allow", "first": 2, "last": 1}]),
        (("ports",), [{"effect": "ask", "first": 1, "last": 1}]),
        (
            ("ports",),
            [{"effect": "allow", "first": 1, "last": 1}, {"effect": "allow", "first": 2, "last": 2}],
        ),
        (
            ("ports",),
            [{"effect": "allow", "first": 1, "last": 9}, {"effect": "allow", "first": 5, "last": 6}],
        ),
        (("tools",), {}),
        (("floor",), "sha384:00"),
        (("floor",), KeyError),
        (("models",), KeyError),
        (("approval", "everything"), 0),
        (("approval", "x"), True),
        (("approval", "methods"), ["GET", "DELETE"]),
        (("resources", "cpus"), True),
        (("resources", "cpus"), 0),
        (("resources", "cpus"), KeyError),
        (("tools", 0, "effect"), "allowed"),
        (("tools", 0, "approval"), KeyError),
        (("tools", 0, "name"), "z"),
        (("tools", 0, "name"), "a b"),
        (("tools", 0, "x"), 1),
        (("filesystem", 0, "mode"), "rw"),
        (("filesystem", 0, "path"), "/w/../x"),
        (("filesystem", 1, "path"), "/proc"),
        (("egress", 0, "host"), "A.c.com"),
        (("egress", 0, "address"), ["10.0.0.1/30"]),
        (("egress", 0, "address"), ["0.0.0.0/0"]),
        (("egress", 0, "port"), 0),
        (("egress", 0, "port"), "443"),
        (("egress", 0, "port"), True),
        (("egress", 0, "methods"), ["TRACE"]),
        (("egress", 0, "methods"), []),
        (("egress", 0, "paths"), ["/a/.."]),
        (("egress", 0, "tls"), "none"),
        (("egress", 0, "scheme"), "ftp"),
        (("secrets", 0, "hosts", 0, "host"), "*.c.com"),
        (("secrets", 0, "ref"), "env:A"),
        (("secrets", 0, "inject"), None),
        (("secrets", 0, "inject", "header"), "Authorization"),
        (("secrets", 1, "name"), "A"),
        (("secrets", 0, "shape"), "x"),
        (("models", 0, "attested"), 1),
        (("models", 0, "name"), ""),
    ],
)
def test_nothing_but_a_normal_form_is_read(
    profile_of: Make, path: tuple[str | int, ...], value: object
) -> None:
    form = profile_of(LONG).normal_form
    with pytest.raises(NormalFormRefused):
        parse_normal_form(changed(form, path, value))


@pytest.mark.parametrize("form", [b"", b"{}", b"[]", b"null", b"x", b"\xff"])
def test_other_bytes_are_refused(form: bytes) -> None:
    with pytest.raises(NormalFormRefused):
        parse_normal_form(form)


def test_a_list_in_another_order_is_refused(profile_of: Make) -> None:
    form = profile_of(LONG).normal_form
    for section in ("tools", "filesystem", "egress", "secrets", "models"):
        entries = json.loads(form)[section]
        for other in (entries[::-1], [*entries, entries[-1]]):
            with pytest.raises(NormalFormRefused):
                parse_normal_form(changed(form, (section,), other))


@thorough(150)
@given(st.data())
def test_any_changed_byte_is_refused_or_changes_the_digest(profile_of: Make, data: st.DataObject) -> None:
    profile = profile_of(LONG)
    form = bytearray(profile.normal_form)
    position = data.draw(st.integers(0, len(form) - 1))
    form[position] ^= data.draw(st.integers(1, 255))
    try:
        compiled = parse_normal_form(bytes(form))
    except NormalFormRefused:
        return
    assert compiled.digest != profile.digest
    assert compiled.normal_form == bytes(form)
