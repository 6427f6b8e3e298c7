"""The schema for editors: published as printed, and never at odds with the reader."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.__main__ import cli
from affiant.errors import AffiantError
from affiant.policy.canonical.names import SPELLINGS
from affiant.policy.canonical.strict_yaml import ListNode, MapNode, Node, ScalarNode, compose
from affiant.policy.canonical.targets import METHODS as EVERY_METHOD
from affiant.policy.editor.schema_command import schema_text
from affiant.policy.loading.approval_reading import DURATION
from affiant.policy.loading.limit_reading import SPELLED
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.sections import PORT_RANGE
from affiant.policy.model.pattern_syntax import MAX_PATTERN
from affiant.policy.model.profile import Scheme, TLSMode
from affiant.policy.model.share import MOST_WEIGHT, PRIORITIES
from affiant.policy.model.token_exchange import EXCHANGE_SPELLINGS, ClientAuth, GrantType, SubjectTokenType
from affiant.policy.normal_form.format_keys import KEYS
from affiant.policy.normal_form.schema import SIZE

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: make setup")

ROOT = Path(__file__).parents[3]
SCHEMAS = {name: json.loads(schema_text(name)) for name in ("profile", "floor")}
PROFILE = jsonschema.Draft202012Validator(SCHEMAS["profile"])
FLOOR = jsonschema.Draft202012Validator(SCHEMAS["floor"])
PATH = r"""/[^*?\[\]{}~$,:!|<>'"`\\]*"""
OF_THE_SCHEMA = [
    *(PATH, f"none:{PATH}", f"(?:none|read|read-only|read-write):{PATH}"),
    *("allowed:[^*].*", "[a-z0-9][a-z0-9-]{0,62}", "sha256:[0-9a-f]{64}"),
]
"""Patterns of values that the reader judges by more than a pattern."""


def as_an_editor_reads(node: Node | None) -> Any:
    """YAML 1.2.2, core schema (section 10.3)."""
    if isinstance(node, MapNode):
        return {member.key.text: as_an_editor_reads(member.value) for member in node.members}
    if isinstance(node, ListNode):
        return [as_an_editor_reads(item) for item in node.items]
    if node is None or (node.plain and node.text in {"", "~", "null", "Null", "NULL"}):
        return None
    assert isinstance(node, ScalarNode)
    if node.plain and node.text.lower() in {"true", "false"} and node.text[1:] == node.text[1:].lower():
        return node.text.lower() == "true"
    if node.plain and re.fullmatch(r"[-+]?[0-9]+", node.text):
        return int(node.text)
    if node.plain and re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", node.text):
        return float(node.text)
    return node.text


def loads(text: str, floor: bytes | None = None) -> bool:
    try:
        load_profiles(text.encode(), floor=floor)
    except AffiantError:
        return False
    return True


def valid(text: str) -> bool:
    return PROFILE.is_valid(as_an_editor_reads(compose(text.encode(), source="p.yaml")))


def test_the_command_prints_the_files() -> None:
    for options, name in (([], "profile"), (["--floor"], "floor"), (["--json"], "profile")):
        printed = CliRunner().invoke(cli, ["policy", "schema", *options]).stdout
        assert printed == schema_text(name)
        assert json.dumps(SCHEMAS[name], indent=2, ensure_ascii=True) + "\n" == printed


def test_both_are_schemas_of_2020_12_without_loose_ends() -> None:
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        named = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
        assert named == set(schema["$defs"])


def mappings(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from mappings(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from mappings(value)


def test_every_mapping_is_closed_and_holds_every_key_of_the_reader() -> None:
    found = list(mappings(SCHEMAS["profile"]))
    assert all(schema["additionalProperties"] is False for schema in found)
    tool = {
        "a tool": [{"name", "server", "schema", "approval", "args", "rate"}, {"deny"}],
        "an agent to start": [{"agent", "at_most"}, {"deny"}],
    }
    listed = [set(schema["properties"]) for schema in found]
    for what, keys in KEYS.items():
        if what != "a baseline policy":
            assert all(each in listed for each in tool.get(what, [set(keys)])), what
    assert set(SCHEMAS["floor"]["properties"]) == set(KEYS["a baseline policy"])
    assert all(schema["additionalProperties"] is False for schema in mappings(SCHEMAS["floor"]))


def members_of(schema: Any, key: str) -> Iterator[Any]:
    """What ``key`` is, wherever it is one of JSON Schema's own."""
    if isinstance(schema, dict):
        if key in schema and not isinstance(schema[key], dict):
            yield schema[key]
        for value in schema.values():
            yield from members_of(value, key)
    elif isinstance(schema, list):
        for value in schema:
            yield from members_of(value, key)


def test_every_pattern_and_choice_is_the_readers() -> None:
    spelled = (*SPELLED.values(), DURATION, SIZE, PORT_RANGE)
    readers = (*SPELLINGS.values(), *EXCHANGE_SPELLINGS.values(), *spelled)
    known = {each.pattern.replace(r"\Z", "") for each in readers} | set(OF_THE_SCHEMA)
    used = {each for schema in SCHEMAS.values() for each in members_of(schema, "pattern")}
    assert used == {f"^(?:{each})$" for each in known - {SPELLED["most"].pattern.replace(r"\Z", "")}} | {"^/"}
    lists = [set(each) for each in members_of(SCHEMAS["profile"], "enum")]
    for choices in (EVERY_METHOD, Scheme, TLSMode, GrantType, ClientAuth, SubjectTokenType, PRIORITIES):
        assert set(map(str, choices)) in lists
    assert MOST_WEIGHT in members_of(SCHEMAS["profile"], "maximum")
    assert MAX_PATTERN in members_of(SCHEMAS["profile"], "maxLength")


@pytest.mark.parametrize(
    ("section", "choices"),
    [
        ("filesystem_access: [{path: /a, mode: %s}]", ["none", "read", "read-only", "read-write"]),
        ("network_egress: [{host: a.b, scheme: %s}]", ["http", "https"]),
        ("network_egress: [{host: a.b, tls: %s}]", ["inspect", "passthrough"]),
        ("models: [{name: a, upstream: %s}]", ["any", "attested"]),
    ],
)
def test_choices_are_those_of_the_reader(section: str, choices: list[str]) -> None:
    text = "agent_configs: {dev: {" + section + "}}"
    for choice in choices:
        assert loads(text % choice)
        assert valid(text % choice)
    with pytest.raises(AffiantError, match="Known: " + ", ".join(choices)):
        load_profiles((text % "0").encode())
    assert not valid(text % "zero")


def test_our_own_profiles_and_the_example_of_the_format_are_valid() -> None:
    page = (ROOT / "policy" / "FORMAT.md").read_text()
    texts = [path.read_text() for path in (ROOT / "policy" / "profiles").glob("*.yaml")]
    texts += [path.read_text() for path in (ROOT / "examples").rglob("*profile*.yaml")]
    texts += re.findall(r"```yaml\n(version.*?)```", page, re.DOTALL)
    assert len(texts) >= 2
    for text in [*texts, "", "agent_configs:\n", "agent_configs: {dev: }"]:
        assert valid(text), list(
            PROFILE.iter_errors(as_an_editor_reads(compose(text.encode(), source="p.yaml")))
        )


# -- what loads is valid ----------------------------------------------------------------------------------------------

NAMES = ["a", "run_tests", "no", "1", "1e3", "22.5", "true", "'x y'", "'null'", "'*'"]
HOSTS = ["a.b.com", "'*.b.com'", "'**.b.c'", "10.0.0.1", "localhost", "a.b.com:8443", "1"]
METHODS = ["[GET]", "[GET, POST]", "[]", "[get]", "GET", "[TRACE]"]
PATHS = ["[/a]", "['/a/**', /]", "[]", "[a]", "/a"]


def pick(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices)


def members(**values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A mapping with some of the keys."""
    keys = st.lists(st.sampled_from(list(values)), unique=True, max_size=4)
    pairs = keys.flatmap(
        lambda names: st.tuples(*(values[name].map(f"{name}: {{}}".format) for name in names))
    )
    return pairs.map(lambda found: "{" + ", ".join(found) + "}")


def many(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(of, max_size=3).map(lambda found: "[" + ", ".join(found) + "]")


NAME, HOST = pick(*NAMES), pick(*HOSTS)
PLAIN = pick("5", "-1", "'5'", "true", "x", "'a b'", "1.5", "[]")
SINGLE = members(
    one_of=many(PLAIN),
    const=PLAIN,
    min=pick("0", "-3", "x"),
    max=pick("5", "'5'"),
    max_len=pick("1", "0", "80"),
    pattern=pick("'[a-z]{1,3}'", "'[a-z]+'", "'.'", "5", "true"),
    under=pick("/a", "a", "/a/*"),
    write=pick("true", "no"),
    host=pick("a.b.com", "'*.b.com'"),
)
ARGUMENT = pick("any", "all", "{}", "{min: 1, max: 5, optional: true}", "{under: /a, write: true}") | (
    SINGLE | SINGLE.map("{{each: {}, max_items: 3}}".format) | many(many(PLAIN)).map("{{argv: {}}}".format)
)
RATE = pick("10/min", "1/s", "'5/h'", "5", "0/s", "5/m")
LIMIT = pick("5", "'5'", "500k", "2M/day", "7/h", "0", "1e3", "5/week", "[5/s, 100/h]", "[5/s, 6/s]", "[]")
ARGUED = st.tuples(NAME, ARGUMENT).map(lambda it: "{{name: {}, args: {{a: {}}}}}".format(*it))
TOOL = (
    NAME
    | ARGUED
    | NAME.map("{{deny: {}}}".format)
    | members(name=NAME, approval=pick("true", "yes"), rate=RATE, deny=NAME)
)
PLACE = (
    pick("none", "'read:/a'", "'read-write:/a/b c'", "'read:/a:b'", "/a", "'none:/'", "'read:a'")
    | st.tuples(pick("/a", "/", "a", "/a/*"), pick("read", "none", "rw")).map(
        lambda it: "{{path: {}, mode: {}}}".format(*it)
    )
    | members(path=pick("/a"), mode=pick("read"))
)
REACH = (
    pick("denied", "'allowed:a.b.com'", "'allowed:a.b.com:8443'", "allowed", "'allowed:*.b.com'", "Denied")
    | HOST.map("{{host: {}}}".format)
    | st.tuples(HOST, pick(*METHODS), pick(*PATHS)).map(
        lambda it: "{{host: {}, methods: {}, paths: {}}}".format(*it)
    )
    | st.tuples(HOST, pick("443", "'443'", "0", "65536")).map(lambda it: "{{deny: {}, port: {}}}".format(*it))
    | members(
        host=HOST,
        port=pick("443", "80", "x"),
        scheme=pick("http", "https"),
        tls=pick("inspect", "passthrough"),
        limits=members(requests=LIMIT, bytes_out=pick("5MiB", "5")) | pick("{}"),
        address=pick("10.0.0.1", "[10.0.0.0/24]", "'10.0.0.1, 10.0.0.2'", "[]"),
        deny=HOST,
    )
)
INJECT = members(
    header=pick("X-Key", "true", "Host"),
    format=pick("'k {}'", "'{}'", "x"),
    basic=pick("git", "'a:b'", "5"),
    query=pick("key", "'a b'", "5"),
    sigv4=members(service=pick("s3", "'S3'", "5", "AKIA"), region=pick("eu-central-1", "auto", "'*'", "-"))
    | pick("{}"),
    body=members(json=pick("/a/b", "'a'", "/a~0b", "'/a b'"), form=pick("key", "'a b'", "5")) | pick("{}"),
    exchange=pick("{}")
    | st.tuples(
        pick("client_credentials, client_id: a", "jwt_bearer, issuer: 5", "token_exchange", "refresh_token"),
        pick(
            "'https://a.b.com/t'", "'https://a.b.com:8443/t'", "'http://a.b.com/t'", "'https://a.b.com'", "5"
        ),
        members(
            scope=pick("'a b'", "'a  b'", "5"),
            audience=pick("a", "'a b'", "true"),
            resource=pick("'urn:a'", "a"),
            subject=pick("a", "'a b'"),
            key_id=pick("5", "''"),
            client_auth=pick("client_secret_post", "x"),
            subject_token_type=pick("jwt", "saml2"),
        ),
    ).map(lambda it: f"{{grant: {it[0]}, url: {it[1]}, {it[2][1:-1]}}}"),
)
SECRET = (
    pick("A", "true", "a-b", "PATH", "1")
    | st.tuples(pick("A", "B"), INJECT).map(lambda it: "{{name: {}, inject: {}}}".format(*it))
    | members(
        name=pick("A", "true"),
        ref=pick("'local:A'", "'vault:kv/a#b'", "a"),
        hosts=many(HOST),
        shape=pick("'ghp_{36}'", "'{2}'", "ghp"),
        max_uses=pick("200", "0", "2/h", "'2'"),
    )
)
MODEL = NAME | members(
    name=NAME, upstream=pick("any", "attested", "x"), max_tokens=pick("4096", "8k", "'8'", "1/s", "0")
)
ASKED = pick("true", "false", "yes") | members(tools=many(NAME), egress=pick(*METHODS))
RESOURCES = members(
    cpus=pick("1", "0", "'2'"), memory=pick("2GiB", "2", "2GB"), disk=pick("1TiB"), pids=pick("5", "-1")
)
PORT = pick("8080", "8000-8010", "'8000-8010'", "'8080'", "0", "65536", "8010-8000", "true", "8e3", "1-2-3")
START = NAME.map("{{deny: {}}}".format) | pick(
    *(
        "dev",
        "b",
        "{agent: b}",
        "{agent: b, at_most: 3}",
        "{agent: b, at_most: 0}",
        "{agent: b, at_most: '3'}",
    ),
    *("{at_most: 3}", "{agent: b, deny: b}", "[b]"),
)
TEST = st.tuples(
    pick("allow", "ask", "deny"),
    pick("tool", "model", "read", "egress"),
    NAME | pick("/a", "x, args: {a: 1}", "x, args: 1"),
).map(lambda it: "{{{}: {{{}: {}}}}}".format(*it))
SECTIONS = members(
    tools=many(TOOL),
    provider_tools=many(NAME | NAME.map("{{deny: {}}}".format)),
    filesystem_access=PLACE | many(PLACE),
    network_egress=REACH | many(REACH),
    secrets_access=many(SECRET) | pick("A"),
    requires_human_approval=ASKED,
    models=many(MODEL),
    ports=many(PORT | PORT.map("{{deny: {}}}".format)),
    may_start=many(START),
    resources=RESOURCES,
    tests=many(TEST),
    limits=pick("{}")
    | members(
        tool_calls=LIMIT,
        requests=LIMIT,
        tokens=LIMIT,
        bytes_out=pick("5MiB", "[5KiB/s, 1GiB]", "5", "5MB"),
        wall=pick("2h", "90s", "2", "1.5h"),
    ),
)
DOCUMENTS = (
    SECTIONS.map("agent_configs: {{dev: {}}}".format)
    | SECTIONS.map("version: 1\nagent_configs: {{'1': {}, b: }}".format)
    | pick(
        "version: 2", "version: '1'", "agent_configs: []", "agent_configs: {a b: {}}", "agents: {}", "[]", ""
    )
)


def test_what_loads_is_valid_so_what_is_invalid_is_refused() -> None:
    either = {"loaded": 0, "invalid": 0}

    enough = thorough(400, quick=120)

    @enough
    @given(DOCUMENTS)
    def hold(text: str) -> None:
        loaded, is_valid = loads(text), valid(text)
        either["loaded"] += loaded
        either["invalid"] += not is_valid
        assert is_valid or not loaded

    hold()
    assert min(either.values()) > enough.max_examples // 20, f"the documents are all of one kind: {either}"


def test_a_name_spelled_null_is_the_one_exception() -> None:
    assert loads("agent_configs: {dev: {tools: [null]}}")
    assert not valid("agent_configs: {dev: {tools: [null]}}")
    assert valid("agent_configs: {dev: {tools: ['null']}}")


REFUSED_BY_BOTH = [
    "tool: [x]",
    "limits: {}",
    "limits: {tool_calls: 0}",
    "limits: {tool_calls: 5k}",
    "limits: {requests: 5/minute}",
    "limits: {requests: []}",
    "limits: {tokens: 1.5M}",
    "limits: {tokens: -5}",
    "limits: {wallclock: 5}",
    "weight: 0",
    "weight: 101",
    "weight: '2'",
    "weight: 1.5",
    "weight: [2]",
    "priority: urgent",
    "priority: Batch",
    "priority: [batch]",
    "tools: run_tests",
    "tools: {a: true}",
    "tools: [{name: x, deny: y}]",
    "tools: [{name: x, approval: 'true'}]",
    "tools: [{name: x, rate: 10}]",
    "tools: [{deny: x, rate: 10/min}]",
    "tools: [{approval: true}]",
    "tools: ['a b']",
    "tools: [[x]]",
    "tools: [{name: x, args: [a]}]",
    "tools: [{name: x, args: {a: all}}]",
    "tools: [{name: x, args: {a: {regex: x}}}]",
    "tools: [{name: x, args: {a: {one_of: []}}}]",
    "tools: [{name: x, args: {a: {min: '1'}}}]",
    "tools: [{name: x, args: {a: {under: a}}}]",
    "tools: [{name: x, args: {a: {argv: [ls]}}}]",
    "tools: [{name: x, args: {a: {each: {argv: [[ls]]}}}}]",
    "tests: [{allow: {read: /a, args: {}}}]",
    "tests: [{allow: {tool: x, args: [1]}}]",
    "tools: ",
    "filesystem_access: /workspace",
    "filesystem_access: 'READ:/a'",
    "filesystem_access: 'read:/a/*'",
    "filesystem_access: [{path: /a}]",
    "filesystem_access: [none]",
    "network_egress: Denied",
    "network_egress: 'allowed:'",
    "network_egress: 'allowed:*.b.com'",
    "network_egress: [denied]",
    "network_egress: [{host: a.b.com, port: '443'}]",
    "network_egress: [{host: a.b.com, port: 0}]",
    "network_egress: [{host: a.b.com, methods: [get]}]",
    "network_egress: [{host: a.b.com, methods: []}]",
    "network_egress: [{host: a.b.com, methods: [CONNECT]}]",
    "network_egress: [{host: a.b.com, limits: {tokens: 1/min}}]",
    "network_egress: [{host: a.b.com, limits: {}}]",
    "limits: {wall: 2}",
    "limits: {bytes_out: 5MB}",
    "network_egress: [{deny: a.b.com, scheme: http}]",
    "secrets_access: TOKEN",
    "secrets_access: [to-ken]",
    "secrets_access: [{name: A, max_uses: 0}]",
    "secrets_access: [{name: A, hosts: []}]",
    "secrets_access: [{name: A, ref: 'env:A'}]",
    "secrets_access: [{name: A, shape: ghp}]",
    "secrets_access: [{name: A, inject: {query: q, header: X-K}}]",
    "secrets_access: [{name: A, inject: {body: q}}]",
    "secrets_access: [{name: A, inject: {body: {}}}]",
    "secrets_access: [{name: A, inject: {body: {json: q}}}]",
    "secrets_access: [{name: A, inject: {body: {json: /q, form: q}}}]",
    "secrets_access: [{name: A, inject: {exchange: {grant: client_credentials}}}]",
    "secrets_access: [{name: A, inject: {exchange: {grant: refresh_token, url: 'https://a.b/c'}}}]",
    "secrets_access: [{name: A, inject: {exchange: {grant: client_credentials, url: 'http://a.b/c'}}}]",
    "secrets_access: [{name: A, inject: {sigv4: {}}}]",
    "secrets_access: [{name: A, inject: {sigv4: {service: s3}}}]",
    "secrets_access: [{name: A, inject: {sigv4: {service: S3, region: eu-central-1}}}]",
    "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: auto}, query: a}}]",
    "secrets_access: [{name: A, inject: {format: '{}'}}]",
    "models: any",
    "may_start: dev",
    "may_start: [{agent: b, at_most: 0}]",
    "may_start: [{agent: b, at_most: true}]",
    "may_start: [{agent: b, deny: b}]",
    "may_start: ['a b']",
    "ports: 8080",
    "ports: [0]",
    "ports: [65536]",
    "ports: ['8080']",
    "ports: [8000-]",
    "ports: [{deny: true}]",
    "ports: [{deny: 80, port: 81}]",
    "models: [{upstream: attested}]",
    "models: [{name: m, max_tokens: 0}]",
    "models: [{name: m, max_tokens: 5/min}]",
    "requires_human_approval: yes",
    "requires_human_approval: {}",
    "requires_human_approval: {egress: [POST], ttl: 10m}",
    "requires_human_approval: {egress: [POST], quorum: 1}",
    "requires_human_approval: {everything: yes}",
    "requires_human_approval: {approvers: []}",
    "requires_human_approval: {approvers: [a]}",
    "requires_human_approval: {approvers: [{issuer: https://id.b.com, subject: ann}]}",
    f"requires_human_approval: {{approvers: [{'A' * 43}], ttl: 10}}",
    f"requires_human_approval: {{approvers: [{'A' * 43}], quorum: 0}}",
    "resources: {cpus: 0}",
    "resources: {memory: 2}",
    "tests: [{}]",
    "tests: [{allow: {tool: x, read: /a}}]",
    "tests: [{allow: {tool: x}, deny: {tool: y}}]",
]


@pytest.mark.parametrize("sections", REFUSED_BY_BOTH)
def test_what_an_editor_underlines_the_reader_refuses(sections: str) -> None:
    text = f"agent_configs: {{dev: {{{sections}}}}}"
    assert not valid(text)
    assert not loads(text)


FLOOR_TEXTS = [
    ("tools: [{deny: a}]", True),
    ("filesystem_access: 'none:/a'", True),
    ("filesystem_access: [{path: /a, mode: none}]", True),
    ("network_egress: {deny: a.b, methods: [GET]}", True),
    ("requires_human_approval: {egress: [DELETE]}", True),
    (f"requires_human_approval: {{approvers: [{'A' * 43}], quorum: 1, ttl: 5m}}", True),
    ("requires_human_approval: {quorum: 1}", False),
    ("version: 1\nrequires_human_approval: true", True),
    ("tools: [a]", False),
    ("tools: [{name: a, approval: true}]", False),
    ("filesystem_access: 'read:/a'", False),
    ("filesystem_access: [{path: /a, mode: read}]", False),
    ("network_egress: 'allowed:a.b'", False),
    ("requires_human_approval: {tools: [x]}", False),
    ("models: []", False),
    ("secrets_access: []", False),
    ("agent_configs: {}", False),
]


@pytest.mark.parametrize(("text", "accepted"), FLOOR_TEXTS)
def test_a_floor_is_valid_where_the_reader_takes_it(text: str, accepted: bool) -> None:
    assert FLOOR.is_valid(as_an_editor_reads(compose(text.encode(), source="floor.yaml"))) is accepted
    assert loads("agent_configs: {}", text.encode()) is accepted


@pytest.mark.skipif(
    shutil.which("node") is None, reason="no node: the regular expressions of editors are not tried"
)
def test_the_patterns_are_regular_expressions_of_editors() -> None:
    patterns = sorted(set(re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', schema_text("profile"))))
    assert len(patterns) > 8
    code = "for (const each of [" + ",".join(patterns) + "]) new RegExp(each, 'u')"
    subprocess.run(["node", "-e", code], check=True, timeout=30)
