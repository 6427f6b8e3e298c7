"""Loading: the whole file as it was written, or a refusal with its code, line and column."""

from collections.abc import Callable
from pathlib import Path

import pytest

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import AffiantError
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.loading.load import floor_file, load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PathMode,
    Resources,
    Scheme,
    SecretGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)

Make = Callable[..., Profile]


def refused(sections: str, floor: bytes | None = None) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode(), floor=floor)
    return caught.value


def test_the_original_short_form_loads_unchanged(seed: bytes) -> None:
    profiles = load_profiles(seed)
    assert list(profiles.profiles) == ["log_analyzer", "code_implementer", "deployment_agent"]
    analyzer, implementer, deployer = profiles.profiles.values()
    assert analyzer.policy.tools == (ToolRule("query_metrics"), ToolRule("read_logs"))
    assert analyzer.policy.filesystem == (PathGrant("/var/log", PathMode.READ),)
    assert (analyzer.policy.egress, analyzer.policy.secrets) == ((), ())
    assert analyzer.policy.models is None
    assert implementer.policy.filesystem == (PathGrant("/workspace", PathMode.READ_WRITE),)
    assert implementer.policy.secrets == (SecretGrant("GITHUB_TOKEN", ()),)
    assert deployer.policy.egress == (EgressRule("api.cloud-provider.com"),)
    bound = (Endpoint("api.cloud-provider.com", 443),)
    assert deployer.policy.secrets == (
        SecretGrant("CLOUD_CREDENTIALS", bound),
        SecretGrant("DEPLOY_KEY", bound),
    )
    assert deployer.policy.approval.everything
    assert profiles.source_digest == sha256_name(seed)


def test_the_seed_digests_never_change(seed: bytes) -> None:
    assert {name: profile.digest for name, profile in load_profiles(seed).profiles.items()} == SEED_DIGESTS
    assert load_profiles(seed).digest == SEED_FILE_DIGEST


SEED_DIGESTS = {
    "log_analyzer": "sha384:"
    "a4165800d03f3553a92b45b736c737b0d4e3b6bda092203dba2d98514384ceced04b0accbe5e6ba20531e41aec566e47",
    "code_implementer": "sha384:"
    "4a903ed74891cd1946108a46400c95b90bff58fc3dec5ebab945655fe274713ef4aeabe40ec70a50cbdcb873115598d4",
    "deployment_agent": "sha384:"
    "27f4236f32c2dab9fb16423ff0cd3b54aefd799a872108579105233684ea26f4d8be5ac2990960da34fe40cb8fa5fe7f",
}
SEED_FILE_DIGEST = (
    "sha384:ea6bcc62e0852306a35408f579f0eba736b0b10928f2d4f37e96dc534d84456de34f6c2651e5ae29c675f35a9ed3d544"
)


@pytest.mark.parametrize(
    "text", ["", "# only this\n", "---\n", "{}", "version: 1\n", "agent_configs:\n", "agent_configs: {}\n"]
)
def test_a_file_without_profiles_gives_nobody_anything(text: str) -> None:
    profiles = load_profiles(text.encode())
    assert profiles.profiles == {}
    with pytest.raises(AffiantError) as caught:
        profiles.profile("dev")
    assert caught.value.code == "policy.unknown_agent"


@pytest.mark.parametrize("text", ["agent_configs: {dev: {}}", "agent_configs:\n  dev:\n"])
def test_an_agent_without_sections_may_do_nothing(text: str) -> None:
    policy = load_profiles(text.encode()).profile("dev").compiled
    assert policy.decide_tool("run_tests").reason == "tool_not_listed"
    assert policy.decide_path("/workspace", "read").reason == "path_not_listed"
    assert policy.decide_egress(host="a.com", port=443, scheme="https").reason == "host_not_listed"
    assert policy.decide_secret("TOKEN", host="a.com", port=443, scheme="https").reason == "secret_not_listed"
    assert (policy.mounts(), policy.secret_grants()) == ((), ())
    assert policy.restricts_tools


def test_an_unknown_agent_is_told_which_there_are(seed: bytes) -> None:
    with pytest.raises(AffiantError) as caught:
        load_profiles(seed).profile("code_implementor")
    assert caught.value.code == "policy.unknown_agent"
    assert "Did you mean 'code_implementer'?" in str(caught.value)
    assert "log_analyzer" in str(caught.value)


