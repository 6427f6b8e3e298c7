"""``affiant policy can`` as reviewers call it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

FILE = """\
agent_configs:
  deployer:
    tools: [run_terraform, {name: kubectl_apply, approval: true}, rm, {deny: rm}]
    filesystem_access:
      - read:/workspace
      - read-write:/workspace/infra
      - none:/workspace/infra/state
    network_egress:
      - {host: api.cloud.com, methods: [GET, POST], paths: ["/v1/acme/**", /health]}
      - {deny: api.cloud.com, paths: ["/v1/acme/keys/**"]}
      - {host: "*.corp.com"}
      - {deny: secret.corp.com}
      - {host: db.cloud.com, port: 5432, tls: passthrough, address: 10.1.0.0/16}
    secrets_access:
      - {name: DEPLOY_KEY, hosts: [api.cloud.com]}
      - {name: API_KEY, hosts: [api.cloud.com, git.other.com], inject: {header: X-Key, format: "k {}"}}
    models: [small, {name: big, upstream: attested}]
    resources: {cpus: 2, memory: 2GiB}
  reader:
    tools: [read]
    filesystem_access: read:/workspace/infra
    network_egress: allowed:git.corp.com
"""
HOSTILE = """\
agent_configs:
  a_b_:
    tools: [__x__]
    filesystem_access: ["read:/w/a&b;(c)%d#1@me  x"]
    network_egress:
      - {host: www.a.com, paths: ["/%22%5D%7C%3Cb%3E%60/@x/**"]}
    secrets_access: [{name: K, hosts: [www.a.com], inject: {header: x-k, format: '"];"<img src=x>|`{}`#1'}}]
