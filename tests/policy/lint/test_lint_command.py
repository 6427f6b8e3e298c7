"""``affiant policy lint``: every mistake with its line, no secret in any output, reports for review pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

PASTED = [
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "sk-proj-abcDEF0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "hunter2!",
]


PLACES = [
    "secrets_access: ['{}']",
    "secrets_access: '{}'",
    "secrets_access: [{{name: '{}'}}]",
    "secrets_access: [{{'{}': A}}]",
    "secrets_access: [{{name: A, inject: {{header: X-Key, '{}': A}}}}]",
    "secrets_access: [{{name: A, inject: {{header: '{}', format: 'k {{}}'}}}}]",
    "secrets_access: [{{name: A, value: '{}'}}]",
    "secrets_access: [{{name: A, ref: '{}'}}]",
    "secrets_access: [{{name: A, hosts: '{}'}}]",
    "secrets_access: [{{name: A, hosts: ['{}']}}]",
    "secrets_access: [{{name: A, shape: '{}'}}]",
    "secrets_access: [{{name: A, inject: {{header: X-Key, format: '{}'}}}}]",
    "secrets_access: [{{name: A, inject: {{query: '{}'}}}}]",
    "secrets: ['{}']",
    "secret_access: {{A: '{}'}}",
    "network_egress: [{{host: a.b.com, headers: {{Authorization: 'Bearer {}'}}}}]",
    "tolos: [x]  # {}",
    "secrets_access: [A, '{}'], tools: [",
    "secrets_access: [A, '{}'], tools: [a b]",
    "secrets_access: ['{}'], secrets_access: [A]",
    "secrets_access: [A, '{}'], resources: {{cpu: 1}}",
    "ref: '{}'",
]


@pytest.fixture
def lint(tmp_path: Path):
    def run(text: str, *options: str) -> tuple[Result, str]:
        (tmp_path / "p.yaml").write_text(text)
        sarif = tmp_path / "out.sarif"
        done = CliRunner().invoke(
            cli, ["policy", "lint", str(tmp_path / "p.yaml"), "--sarif", str(sarif), *options]
        )
        return done, sarif.read_text()

    return run


@pytest.mark.parametrize("number", range(len(PLACES)))
@pytest.mark.parametrize("value", [PASTED[0], PASTED[3]])
def test_a_pasted_secret_stands_in_no_output(lint, number: int, value: str) -> None:
    layouts = ("agent_configs: {{dev: {{{}}}}}\n", "agent_configs:\n  dev:\n    {}\n")
    for layout, options in zip(layouts, ((), ("--json",)), strict=True):
        text = layout.format(PLACES[number].format(value))
        done, sarif = lint(text, *options)
        assert done.exit_code == 1
        for output in (done.stdout, done.stderr, sarif):
            assert output.find(value) < 0
            assert output.find(value[4:16]) < 0
            assert output.find(value.rstrip("!")) < 0


@pytest.mark.parametrize(
    "place",
    [
        "tools: ['{} ']",
        "filesystem_access: '{}'",
        "network_egress: '{}'",
        "models: ['{} ']",
        "tests: [{{deny: {{secret: '{}'}}}}]",
    ],
)
def test_what_reads_like_a_secret_is_shown_nowhere(lint, place: str) -> None:
    for value in PASTED[:3]:
        done, sarif = lint(f"agent_configs:\n  dev:\n    {place.format(value)}\n", "--markdown")
        assert done.exit_code == 1
        for output in (done.stdout, done.stderr, sarif):
            assert value not in output


def test_json_has_the_place_and_not_the_line(lint) -> None:
    done, sarif = lint("agent_configs:\n  dev:\n    tolos: [x]\n", "--json")
    assert json.loads(done.stdout)["refused"]["where"] == "p.yaml:3:5"
    assert "snippet" not in sarif


THREE_MISTAKES = """\
agent_configs:
  one:
    tolos: [x]
    tools: [a, b c, d e]
    tests: [{allow: {tool: zz}}]
  two:
    network_egress: [{host: a.b.com, methods: [get]}]
    requires_human_approval: {tools: [x]}
  'th ree': {}
  four: {tools: [a], tests: [{deny: {tool: a}}]}