def test_one_bad_profile_refuses_the_whole_file(seed: bytes) -> None:
    with pytest.raises(AffiantError) as caught:
        load_profiles(seed + b"  broken:\n    tool: [x]\n")
    assert caught.value.where == "profiles.yaml:20:5"


@pytest.mark.parametrize(
    "broken",
    [
        "    tools: x\n",
        "    network_egress: Denied\n",
        "    network_egress: 'allowed:*'\n",
        "    tools: [x]\n    tools: [y]\n",
        "    tools: &t [x]\n",
        "    - x\n",
        "    tools: [x\n",
        "    filesystem_access: 'read:/a/../b'\n",
        "    secrets_access: [PATH]\n",
        "    models: any\n",
        "    tools: [x]\n    tests: [{deny: {tool: x}}]\n",
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_no_mistake_in_one_profile_leaves_another_in_force(broken: str, last: bool) -> None:
    profiles = ["  good: {tools: [x]}\n", f"  broken:\n{broken}"]
    with pytest.raises(AffiantError):
        load_profiles(("agent_configs:\n" + "".join(profiles if last else reversed(profiles))).encode())


SECTIONS = {
    "tools": ("tools: [x]", "tool_not_listed"),
    "filesystem_access": ("filesystem_access: 'read:/w'", "path_not_listed"),
    "network_egress": ("network_egress: 'allowed:a.b.com'", "host_not_listed"),
    "secrets_access": ("secrets_access: [{name: A, hosts: [a.b.com]}]", "secret_not_listed"),
}


def reasons(policy: CompiledPolicy) -> dict[str, str]:
    """What is decided in the plane of each section."""
    to = {"host": "a.b.com", "port": 443, "scheme": "https"}
    return {
        "tools": policy.decide_tool("x").reason,
        "filesystem_access": policy.decide_path("/w/a", "read").reason,
        "network_egress": policy.decide_egress(**to).reason,
        "secrets_access": policy.decide_secret("A", **to).reason,
    }


@pytest.mark.parametrize("written", ["", "{}: []"], ids=["missing", "empty"])
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_that_is_missing_or_empty_gives_nothing_whatever_the_others_give(
    profile_of: Make, section: str, written: str
) -> None:
    whole = ", ".join(text for text, _ in SECTIONS.values())
    assert set(reasons(profile_of(whole).compiled).values()) == {"allowed"}
    others = [text for name, (text, _) in SECTIONS.items() if name != section]
    found = reasons(profile_of(", ".join([*others, written.format(section)])).compiled)
    assert found[section] == SECTIONS[section][1]


@pytest.mark.parametrize(
    ("sections", "near"),
    [
        ("tool: [x]", "tools"),
        ("filesystem_acces: none", "filesystem_access"),
        ("Network_Egress: denied", "network_egress"),
        ("network_egress: [{host: a.b.com, method: [GET]}]", "methods"),
        ("network_egress: [{hosts: a.b.com}]", "host"),
        ("tools: [{nam: x}]", "name"),
        ("secrets_access: [{name: A, host: [a.b.com]}]", "hosts"),
        ("resources: {cpu: 1}", "cpus"),
        ("network_egress: {deny: a.b.com, method: [GET]}", "methods"),
        ("requires_human_approval: {tool: [x]}", "tools"),
        ("filesystem_access: [{paths: /a, mode: read}]", "path"),
        ("tools: [{name: x, arg: {a: any}}]", "args"),
        ("tools: [{name: x, args: {a: {oneof: [b]}}}]", "one_of"),
        ("tools: [{name: x, args: {a: {each: {max_length: 5}}}}]", "max_len"),
        ("models: [{name: m, upstreams: attested}]", "upstream"),
        ("limits: {request: 5}", "requests"),
        ("requires_human_approval: {approver: [x]}", "approvers"),
        ("tests: [{alow: {tool: x}}]", "allow"),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(sections: str, near: str) -> None:
    error = refused(sections)
    assert error.code == "policy.unknown_key"
    assert f"Did you mean {near!r}?" in str(error)


def test_an_unknown_key_of_the_file_is_refused_with_a_suggestion() -> None:
    with pytest.raises(AffiantError, match=r"Did you mean 'agent_configs'\?") as caught:
        load_profiles(b"version: 1\nagent_config: {dev: {tools: [x]}}\n")
    assert (caught.value.code, caught.value.where) == ("policy.unknown_key", "profiles.yaml:2:1")


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ("network_egress: [{host: a.b.com, rate: 60/min}]", "rate"),
    ],
)
def test_a_key_that_nothing_enforces_is_refused_and_never_ignored(sections: str, key: str) -> None:
    error = refused(sections)
    assert error.code == "policy.not_enforced_yet"
    assert repr(key) in error.message
    assert error.where is not None
    column = int(error.where.rpartition(":")[2]) - 1
    assert f"agent_configs: {{dev: {{{sections}}}}}"[column:].startswith(key)


@pytest.mark.parametrize(
    "sections",
    [
        "tools: run_tests",
        "tools: {run_tests: true}",
        "tools: ",
        "tools: [[x]]",
        "tools: ['']",
        "tools: [{deny: x, name: y}]",
        "tools: [{name: x, approval: yes}]",
        "tools: [{name: x, approval: 'true'}]",
        "tools: [{approval: true}]",
        "tools: ['run tests']",
        "tools: ['x ']",
        "tools: ['rеad']",
        "tools: ['*']",
        "tools: ['a/b']",
        "filesystem_access: ",
        "filesystem_access: /workspace",
        "filesystem_access: [none]",
        "filesystem_access: None",
        "filesystem_access: 'write:/a'",
        "filesystem_access: 'read:a'",
        "filesystem_access: 'read:/a/../b'",
        "filesystem_access: 'read:/a,/b'",
        "filesystem_access: 'read:/a:/b'",
        "filesystem_access: 'read:/'",
        "filesystem_access: 'read-write:/proc'",
        "filesystem_access: 'read:/a/*'",
        "filesystem_access: 'READ:/a'",
        "filesystem_access: [{path: /a}]",
        "filesystem_access: [{path: /a, mode: rw}]",
        "filesystem_access: 'read:/a/'",
        "network_egress: ",
        "network_egress: Denied",
        "network_egress: allowed",
        "network_egress: 'allowed:'",
        "network_egress: [denied]",
        "network_egress: 'allowed:*'",
        "network_egress: 'allowed:*.com'",
        "network_egress: 'allowed:*.ok.com'",
        "network_egress: 'allowed:10.0.0.1.'",
        "network_egress: 'allowed:10.0.0.1'",
        "network_egress: 'allowed:localhost'",
        "network_egress: 'allowed:a.b.com:0'",
        "network_egress: 'allowed:a.b.com:'",
        "network_egress: 'allowed:a.b.com:65536'",
        "network_egress: 'allowed:a.b.com:443x'",
        "network_egress: 'allowed:https://a.b.com'",
        "network_egress: a.b.com",
        "network_egress: 'allowed: a.b.com'",
        "network_egress: 'allowed:a.b.com,c.d.com'",
        "network_egress: [{host: a.b.com, port: '443'}]",
        "network_egress: [{host: a.b.com, port: 0}]",
        "network_egress: [{host: a.b.com, port: 0443}]",
        "network_egress: [{host: a.b.com, scheme: ftp}]",
        "network_egress: [{host: a.b.com, methods: []}]",
        "network_egress: [{host: a.b.com, methods: [get]}]",
        "network_egress: [{host: a.b.com, methods: [TRACE]}]",
        "network_egress: [{host: a.b.com, methods: [CONNECT]}]",
        "network_egress: [{host: a.b.com, methods: GET}]",
        "network_egress: [{host: a.b.com, paths: []}]",
        "network_egress: [{host: a.b.com, paths: [v1]}]",
        "network_egress: [{host: a.b.com, paths: ['/a*']}]",
        "network_egress: [{host: a.b.com, tls: none}]",
        "network_egress: [{host: a.b.com, tls: passthrough, paths: ['/**']}]",
        "network_egress: [{host: a.b.com, tls: passthrough, scheme: http}]",
        "network_egress: [{host: a.b.com, address: 0.0.0.0/0}]",
        "network_egress: [{host: a.b.com, address: []}]",
        "network_egress: [{host: '*.b.com', address: 10.0.0.1}]",
        "network_egress: [{host: a.b.com, address: 10.0.0.1}, {host: a.b.com, port: 80}]",
        "network_egress: [{host: gateway.affiant.internal}]",
        "network_egress: [{port: 443}]",
        "secrets_access: ",
        "secrets_access: TOKEN",
        "secrets_access: [to-ken]",
        "secrets_access: [PATH]",
        "secrets_access: [https_proxy]",
        "secrets_access: [OPENAI_API_KEY]",
        "secrets_access: [ANTHROPIC_API_KEY]",
        "secrets_access: [ANTHROPIC_BASE_URL]",
        "secrets_access: [{name: A, hosts: []}]",
        "secrets_access: [{name: A, hosts: ['*.b.com']}]",
        "secrets_access: [{name: A, hosts: [10.0.0.1]}]",
        "secrets_access: [{name: A, ref: 'env:A'}]",
        "secrets_access: [{name: A, ref: 'vault:kv/../sys#x'}]",
        "secrets_access: [{name: A, ref: 'vault:kv/a'}]",
        "secrets_access: [{name: A, ref: 'vault:kv/a%2f#x'}]",
        "secrets_access: [{name: A, inject: {header: Host}}]",
        "secrets_access: [{name: A, inject: {header: Affiant-Proof}}]",
        "secrets_access: [{name: A, inject: {header: X-Range-Key, format: '{}'}}]",
        "secrets_access: [{name: A, inject: {header: X-Key, format: 'x'}}]",
        "secrets_access: [{name: A, inject: {header: X-Key, format: '{}{}'}}]",
        "secrets_access: [{name: A, inject: {header: X-Key, format: '{x}{}'}}]",
        "secrets_access: [{name: A, inject: {header: 'X Key'}}]",
        "secrets_access: [{name: A, inject: {format: '{}'}}]",
        "secrets_access: [{name: A, inject: {}}]",
        "secrets_access: [{name: A, inject: {query: key, basic: git}}]",
        "secrets_access: [{name: A, inject: {query: key, format: '{}'}}]",
        "secrets_access: [{name: A, inject: {basic: git, format: '{}'}}]",
        "secrets_access: [{name: A, inject: {query: 'a&b'}}]",
        "secrets_access: [{name: A, inject: {query: ''}}]",
        "secrets_access: [{name: A, inject: {basic: 'a:b'}}]",
        "secrets_access: [{name: A, inject: {basic: ''}}]",
        "secrets_access: [{name: A, inject: {body: {json: token}}}]",
        "secrets_access: [{name: A, inject: {body: {json: /}}}]",
        "secrets_access: [{name: A, inject: {body: {json: ''}}}]",
        "secrets_access: [{name: A, inject: {body: {json: '/a//b'}}}]",
        "secrets_access: [{name: A, inject: {body: {json: '/a~2'}}}]",
        "secrets_access: [{name: A, inject: {body: {json: '/a b'}}}]",
        "secrets_access: [{name: A, inject: {body: {json: '/1/2/3/4/5/6/7/8/9'}}}]",
        "secrets_access: [{name: A, inject: {body: {json: /a, form: a}}}]",
        "secrets_access: [{name: A, inject: {body: {form: 'a[b]'}}}]",
        "secrets_access: [{name: A, inject: {body: {}}}]",
        "secrets_access: [{name: A, inject: {body: token}}]",
        "secrets_access: [{name: A, inject: {body: {form: a}, query: a}}]",
        "secrets_access: [{name: A, inject: {body: {form: a}, format: '{}'}}]",
        "secrets_access: [{name: A, inject: {exchange: {}}}]",
        "secrets_access: [{name: A, inject: {exchange: []}}]",
        "secrets_access: [{name: A, inject: {sigv4: {}}}]",
        "secrets_access: [{name: A, inject: {sigv4: s3}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {region: eu-central-1}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: S3, region: eu-central-1}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: '*'}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: ''}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3/x, region: eu-central-1}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: [eu-central-1]}}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: auto}, header: X-Key}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: auto}, format: '{}'}}]",
        "secrets_access: [{name: A, inject: {sigv4: {service: s3, region: auto}}, shape: 'AKIA{30}'}]",
        "secrets_access: [A_ACCESS_KEY_ID, {name: A, inject: {sigv4: {service: s3, region: auto}}}]",
        "secrets_access: [A_SECRET_ACCESS_KEY, {name: A, inject: {sigv4: {service: s3, region: auto}}}]",
        "secrets_access: [AWS_REQUEST_CHECKSUM_CALCULATION, {name: A, inject: {sigv4: {service: s3, region: auto}}}]",
        "secrets_access: [{name: A, shape: 'ghp_{8}'}]",
        "secrets_access: [{name: A, shape: ghp}]",
        "secrets_access: [A, {name: A, hosts: [a.b.com]}]",
        "network_egress: [{host: a.b.com, tls: passthrough}], secrets_access: [{name: A, hosts: [a.b.com]}]",
        "models: ",
        "models: any",
        "models: ['']",
        "models: ['a b']",
        "models: [{name: m, upstream: verified}]",
        "models: [{upstream: attested}]",
        "requires_human_approval: yes",
        "requires_human_approval: {}",
        "requires_human_approval: {tools: []}",
        "requires_human_approval: {tools: [x]}",
        "requires_human_approval: {egress: [post]}",
        "requires_human_approval: ",
        "resources: {cpus: 0}",
        "resources: {cpus: 1.5}",
        "resources: {memory: 2}",
        "resources: {memory: 2GB}",
        "resources: {pids: -1}",
        "resources: {memory: 0GiB}",
        "tests: {allow: {tool: x}}",
        "tests: [{allow: {tool: x, read: /a}}]",
        "tests: [{}]",
        "tests: [{allow: {egress: nonsense}}]",
    ],
)
def test_a_wrong_value_is_refused_with_its_place(sections: str) -> None:
    error = refused(sections)
    assert error.code.startswith("policy.")
    assert error.code not in {"policy.yaml", "policy.unknown_key", "policy.not_enforced_yet"}
    assert error.where is not None
    assert error.where.startswith("profiles.yaml:1:")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("- a\n", "policy.wrong_type"),
        ("agents: {}\n", "policy.unknown_key"),
        ("version: 2\n", "policy.value"),
        ("version: '1'\n", "policy.wrong_type"),
        ("version: 1.0\n", "policy.wrong_type"),
        ("agent_configs: []\n", "policy.wrong_type"),
        ("agent_configs: {dev: []}\n", "policy.wrong_type"),
        ("agent_configs: {dev: none}\n", "policy.wrong_type"),
        ("agent_configs: {'a b': {}}\n", "policy.name"),
        ("agent_configs: {../x: {}}\n", "policy.name"),
        ("agent_configs: {'': {}}\n", "policy.name"),
        ("floor: ../floor.yaml\n", "policy.name"),
        ("floor: /etc/floor.yaml\n", "policy.name"),
        ("floor: floor.yaml\n", "policy.floor"),
    ],
)
def test_a_wrong_document_is_refused(text: str, code: str) -> None:
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode())
    assert caught.value.code == code