"""


@pytest.fixture
def can(tmp_path: Path):
    def run(text: str, *options: str, name: str = "p.yaml") -> Result:
        (tmp_path / name).write_text(text)
        return CliRunner().invoke(cli, ["policy", "can", str(tmp_path / name), *options])

    return run


def test_the_text_says_all_that_one_agent_may_do_and_where_it_is_written(can):
    done = can(FILE, "deployer")
    assert done.exit_code == 0
    assert done.output.splitlines()[:-3] == [
        "deployer  [p.yaml:2:3]",
        "  tools",
        "    kubectl_apply: yes, after approval  [tools/2 p.yaml:3:28]",
        "    rm: never  [tools/3 p.yaml:3:71]",
        "    run_terraform: yes  [tools/1 p.yaml:3:13]",
        "  models",
        "    big: yes, at an attested upstream only  [models/1 p.yaml:17:21]",
        "    small: yes  [models/0 p.yaml:17:14]",
        "  files",
        "    /workspace: read, and all below but 1 path  [filesystem/1 p.yaml:5:9]",
        "    /workspace/infra: read-write, and all below but 1 path  [filesystem/2 p.yaml:6:9]",
        "    /workspace/infra/state: never  [filesystem/0 p.yaml:7:9]",
        "  hosts",
        "    https://*.corp.com:443",
        "      other than secret.corp.com",
        "      may do anything that this host's API allows",
        "      TLS inspected; at any public address",
        "      any method, any path  [egress/1 p.yaml:11:9]",
        "    https://api.cloud.com:443",
        "      TLS inspected; at any public address",
        "      GET, POST /health, /v1/acme/** but /v1/acme/keys/**  [egress/2 p.yaml:9:9]",
        "      denials here  [egress/3 p.yaml:10:9]",
        "    https://db.cloud.com:5432",
        "      may do anything that this host's API allows",
        "      TLS passed through: requests are not seen, the host is not checked; at 10.1.0.0/16",
        "      any method, any path  [egress/0 p.yaml:13:9]",
        "  secrets",
        "    API_KEY",
        "      in header x-key, as 'k {}'  [secrets/0 p.yaml:16:9]",
        "      to api.cloud.com:443  [egress/2 p.yaml:9:9]",
        "      not to git.other.com:443: the secret is not bound to this host and port",
        "    DEPLOY_KEY",
        "      in header authorization, as the whole credential (Bearer, Basic or token)",
        "          [secrets/1 p.yaml:15:9]",
        "      to api.cloud.com:443  [egress/2 p.yaml:9:9]",
        "  approval: no approver is named, so it is denied",
        "  limits of a session: none",
        "  bounds: cpus 2; memory 2GiB; disk default; pids default",
    ]
    assert "where no approver is named, it is denied" in done.output


def test_what_a_tool_may_be_called_with_is_said(can):
    args = "{ns: {one_of: [dev, prod]}, file: {under: /w}, n: {min: 1, max: 5, optional: true}}"
    tools = f"[{{name: t, args: {args}}}, {{name: u, args: {{}}}}]"
    text = f"agent_configs: {{a: {{tools: {tools}, filesystem_access: read:/w}}}}"
    output = " ".join(can(text).output.split())
    words = "t: yes with file: /w or below, which may be read; n (optional): at least 1 and at most 5; ns: one of "
    assert f'{words}"dev", "prod" [' in output
    assert "u: yes with no arguments [" in output
    tool = json.loads(can(text, "--json").output)["agents"][0]["tools"][0]
    assert tool["arguments"]["file"] == {"is": {"under": "/w", "write": False}, "optional": False}
    assert tool["sample"] == 'tool:t {"file": "/w", "ns": "dev"}'
    assert "or below, which may be read" in can(text, "--markdown").output
    assert "or below, which may be read" in can(text, "--graph", "dot").output


def test_an_absent_list_of_models_is_any_and_an_empty_one_is_none(can):
    assert "  models\n    any model that the gateway serves: yes\n" in can(FILE, "reader").output
    assert "  models: none\n" in can("agent_configs: {a: {models: []}}").output


def test_a_host_that_methods_or_paths_narrow_is_not_called_unrestricted(can):
    wide = "agent_configs: {a: {network_egress: [{host: a.com}, {deny: a.com, methods: [DELETE]}]}}"
    assert "may do anything that this host's API allows, except what a rule denies" in can(wide).output
    for narrow in ("methods: [GET]", "paths: ['/v1/**']"):
        assert (
            "may do anything" not in can(wide.replace("{host: a.com}", f"{{host: a.com, {narrow}}}")).output
        )


def test_the_text_fits_into_100_columns(can):
    long = "agent_configs: {a: {network_egress: [{host: a.com, paths: [" + ", ".join(
        f"/v1/projects/number-{number}/**" for number in range(40)
    )
    output = can(long + "]}]}}").output
    assert "and 32 more" in output
    lines = [line for line in output.splitlines() if "policy sha384:" not in line]
    assert max(map(len, lines)) <= 100


def test_the_document_leaves_nothing_out(can):
    document = json.loads(can(FILE, "--json").output)
    deployer, reader = document["agents"]
    assert [tool["name"] for tool in deployer["tools"]] == ["kubectl_apply", "run_terraform"]
    assert deployer["tools"][0]["effect"] == "ask"
    assert deployer["denied_tools"][0]["rules"] == [{"id": "tools/3", "where": "p.yaml:3:71"}]
    hosts = {(host["host"], host["port"]): host for host in deployer["hosts"]}
    narrow, wide = hosts["api.cloud.com", 443], hosts["*.corp.com", 443]
    assert (narrow["unrestricted"], narrow["text"]) == (False, "")
    (group,) = narrow["requests"]
    assert (group["methods"], group["paths"]) == (["GET", "POST"], ["/health", "/v1/acme/**"])
    assert group["except"] == [
        {"path": "/v1/acme/keys/**", "rules": [{"id": "egress/3", "where": "p.yaml:10:9"}]}
    ]
    assert (wide["labels"], wide["other_than"]) == ("one", ["secret.corp.com"])
    assert wide["text"] == "may do anything that this host's API allows"
    assert hosts["db.cloud.com", 5432]["addresses"] == ["10.1.0.0/16"]
    api_key, deploy_key = deployer["secrets"]
    assert (api_key["place"], api_key["format"]) == ("header:x-key", "k {}")
    assert [vain["reason"] for vain in api_key["unusable"]] == ["secret_not_bound"]
    assert [(sink["host"], sink["port"]) for sink in deploy_key["sinks"]] == [("api.cloud.com", 443)]
    assert deployer["bounds"] == {"cpus": 2, "memory": 2**31, "disk": None, "pids": None}
    assert (reader["any_model"], deployer["any_model"]) == (True, False)


def test_the_table_sets_agents_side_by_side_and_sees_through_wildcards_and_folders(can):
    output = can(FILE, "--markdown").output
    assert "| tools | deployer | reader |\n|---|---|---|\n" in output
    assert (
        "| /workspace/infra/state | never<br>filesystem/0 at p.yaml:7:9 | read, and all below<br>filesystem/0 at"
        in output
    )
    (row,) = [line for line in output.splitlines() if "git.corp.com:443" in line]
    assert (
        "| as https:<!-- -->//\\*.corp.com:443<br>egress/1 at p.yaml:11:9 "
        "| may do anything that this host's API allows<br>" in row
    )
    assert "| any model that the gateway serves | no | yes |" in output


def test_more_agents_than_fit_beside_each_other_make_another_table(can):
    text = "agent_configs: {" + ", ".join(f"a{number}: {{tools: [t]}}" for number in range(7)) + "}"
    output = can(text, "--markdown").output
    assert "| tools | a0 | a1 | a2 | a3 | a4 |" in output
    assert "| tools | a5 | a6 |" in output


def test_the_graph_leads_from_agents_and_secrets_to_hosts(can):
    output = can(FILE, "--graph", "dot").output
    numbers = {label: number for number, label in re.findall(r'(n\d+) \[shape=\w+, label="(.*)"\];', output)}
    for start, end in (
        ("agent deployer", "tool run_terraform"),
        ("agent deployer", "file /workspace"),
        ("agent deployer", "https://*.corp.com:443"),
        ("secret DEPLOY_KEY", "https://api.cloud.com:443"),
    ):
        assert f"{numbers[start]} -> {numbers[end]} [" in output
    assert re.search(
        rf"{numbers['agent deployer']} -> {numbers['tool kubectl_apply']} .*style=dashed", output
    )
    assert "rm" not in output.replace("run_terraform", "")
    mermaid = can(FILE, "--graph", "mermaid").output
    assert mermaid.startswith("flowchart LR\n")
    assert mermaid.count("-->") + mermaid.count("-.->") == output.count("->")


def test_the_graph_shows_limits_where_they_count(can):
    text = """\
