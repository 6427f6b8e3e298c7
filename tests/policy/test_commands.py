"""``affiant policy``: what it prints and how it exits."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli
from affiant.policy.commands import policy
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.loading.load import load_profiles
from affiant.policy.normal_form.digest import policy_digest


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["policy", *map(str, arguments)])


@pytest.mark.parametrize("name", sorted(policy.commands))
def test_every_command_helps_with_examples_and_its_exit_codes(name: str) -> None:
    shown = run(name, "--help").stdout
    assert f"affiant policy {name} " in shown.partition("Examples:")[2]
    codes = " ".join(shown.partition("Exit codes: ")[2].partition("Examples:")[0].split())
    assert codes.startswith("0 ")
    assert "2 the command line" in codes
    assert "--json" in shown.partition("Options:")[2]


def test_lint_passes_the_seed_and_says_what_a_reviewer_should_know(seed_path: Path) -> None:
    result = run("lint", seed_path)
    assert result.exit_code == 0
    assert "seed-profiles.yaml:12:22: warning: code_implementer: GITHUB_TOKEN" in result.stdout
    assert "the agent may do anything that this host's API allows" in result.stdout
    assert str(seed_path.parent) not in result.stdout
    assert run("lint", seed_path, "--strict").exit_code == 1


def test_lint_speaks_json(seed_path: Path) -> None:
    found = json.loads(run("lint", seed_path, "--json").stdout)
    assert found["ok"] is True
    assert found["agents"] == ["code_implementer", "deployment_agent", "log_analyzer"]
    assert {warning["code"] for warning in found["warnings"]} == {
        "approval_missing",
        "approval_no_approver",
        "host_unrestricted",
        "rw_hooks",
        "secret_no_sink",
    }


def test_lint_refuses_with_a_code_and_a_place(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("agent_configs:\n  dev:\n    tool: [x]\n")
    result = run("lint", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("affiant: refused: p.yaml:3:5: unknown key 'tool'")
    assert result.stderr.splitlines()[0].endswith("[policy.unknown_key]")
    assert result.stderr.splitlines()[1:] == ["  3 |     tool: [***", "    |     ^"]
    found = json.loads(run("lint", file, "--json").stdout)
    assert found["refused"] | {} == {
        "code": "policy.unknown_key",
        "message": "unknown key 'tool' in a profile",
        "where": "p.yaml:3:5",
        "hint": "Did you mean 'tools'?",
    }


def test_digest_prints_each_and_one(seed_path: Path, seed: bytes) -> None:
    profiles = load_profiles(seed)
    lines = run("digest", seed_path).stdout.splitlines()
    assert lines[0] == f"{profiles.profile('log_analyzer').digest}  log_analyzer"
    assert lines[-1] == f"{profiles.source_digest}  (bytes of the file)"
    assert run("digest", seed_path, "log_analyzer").stdout.strip() == profiles.profile("log_analyzer").digest
    assert json.loads(run("digest", seed_path, "--json").stdout)["digest"] == profiles.digest
    assert json.loads(run("digest", seed_path, "log_analyzer", "--json").stdout)["agent"] == "log_analyzer"


@pytest.mark.parametrize(
    ("agent", "request_text", "code", "text"),
    [
        ("code_implementer", "tool:run_tests", 0, "rule tools/1 at seed-profiles.yaml:9:40"),
        ("code_implementer", "tool:rm", 1, "[tool_not_listed]"),
        ("code_implementer", "write:/workspace/a", 0, "[allowed]"),
        ("code_implementer", "write:/workspace/../a", 1, "[path_not_canonical]"),
        (
            "code_implementer",
            "secret:GITHUB_TOKEN@github.com",
            1,
            "nearest secrets/0 at seed-profiles.yaml:12:22",
        ),
        ("log_analyzer", "write:/var/log/x", 1, "[path_read_only]"),
        ("log_analyzer", "GET https://example.com/", 1, "[host_not_listed]"),
        ("deployment_agent", "POST https://api.cloud-provider.com/v1", 1, "[approval_no_approver]"),
        ("deployment_agent", "connect:api.cloud-provider.com:22", 1, "[port_not_listed]"),
        ("deployment_agent", "model:any", 0, "[allowed]"),
    ],
)
def test_explain_names_the_decision_the_rule_and_the_line(
    seed_path: Path, agent: str, request_text: str, code: int, text: str
) -> None:
    result = run("explain", seed_path, agent, request_text)
    assert result.exit_code == code
    assert text in result.stdout
    found = json.loads(run("explain", seed_path, agent, request_text, "--json").stdout)
    assert found["effect"] == ("deny" if code else "allow")


def test_explain_shows_the_limits_of_what_needs_approval(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    key = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    file.write_text(
        "agent_configs:\n  dev:\n    network_egress: [{host: api.example.com, limits: {requests: 60/min}}]\n"
        f"    requires_human_approval: {{everything: true, approvers: [{key}]}}\n"
    )
    found = json.loads(run("explain", file, "dev", "GET https://api.example.com/", "--json").stdout)
    assert found["effect"] == "ask"
    assert found["limits"] == [["egress/0", "at most 60 requests a minute"]]


def test_explain_shows_hostile_requests_escaped(seed_path: Path) -> None:
    result = run("explain", seed_path, "log_analyzer", "tool:\x1b[2J\u202e")
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout


def test_show_prints_the_bytes_that_are_digested(seed_path: Path) -> None:
    result = run("show", seed_path, "deployment_agent", "--json")
    digest = run("digest", seed_path, "deployment_agent").stdout.strip()
    assert policy_digest(result.stdout_bytes) == digest
    assert parse_normal_form(result.stdout_bytes).digest == digest
    readable = run("show", seed_path, "deployment_agent").stdout
    assert digest in readable
    assert "# seed-profiles.yaml:16:21" in readable


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["lint"], 2, "Missing argument"),
        (["lint", "/nowhere/p.yaml"], 1, "[policy.file]"),
        (["explain", "SEED", "nobody", "tool:x"], 1, "[policy.unknown_agent]"),
        (["explain", "SEED", "log_analyzer", "nonsense"], 1, "[policy.request]"),
        (["show", "SEED", "log_analyser"], 1, "Did you mean 'log_analyzer'?"),
        (["digest", "SEED", "--jsn"], 2, "No such option"),
    ],
)
def test_refusals_have_stable_exit_codes(seed_path: Path, arguments: list[str], code: int, text: str) -> None:
    result = run(*[str(seed_path) if argument == "SEED" else argument for argument in arguments])
    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.output


def test_every_command_shows_examples_and_has_json() -> None:
    for name, command in policy.commands.items():
        assert command.help is not None
        assert f"affiant policy {name} " in command.help
        assert "as_json" in {parameter.name for parameter in command.params}
