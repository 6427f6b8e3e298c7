"""``affiant policy test`` as reviewers and CI call it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli
from affiant.policy.decision.decide import REASONS

PROFILES = """\
agent_configs:
  deployer:
    tools: [run, {name: apply, approval: true}, {deny: destroy}]
    network_egress: [{host: api.b.com, methods: [GET]}]
    tests:
      - {allow: {tool: run}}
      - {deny: {egress: "POST https://api.b.com/"}}
  idle: {}
"""
TESTS = """\
tests:
  deployer:
    - allow: {egress: "GET https://api.b.com/"}
    - deny: {egress: "GET https://api.b.com:8443/"}
    - deny: {egress: "GET https://b.b.com/"}
    - ask: {tool: apply}
    - deny: {tool: destroy}
    - deny: {tool: other}
"""
FAILING = "tests: {deployer: [{deny: {tool: apply}}, {allow: {tool: rm}}]}\n"


@pytest.fixture
def try_it(tmp_path: Path):
    def run(*options: str, profiles: str = PROFILES, tests: str | None = TESTS) -> Result:
        (tmp_path / "p.yaml").write_text(profiles)
        files = [str(tmp_path / "p.yaml")]
        if tests is not None:
            (tmp_path / "t.yaml").write_text(tests)
            files.append(str(tmp_path / "t.yaml"))
        return CliRunner().invoke(cli, ["policy", "test", *files, *options])

    return run


def test_all_hold(try_it):
    done = try_it()
    assert (done.exit_code, done.output) == (0, "8 tests, 0 failed\n")


def test_each_failure_has_its_place_what_was_decided_and_the_rule(try_it):
    done = try_it(tests=FAILING)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "t.yaml:1:34: failed: deployer: wants deny for tool:apply",
        f"  ask, because {REASONS['approval_required']} [approval_required]; rule tools/1 at p.yaml:3:18",
        "t.yaml:1:58: failed: deployer: wants allow for tool:rm",
        "  deny, because the profile does not list this tool [tool_not_listed]",
        "4 tests, 2 failed",
    ]


def test_a_profile_whose_own_tests_fail_is_told_in_full_and_not_refused_at_the_first(try_it):
    wrong = PROFILES.replace("allow: {tool: run}", "deny: {tool: run}").replace(
        "deny: {egress", "allow: {egress"
    )
    done = try_it(profiles=wrong, tests=None)
    assert done.exit_code == 1
    assert done.output.count("failed: deployer") == 2


def test_coverage_lists_what_is_missing_with_its_place(try_it):
    done = try_it("--coverage", tests=None)
    assert done.exit_code == 0
    assert done.output.splitlines()[1:] == [
        "coverage: 0 of 4 (0 %)",
        "  p.yaml:3:13: deployer: tools/0: no deny test that nearly meets it",
        "  p.yaml:3:18: deployer: tools/1: no allow test that it decides, and no deny test that nearly meets it",
        "  p.yaml:3:49: deployer: tools/2: no deny test that it decides",
        "  p.yaml:4:22: deployer: egress/0: no allow test that it decides",
    ]
    assert try_it("--coverage", "--fail-under", "100").exit_code == 0


def test_mutation_names_the_tests_that_are_missing(try_it):
    done = try_it("--mutation", "--fail-under", "100", tests=TESTS.replace("    - ask: {tool: apply}\n", ""))
    assert done.exit_code == 1
    assert done.output.splitlines()[1:] == [
        "mutation: 5 of 7 (71 %), less than the 100 % that were asked for",
        "  not counted, because every request is answered as the profile does: 1",
        '  p.yaml:3:18: deployer: tools/1 dropped: no test notices; {ask: {tool: "apply"}} would',
        '  p.yaml:3:18: deployer: tools/1 without approval: no test notices; {ask: {tool: "apply"}} would',
    ]
    assert (
        try_it(
            "--mutation", "--fail-under", "71", tests=TESTS.replace("    - ask: {tool: apply}\n", "")
        ).exit_code
        == 0
    )
    assert try_it("--mutation", "--fail-under", "100").exit_code == 0


LIMITED = """\
agent_configs:
  dev:
    tools: [{name: run, rate: 10/min}]
    limits: {tokens: 2M/day}
    tests: [{allow: {tool: run}}, {deny: {tool: other}}]