def test_the_long_form_says_everything_it_can(profile_of: Make) -> None:
    profile = profile_of(
        "tools: [a, {name: b, approval: true}, {deny: c}],"
        "filesystem_access: ['read-only:/a', {path: /a/b, mode: none}],"
        "network_egress: [{host: API.b.com., methods: [POST, GET], paths: ['/v1/**']}, 'allowed:c.b.com:8443',"
        " {host: '*.d.com', scheme: http}, {host: e.com, tls: passthrough}, {deny: x.b.com, port: 443},"
        " {host: db, address: '10.0.0.0/24, 10.1.0.1'}],"
        "secrets_access: [{name: A, ref: 'vault:kv/team/a#token', hosts: ['api.b.com', 'c.b.com:8443'],"
        " inject: {header: X-Api-Key, format: 'k {}'}, shape: 'ghp_{36}'}],"
        "models: [m, {name: n/o, upstream: attested}], resources: {cpus: 2, memory: 2GiB, disk: 512MiB, pids: 256}"
    )
    assert set(profile.policy.tools) == {ToolRule("a"), ToolRule("b", approval=True), ToolDenial("c")}
    assert set(profile.policy.filesystem) == {
        PathGrant("/a", PathMode.READ),
        PathGrant("/a/b", PathMode.NONE),
    }
    assert set(profile.policy.egress) == {
        EgressRule("api.b.com", methods=("GET", "POST"), paths=("/v1/**",)),
        EgressRule("c.b.com", 8443),
        EgressRule("*.d.com", 80, Scheme.HTTP),
        EgressRule("e.com", tls=TLSMode.PASSTHROUGH),
        EgressDenial("x.b.com", 443),
        EgressRule("db", address=("10.0.0.0/24", "10.1.0.1/32")),
    }
    assert profile.policy.secrets == (
        SecretGrant(
            "A",
            (Endpoint("api.b.com", 443), Endpoint("c.b.com", 8443)),
            "vault:kv/team/a#token",
            Injection("x-api-key", "k {}"),
            "ghp_{36}",
        ),
    )
    assert profile.policy.models == (ModelRule("m"), ModelRule("n/o", attested=True))
    assert profile.policy.resources == Resources(2, 2 * 2**30, 512 * 2**20, 256)