"""


def test_every_mistake_that_can_be_told_apart_is_told_in_order(lint) -> None:
    done, sarif = lint(THREE_MISTAKES)
    assert (done.exit_code, done.stdout) == (1, "")
    told = [line for line in done.stderr.splitlines() if line.startswith("affiant:")]
    assert [line.partition("p.yaml:")[2].partition(": ")[0] for line in told] == [
        "3:5",
        "4:16",
        "4:21",
        "7:48",
        "9:3",
        "10:44",
    ]
    assert done.stderr.count("^") == 6
    (run,) = json.loads(sarif)["runs"]
    assert [
        result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"]
    ] == [
        3,
        4,
        4,
        7,
        9,
        10,
    ]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {
        each["ruleId"] for each in run["results"]
    }


def test_twenty_mistakes_are_enough(lint) -> None:
    document = json.loads(lint("agent_configs: {dev: {tools: [" + "a b, " * 40 + "]}}", "--json")[0].stdout)
    assert len(document["refusals"]) == 20
    assert document["refused"] == document["refusals"][0]


def test_a_floor_that_is_refused_does_not_hide_the_mistakes_of_the_file(lint, tmp_path: Path) -> None:
    (tmp_path / "floor.yaml").write_text("tools: [x]\n")
    done, sarif = lint("floor: floor.yaml\nagent_configs: {dev: {tools: [a b]}}\n")
    assert [line.split()[2] for line in done.stderr.splitlines() if "affiant:" in line] == [
        "floor.yaml:1:9:",
        "p.yaml:2:31:",
    ]
    uris = [
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for each in json.loads(sarif)["runs"][0]["results"]
    ]
    assert uris == [str(tmp_path / "floor.yaml"), str(tmp_path / "p.yaml")]


WARNED = "agent_configs:\n  de_v:\n    network_egress: 'allowed:a.b.com'\n"


def test_warnings_stand_on_their_line_with_what_to_do(lint) -> None:
    done, sarif = lint(WARNED)
    assert done.exit_code == 0
    (run,) = json.loads(sarif)["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("policy.lint.host_unrestricted", "warning")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 21}
    assert (
        run["tool"]["driver"]["rules"][0]["help"]["text"]
        == "Name the 'methods' and 'paths' that the agent needs."
    )
    assert lint(WARNED, "--strict")[0].exit_code == 1


def test_a_table_holds_no_markup_of_the_file(lint) -> None:
    table = lint(WARNED, "--markdown")[0].stdout
    assert "| p.yaml:3:21 | de\\_v |" in table
    assert "`host_unrestricted`" in table
    refused = lint("agent_configs: {'<b>|': {}}", "--markdown")[0]
    assert "\\<b\\>\\|" in refused.stdout
    assert refused.exit_code == 1


def test_two_answers_at_once_and_a_report_nowhere_are_wrong_command_lines(lint, tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(WARNED)
    for options in (["--json", "--markdown"], ["--sarif", str(tmp_path / "none" / "x")]):
        assert CliRunner().invoke(cli, ["policy", "lint", str(file), *options]).exit_code == 2


def test_a_report_never_replaces_the_file_that_is_read(tmp_path: Path) -> None:
    file, other = tmp_path / "q.yaml", tmp_path / "other.yaml"
    file.write_text(WARNED)
    other.symlink_to(file)
    read = [["lint", "q.yaml", "--sarif"], ["diff", "q.yaml", "none.yaml", "--sarif"]]
    read += [["diff", "none.yaml", "q.yaml", "--sarif"], ["test", "q.yaml", "--junit"]]
    read += [["test", "none.yaml", "q.yaml", "--junit"]]
    for command, *names, option in read:
        paths = [str(tmp_path / name) for name in names]
        done = CliRunner().invoke(cli, ["policy", command, *paths, option, str(other)])
        assert (done.exit_code, "is read" in done.stderr) == (2, True)
    assert file.read_text() == WARNED


def test_a_report_is_written_to_a_device_and_a_full_one_is_no_wrong_command_line(tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(WARNED)
    for device, code in (("/dev/null", 0), ("/dev/full", 1)):
        for command in (["lint", str(file), "--sarif"], ["diff", str(file), str(file), "--sarif"]):
            assert CliRunner().invoke(cli, ["policy", *command, device]).exit_code == code
        assert Path(device).is_char_device()


def test_a_secret_that_reads_like_a_key_is_not_shown_among_secrets(lint) -> None:
    for options in ((), ("--json",)):
        done, sarif = lint("agent_configs:\n  dev:\n    secrets_access:\n      - {hunter2: A}\n", *options)
        assert "hunter2" not in done.stdout + done.stderr + sarif
    assert (
        "unknown key 'nam' in a secret"
        in lint("agent_configs: {dev: {secrets_access: [{nam: A}]}}")[0].stderr
    )
