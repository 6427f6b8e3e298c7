"""``affiant policy rule``: from the id in a record back to the line of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli
from affiant.policy.decision.questions import answer, parse_question
from affiant.policy.loading.load import load_profiles

FILE = """\
floor: floor.yaml
agent_configs:
  deployer:
    tools: [run_terraform, {name: apply, args: {copies: {max: 3}}}]
    filesystem_access: [read-write:/workspace, none:/workspace/state]
    network_egress: [{host: api.cloud.com, methods: [GET], paths: ["/v1/**"]}]
    secrets_access: [{name: KEY, hosts: [api.cloud.com]}]
    models: [{name: big, upstream: attested}]
    limits: {tokens: 2M/day, wall: 2h}
  twin:
    tools: [ls]
  other:
    tools: [ls]
"""
FLOOR = "network_egress: [{deny: uploads.cloud.com}]\n"


@pytest.fixture
def rule(tmp_path: Path):
    def run(*arguments: str, text: str = FILE) -> Result:
        (tmp_path / "p.yaml").write_text(text)
        (tmp_path / "floor.yaml").write_text(FLOOR)
        return CliRunner().invoke(cli, ["policy", "rule", str(tmp_path / "p.yaml"), *arguments])

    return run


def digest_of(agent: str, text: str = FILE) -> str:
    return load_profiles(text.encode(), floor=FLOOR.encode()).profile(agent).digest


def test_every_rule_of_a_profile_is_told_with_its_line(rule) -> None:
    profile = load_profiles(FILE.encode(), source="p.yaml", floor=FLOOR.encode()).profile("deployer")
    assert {each.partition("/")[0] for each in profile.places} == {
        *("tools", "filesystem", "egress", "secrets", "models", "limits")
    }
    found = rule(*profile.places, "--agent", "deployer", "--json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["policy_digest"] == profile.digest
    assert {each["id"]: each["where"] for each in document["rules"]} == {
        name: str(mark) for name, mark in profile.places.items()
    }
    texts = {each["text"]: each["where"] for each in document["rules"]}
    assert texts["{deny: uploads.cloud.com}"].startswith("floor.yaml:1:")
    assert texts["{name: apply, args: {copies: {max: 3}}}"] == "p.yaml:4:28"
    assert texts['{wall: "7200s"}'] == texts['{tokens: "2000000/day"}'] == "p.yaml:9:13"


def test_the_rule_that_decided_is_found_by_the_digest_of_the_record(rule) -> None:
    profile = load_profiles(FILE.encode(), floor=FLOOR.encode()).profile("deployer")
    decision = answer(profile.compiled, parse_question("GET https://api.cloud.com/v1/x"))
    found = rule(*decision.rules, "--digest", profile.digest)
    assert found.exit_code == 0
    assert found.stdout.splitlines() == [
        "p.yaml:6:22  deployer  egress/0: {host: api.cloud.com, methods: [GET], paths: [/v1/**]}",
        f"policy {profile.digest}",
    ]


def test_profiles_of_one_meaning_are_all_told(rule) -> None:
    found = rule("tools/0", "--digest", digest_of("twin"))
    assert [line.split("  ")[:2] for line in found.stdout.splitlines()[:-1]] == [
        ["p.yaml:11:13", "twin"],
        ["p.yaml:13:13", "other"],
    ]


def test_a_file_of_one_profile_needs_no_choice(rule) -> None:
    found = rule("tools/0", text="agent_configs: {dev: {tools: [ls]}}")
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "p.yaml:1:31  dev  tools/0: ls")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["tools/0"], 2, "give --agent or --digest"),
        ([], 2, "Missing argument"),
        (["tools/0", "--agent", "twins"], 1, "policy.unknown_agent"),
        (["tools/0", "--digest", "sha384:" + "0" * 96], 1, "policy.unknown_digest"),
        (["tools/0", "--agent", "twin", "--digest", digest_of("deployer")], 1, "policy.unknown_digest"),
        *(
            ([each, "--agent", "twin"], 1, "policy.unknown_rule")
            for each in (
                "tools/1",
                "tools/-1",
                "tools/00",
                "limits/tokens",
                "approval/0",
                "tools",
                "__doc__/0",
                "\x1b[2J",
            )
        ),
    ],
)
def test_what_is_not_there_is_refused(rule, arguments: list[str], code: int, words: str) -> None:
    found = rule(*arguments)
    assert found.exit_code == code
    assert words in found.output
    assert "\x1b" not in found.output


def test_a_file_that_was_changed_since_is_refused_not_read_wrongly(rule) -> None:
    changed = FILE.replace("[run_terraform, ", "[")
    assert rule("tools/0", "--agent", "deployer", text=changed).exit_code == 0
    found = rule("tools/0", "--digest", digest_of("deployer"), text=changed)
    assert (found.exit_code, found.stdout) == (1, "")