@pytest.mark.parametrize("text", ["no", "on", "22:22", "1e3", "0o17", "2024-01-01", "null"])
def test_names_that_yaml_would_change_stay_names(profile_of: Make, text: str) -> None:
    if ":" in text:
        assert refused(f"tools: [{text}]").code == "policy.name"
    else:
        assert profile_of(f"tools: [{text}]").policy.tools == (ToolRule(text),)
        assert profile_of(f"models: [{text}]").policy.models == (ModelRule(text),)


@pytest.mark.parametrize("text", ["no", "on", "y", "null", "true"])
def test_an_agent_whose_name_yaml_would_change_keeps_it(text: str) -> None:
    assert list(load_profiles(f"agent_configs: {{{text}: {{tools: [x]}}}}".encode()).profiles) == [text]


def test_a_short_secret_is_bound_to_hosts_that_are_named_inspected_and_https(profile_of: Make) -> None:
    profile = profile_of(
        "secrets_access: [A], network_egress: [{host: a.b.com}, {host: '*.b.com'}, {host: p.b.com, scheme: http},"
        " {host: t.c.com, tls: passthrough}, {host: a.b.com, port: 8443}, {deny: z.b.com}]"
    )
    assert profile.policy.secrets[0].hosts == (Endpoint("a.b.com", 443), Endpoint("a.b.com", 8443))