agent_configs:
  dev:
    tools: [{name: apply, rate: 10/min}, {name: get, args: {n: {max: 3}}, rate: 5/s}]
    network_egress:
      - {host: a.b.com, methods: [GET], limits: {requests: 60/min}}
      - {host: c.b.com, limits: {bytes_out: 1MiB}}
    secrets_access: [{name: KEY, hosts: [a.b.com], max_uses: 7}]
    limits: {tool_calls: 500, wall: 2h}
  free: {tools: [apply]}
"""
    dot = can(text, "--graph", "dot").output
    labels = re.findall(r'label="([^"]*)"', dot)
    for label in (
        "agent dev (tool_calls at most 500 tool calls in a session; wall at most 2h)",
        "agent free",
        "at most 10 calls a minute",
        "with n: at most 3, at most 5 calls a second",
    ):
        assert label in labels
    for words in (
        "; GET any path, at most 60 requests a minute",
        ", at most 7 requests in a session",
        ", at most 1MiB in a session",
    ):
        assert any(label.endswith(words) for label in labels)
    mermaid = can(text, "--graph", "mermaid").output
    assert "at most 10 calls a minute" in mermaid
    assert "wall at most 2h" in mermaid


def test_hostile_names_are_no_markup_in_a_table(can):
    done = can(HOSTILE, "--markdown", name="p|`<b>.yaml")
    assert done.exit_code == 0
    output = done.output
    cells = re.sub(r"<br>|<!-- -->", "", output.split("Policy digest")[0])
    assert re.search(r"(?<!\\)[<>`]", cells) is None
    assert "a\\_b\\_" in cells
    assert "@me" not in output  # a comment keeps a forge from mentioning somebody
    rows = [line for line in output.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_hostile_names_are_no_markup_in_a_graph(can):
    dot = can(HOSTILE, "--graph", "dot", name='p"];x.yaml').output
    quoted = r'"(?:[^"\\]|\\.)*"'
    assert dot.count("->") == 5
    for line in dot.splitlines()[2:-1]:
        assert re.fullmatch(
            rf"  n\d+( -> n\d+)? \[(shape=\w+, )?label={quoted}(, tooltip={quoted})?\];", line
        )
    mermaid = can(HOSTILE, "--graph", "mermaid").output
    assert mermaid.count("-->") == 5
    for line in mermaid.splitlines()[1:]:
        labels = re.findall(r'"([^"]*)"', line)
        assert line.count('"') == 2 * len(labels)
        assert all(re.fullmatch(r"(?:[A-Za-z0-9 ._/:,-]|#\d+;)*", label) for label in labels)


def test_a_path_with_spaces_cannot_pass_for_more_than_a_path(can):
    text = "agent_configs: {a: {filesystem_access: ['read:/w and below but never x']}}"
    assert "    '/w and below but never x': read, and all below  [" in can(text).output


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["deployr"], 1, "policy.unknown_agent"),
        (["--json", "--markdown"], 2, "choose one"),
        (["--json", "--graph", "dot"], 2, "choose one"),
        (["--graph", "svg"], 2, "'svg' is not one of"),
    ],
)
def test_exit_codes_are_stable(can, options, code, text):
    done = can(FILE, *options)
    assert done.exit_code == code
    assert text in done.output


def test_a_file_that_is_refused_is_never_listed(can):
    done = can(FILE.replace("tools", "tolos"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "policy.unknown_key" in done.output


def test_a_file_without_profiles_lets_nobody_do_anything(can):
    assert can("").output == "The file has no profiles: no agent may do anything.\n"
    assert json.loads(can("", "--json").output)["agents"] == []


def test_a_share_of_an_upstream_is_said_of_every_agent_where_one_has_its_own(can) -> None:
    text = "agent_configs:\n  fast: {tools: [a], weight: 3, priority: interactive}\n  plain: {tools: [a]}\n"
    table = can(text, "--markdown").output
    row = next(line for line in table.splitlines() if "interactive" in line)
    assert "normal" in row
    assert "weight 1" in row
    assert "none" not in row
    alone = can("agent_configs: {plain: {tools: [a]}}", "--markdown").output
    assert "in the queue" not in alone


def test_what_needs_no_approval_says_so_in_the_table(can) -> None:
    text = "agent_configs: {a: {tools: [x], requires_human_approval: true}, b: {tools: [x]}}"
    lines = can(text, "--markdown").output.splitlines()
    row = next(line for line in lines if "needed for every tool" in line)
    assert row.endswith("| not needed |")