"""


@pytest.mark.parametrize("option", ["--coverage", "--mutation"])
def test_limits_are_told_as_not_covered(try_it, option: str):
    done = try_it(option, "--fail-under", "100", profiles=LIMITED, tests=None)
    assert done.exit_code == 0
    assert done.output.splitlines()[-3:] == [
        "limits: 2 are not covered, because no test can ask for a limit",
        "  p.yaml:4:13: dev: limits/tokens: tokens at most 2M tokens a day",
        "  p.yaml:3:13: dev: tools/0: rate at most 10 calls a minute",
    ]
    assert (
        "**limits**: 2 are not covered" in try_it(option, "--markdown", profiles=LIMITED, tests=None).output
    )
    found = json.loads(try_it(option, "--json", profiles=LIMITED, tests=None).output)
    assert [each["rule"] for each in found["limits_not_tested"]] == ["limits/tokens", "tools/0"]
    assert "limits" not in try_it(profiles=LIMITED, tests=None).output
    assert json.loads(try_it("--json", profiles=LIMITED, tests=None).output)["limits_not_tested"] == []


def test_what_was_not_tried_counts_as_unnoticed(try_it):
    done = try_it("--mutation", "--max-mutants", "2", "--json")
    found = json.loads(done.output)
    assert (found["mutants_not_tried"], len(found["mutants"])) == (6, 2)
    assert found["measures"]["mutation"] == {"found": 2, "total": 8, "percent": 25, "missed": False}
    assert try_it("--mutation", "--max-mutants", "2", "--fail-under", "26").exit_code == 1


def test_the_document_has_every_test_rule_and_mutant(try_it):
    found = json.loads(try_it("--json", "--coverage", "--mutation", tests=FAILING).output)
    assert (found["ok"], found["failed"], len(found["tests"])) == (False, 2, 4)
    assert found["tests"][2] == {
        "agent": "deployer",
        "where": "t.yaml:1:34",
        "wants": "deny",
        "request": "tool:apply",
        "holds": False,
        "effect": "ask",
        "reason": "approval_required",
        "rules": [{"id": "tools/1", "where": "p.yaml:3:18"}],
        "nearest": None,
    }
    assert [rule["covered"] for rule in found["coverage"]] == [False, False, False, False]
    assert {mutant["fate"] for mutant in found["mutants"]} == {"equivalent", "noticed", "unnoticed"}


def test_junit_counts_failures_and_missed_thresholds(try_it, tmp_path):
    report = tmp_path / "j.xml"
    assert try_it("--junit", str(report), "--coverage", "--fail-under", "50", tests=FAILING).exit_code == 1
    suites = {suite.get("name"): suite for suite in ET.parse(report).getroot()}
    assert (suites["deployer"].get("tests"), suites["deployer"].get("failures")) == ("4", "2")
    assert suites["measures"].get("failures") == "1"
    texts = [failure.get("message") for failure in suites["deployer"].iter("failure")]
    assert texts[1] == "t.yaml:1:58: deny, because the profile does not list this tool [tool_not_listed]"


def test_hostile_text_is_no_markup_of_the_report(try_it, tmp_path):
    report = tmp_path / "j.xml"
    hostile = "tests: {deployer: [{allow: {read: '/\"><failure a=\"]]>&'}}]}"
    assert try_it("--junit", str(report), tests=hostile).exit_code == 1
    (case,) = [each for each in ET.parse(report).iter("testcase") if "failure" in str(each.get("name"))]
    assert case.get("name") == 'allow read:/"><failure a="]]>&'


def test_without_any_test_nothing_passes(try_it, tmp_path):
    done = try_it(
        "--junit", str(tmp_path / "j.xml"), profiles="agent_configs: {dev: {tools: [a]}}", tests=None
    )
    assert (done.exit_code, done.output) == (1, "no tests: nothing was tried\n")
    assert 'failures="1"' in (tmp_path / "j.xml").read_text()


@pytest.mark.parametrize(
    ("profiles", "tests", "code"),
    [
        (PROFILES.replace("tools", "tolos"), TESTS, "policy.unknown_key"),
        (PROFILES, TESTS.replace("deployer", "deplyoer"), "policy.unknown_agent"),
        (PROFILES, "", "policy.empty_list"),
        (PROFILES.replace("allow: {tool: run}", "allow: {tolo: run}"), TESTS, "policy.unknown_key"),
    ],
)
def test_a_file_that_is_refused_is_told_by_its_code(try_it, profiles, tests, code):
    done = try_it(profiles=profiles, tests=tests)
    assert (done.exit_code, code in done.output) == (1, True)
    found = json.loads(try_it("--json", profiles=profiles, tests=tests).output)
    assert (found["ok"], found["refused"]["code"]) == (False, code)


def test_a_wrong_command_line_is_told_apart(try_it, tmp_path):
    assert try_it("--fail-under", "50").exit_code == 2
    assert try_it("--coverage", "--fail-under", "101").exit_code == 2
    assert try_it("--junit", str(tmp_path / "missing" / "j.xml")).exit_code == 2


def test_a_table_for_a_review_has_the_tests_that_fail_and_what_is_missing(try_it):
    done = try_it("--markdown", "--coverage", "--fail-under", "90", tests=FAILING)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[:4] == [
        "### p.yaml: 4 tests, 2 failed",
        "",
        "| place | agent | wants | decided |",
        "|---|---|---|---|",
    ]
    (apply,) = [line for line in lines if "for tool:apply" in line]
    assert apply.startswith("| t.yaml:1:") and "| deployer | deny for tool:apply | ask, because" in apply
    assert sum(line.startswith("| t.yaml:1:") for line in lines) == 2
    (measure,) = [line for line in lines if line.startswith("**coverage**: ")]
    assert "less than the 90 % that were asked for" in measure
    missing = lines[lines.index("| missing |") + 2 :]
    told = [
        line.strip()
        for line in try_it("--coverage", tests=FAILING).output.splitlines()
        if line.startswith("  p.yaml:")
    ]
    assert [line.replace("\\", "").strip("| ") for line in missing if line] == told


def test_a_table_of_tests_that_hold_is_one_line(try_it):
    assert try_it("--markdown").output == "### p.yaml: 8 tests, 0 failed\n"
    assert try_it("--markdown", "--json").exit_code == 2


def test_what_a_test_names_is_no_markup_in_a_table(try_it):
    tests = 'tests: {deployer: [{allow: {egress: "GET https://evil.example/@org/__x__"}}]}\n'
    (row,) = [line for line in try_it("--markdown", tests=tests).output.splitlines() if "evil" in line]
    assert "GET https:<!-- -->//evil.example/@<!-- -->org/\\_\\_x\\_\\_ |" in row