def test_approval_named_beside_a_tool_or_apart_means_the_same(profile_of: Make) -> None:
    apart = profile_of("tools: [a, b], requires_human_approval: {tools: [b]}")
    beside = profile_of("tools: [a, {name: b, approval: true}]")
    assert apart.digest == beside.digest
    assert refused("tools: [apply], requires_human_approval: {tools: [aply]}").hint == "Did you mean 'apply'?"


def test_rules_know_where_they_were_written(seed: bytes) -> None:
    places = load_profiles(seed, source="seed.yaml").profile("deployment_agent").places
    assert str(places["tools/1"]) == "seed.yaml:14:13"
    assert str(places["egress/0"]) == "seed.yaml:16:21"


FLOOR = b"""
tools: [{deny: kubectl_delete}]
filesystem_access: [{path: /workspace/.git, mode: none}]
network_egress: [{deny: uploads.b.com}]
requires_human_approval: {egress: [DELETE]}
"""


def test_a_floor_only_takes_away_and_its_digest_is_part_of_ours(profile_of: Make) -> None:
    sections = "tools: [kubectl_delete, x], filesystem_access: 'read-write:/workspace',"
    sections += "network_egress: ['allowed:uploads.b.com', 'allowed:a.b.com']"
    free, bound = profile_of(sections).compiled, profile_of(sections, FLOOR).compiled
    assert free.decide_tool("kubectl_delete").allowed
    assert bound.decide_tool("kubectl_delete").reason == "tool_denied"
    assert bound.decide_tool("x").allowed
    assert bound.decide_path("/workspace/.git/hooks/x", "read").reason == "path_carved_out"
    assert bound.decide_egress(host="uploads.b.com", port=443, scheme="https").reason == "egress_denied"
    read, delete = (
        bound.decide_egress(host="a.b.com", port=443, scheme="https", method=method, target="/")
        for method in ("GET", "DELETE")
    )
    assert read.allowed
    assert delete.reason == "approval_no_approver"
    assert bound.policy.floor is not None
    assert profile_of("", FLOOR).digest != profile_of("", FLOOR.replace(b"uploads", b"upload")).digest
    assert profile_of("", FLOOR).digest == profile_of("", b"# a comment\n" + FLOOR).digest


