"""``affiant policy who-can`` as reviewers and CI call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

FILE = """\
agent_configs:
  deployer:
    tools: [run_terraform, {name: kubectl_apply, approval: true}]
    filesystem_access: [read-write:/workspace, none:/workspace/state]
    network_egress: [{host: api.cloud.com, methods: [GET], paths: ["/v1/**"]}, {deny: api.cloud.com, paths: [/v1/x]}]
    secrets_access: [{name: KEY, hosts: [api.cloud.com, git.other.com]}]
    models: [{name: big, upstream: attested}]
  reader:
    filesystem_access: read:/workspace
    network_egress: [{host: api.cloud.com, tls: passthrough}]
"""


@pytest.fixture
def who_can(tmp_path: Path):
    def run(request: str, *options: str, text: str = FILE) -> Result:
        (tmp_path / "p.yaml").write_text(text)
        return CliRunner().invoke(cli, ["policy", "who-can", str(tmp_path / "p.yaml"), request, *options])

    return run


@pytest.mark.parametrize(
    ("request_text", "code", "lines"),
    [
        (
            "tool:run_terraform",
            0,
            [
                "1 of 2 agents may: tool:run_terraform",
                "  deployer: may  [tools/0 p.yaml:3:13]",
                "  reader: may not: the profile does not list this tool (tool_not_listed)",
            ],
        ),
        (
            "write:/workspace/a",
            0,
            [
                "1 of 2 agents may: write:/workspace/a",
                "  deployer: may  [filesystem/1 p.yaml:4:25]",
                "  reader: may not: the path may be read, not written (path_read_only); nearest rule",
                "      [filesystem/0 p.yaml:9:24]",
            ],
        ),
        (
            "model:big",
            0,
            [
                "2 of 2 agents may: model:big",
                "  deployer: may, only at an attested upstream  [models/0 p.yaml:7:14]",
                "  reader: may",
            ],
        ),
        (
            "DELETE https://api.cloud.com/v1/y",
            0,
            [
                "1 of 2 agents may: DELETE https://api.cloud.com/v1/y",
                "  deployer: may not: no rule covers this method at the host (method_not_listed); nearest rule",
                "      [egress/0 p.yaml:5:22]",
                "  reader: may  [egress/0 p.yaml:10:22]",
            ],
        ),
        (
            "secret:KEY@git.other.com",
            1,
            [
                "0 of 2 agents may: secret:KEY@git.other.com",
                "  deployer: may not: the secret is not bound to this host and port (secret_not_bound); nearest rule",
                "      [secrets/0 p.yaml:6:22]",
                "  reader: may not: the profile does not list this secret (secret_not_listed)",
            ],
        ),
    ],
)
def test_every_agent_has_its_rule_or_the_reason_why_not(who_can, request_text, code, lines):
    done = who_can(request_text)
    assert done.exit_code == code
    shown = done.output.splitlines()
    assert done.output.split() == " ".join(lines).split()
    assert max(map(len, shown)) <= 100


def test_what_needs_approval_counts_and_is_shown_as_such(who_can):
    done = who_can("tool:kubectl_apply")
    assert done.exit_code == 0
    assert "  deployer: may after approval  [tools/1 p.yaml:3:28]\n" in done.output
    assert "where no approver is named, it is denied" in done.output


def test_a_denial_is_named_where_it_wins(who_can):
    output = who_can("GET https://api.cloud.com/v1/x").output
    assert "(egress_denied); by\n" in output
    assert "[egress/1 p.yaml:5:80]" in output


def test_a_secret_that_no_request_can_carry_can_be_used_by_nobody(who_can):
    carried = FILE.replace(
        "{deny: api.cloud.com, paths: [/v1/x]}", "{deny: api.cloud.com, paths: ['/v1/**']}"
    )
    assert who_can("secret:KEY@api.cloud.com").exit_code == 0
    done = who_can("secret:KEY@api.cloud.com", text=carried)
    assert done.exit_code == 1
    assert "(egress_denied)" in done.output


def test_the_document_names_rules_nearest_rule_and_digest(who_can):
    document = json.loads(who_can("read:/workspace/state/x", "--json").output)
    deployer, reader = document["agents"]
    assert (deployer["may"], deployer["reason"]) == (False, "path_carved_out")
    assert deployer["rules"] == [{"id": "filesystem/0", "where": "p.yaml:4:48"}]
    assert (reader["may"], reader["effect"]) == (True, "allow")
    assert reader["policy_digest"].startswith("sha384:")
    near = json.loads(who_can("GET https://api.cloud.com/v2", "--json").output)["agents"][0]
    assert near["nearest"] == {"id": "egress/0", "where": "p.yaml:5:22"}


@pytest.mark.parametrize("request_text", ["nonsense", "GET a.b.com", "secret:A"])
def test_what_is_no_request_is_refused(who_can, request_text):
    done = who_can(request_text)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "[policy.request]" in done.output


def test_a_hostile_request_is_shown_escaped_on_one_line(who_can):
    done = who_can("tool:\x1b[2J\u202e\n2 of 2 agents may")
    assert done.exit_code == 1
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output
    assert len(done.output.splitlines()) == 3


def test_without_profiles_nobody_may(who_can):
    done = who_can("tool:x", text="")
    assert (done.exit_code, done.output) == (1, "0 of 0 agents may: tool:x\n")