@pytest.mark.parametrize(
    "floor",
    [
        b"",
        b"tools: []",
        b"tools: [x]",
        b"filesystem_access: 'read:/a'",
        b"network_egress: 'allowed:a.b.com'",
        b"network_egress: denied",
        b"requires_human_approval: false",
        b"requires_human_approval: {tools: [x]}",
    ],
)
def test_a_floor_that_allows_or_says_nothing_is_refused(floor: bytes) -> None:
    assert refused("", floor).code == "policy.floor"


@pytest.mark.parametrize("floor", [b"models: []", b"agent_configs: {}", b"secrets_access: []"])
def test_a_floor_has_sections_of_denials_only(floor: bytes) -> None:
    error = refused("", floor)
    assert (error.code, error.where) == ("policy.unknown_key", "floor.yaml:1:1")


def test_a_floor_is_named_in_the_file(seed: bytes) -> None:
    assert floor_file(seed) is None
    named = b"floor: org-floor.yaml\n" + seed
    assert floor_file(named) == "org-floor.yaml"
    assert load_profiles(named, floor=FLOOR).profile("log_analyzer").compiled.policy.floor is not None


PASTED = [
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "sk-proj-abcDEF0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "hunter2!",
]


@pytest.mark.parametrize("value", PASTED)
@pytest.mark.parametrize(
    "sections",
    [
        "secrets_access: ['{}']",
        "secrets_access: '{}'",
        "secrets_access: [{{name: '{}'}}]",
        "secrets_access: [{{name: A, ref: '{}'}}]",
        "secrets_access: [{{name: A, hosts: '{}'}}]",
        "secrets_access: [{{name: A, shape: '{}'}}]",
        "secrets_access: [{{name: A, inject: {{header: X-Key, format: '{}'}}}}]",
        "secrets_access: [{{name: A, inject: {{exchange: '{}'}}}}]",
        "secrets_access: [{{name: A, inject: {{exchange: {{grant: '{}', url: 'https://i.com/t'}}}}}}]",
        "secrets_access: [{{name: A, inject: {{exchange: {{grant: client_credentials, client_id: c, url: '{}'}}}}}}]",
        "secrets_access: [{{name: A, inject: {{exchange: {{grant: client_credentials, client_secret: '{}'}}}}}}]",
    ],
)
def test_a_value_pasted_in_a_names_place_is_refused_and_not_repeated(sections: str, value: str) -> None:
    error = refused(sections.format(value))
    shown = str(error) + repr(error) + str(error.to_json())
    assert value not in shown
    assert value[4:16] not in shown


def test_a_short_secret_goes_to_few_hosts_or_is_refused() -> None:
    hosts = ", ".join(f"'allowed:h{n}.b.com'" for n in range(65))
    error = refused(f"network_egress: [{hosts}], secrets_access: [A]")
    assert error.code == "policy.value"
    assert "Name the hosts that need it" in str(error)


def test_no_section_grows_beyond_what_a_person_reviews() -> None:
    assert refused("tools: [" + ", ".join(f"t{n}" for n in range(1025)) + "]").code == "policy.value"
    paths = ", ".join(f"/{n}" for n in range(1025))
    assert refused(f"network_egress: [{{host: a.b.com, paths: [{paths}]}}]").code == "policy.value"


def test_inline_tests_are_held_against_the_profile_and_change_no_digest(profile_of: Make) -> None:
    sections = "tools: [a, {name: b, approval: true}], network_egress: [{host: a.b.com, methods: [GET]}],"
    sections += "filesystem_access: 'read:/w', models: [m], secrets_access: [S]"
    tests = (
        "tests: [{allow: {tool: a}}, {allow: {tool: b}}, {deny: {tool: c}}, {allow: {egress: 'GET https://a.b.com/'}},"
        " {deny: {egress: 'POST https://a.b.com/'}}, {deny: {egress: 'GET https://10.0.0.1/'}}, {deny: {write: /w/x}},"
        " {allow: {read: /w/x}}, {allow: {model: m}}, {deny: {model: n}},"
        " {allow: {secret: S@a.b.com}}, {deny: {secret: S@c.b.com}}]"
    )
    assert profile_of(f"{sections}, {tests}").digest == profile_of(sections).digest


@pytest.mark.parametrize(
    "test",
    [
        "{allow: {tool: c}}",
        "{deny: {tool: a}}",
        "{deny: {read: /w}}",
        "{allow: {egress: 'GET https://a.b.com'}}",
    ],
)
def test_an_inline_test_that_does_not_hold_refuses_the_file(test: str) -> None:
    assert refused(f"tools: [a], filesystem_access: 'read:/w', tests: [{test}]").code == "policy.test_failed"


def test_no_profile_of_ours_stands_in_the_repository_without_loading() -> None:
    folder = Path(__file__).parents[3] / "policy" / "profiles"
    assert all(load_profiles(path.read_bytes()).profiles for path in folder.glob("*.yaml"))
