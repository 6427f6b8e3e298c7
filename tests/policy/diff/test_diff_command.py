"""``affiant policy diff`` as reviewers and CI call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

OLD = """\
agent_configs:
  deployer:
    tools: [run_terraform, {name: kubectl_apply, approval: true}]
    network_egress:
      - {host: api.cloud.com, methods: [GET], paths: ["/v1/x/**"]}
    secrets_access: [DEPLOY_KEY]
    models: [small]
"""
WIDER = OLD.replace("methods: [GET]", "methods: [GET, DELETE]").replace(", approval: true", "")
NARROWER = OLD.replace("run_terraform, ", "")


@pytest.fixture
def diff(tmp_path: Path):
    def run(old: str, new: str, *options: str) -> Result:
        (tmp_path / "old.yaml").write_text(old)
        (tmp_path / "new.yaml").write_text(new)
        command = ["policy", "diff", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml"), *options]
        return CliRunner().invoke(cli, command)

    return run


def test_what_is_wider_is_told_with_the_secret_and_the_place(diff):
    done = diff(OLD, WIDER)
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "deployer: 2 wider, 0 narrower",
        "  + no longer needs approval: tool:kubectl_apply  [new.yaml:3:28]",
        "  + now allowed: DELETE https://api.cloud.com/v1/x/ and 1 more path, with DEPLOY_KEY  [new.yaml:5:9]",
    ]


@pytest.mark.parametrize(
    ("new", "fail_on", "code"),
    [
        (WIDER, "widen", 1),
        (WIDER, "any", 1),
        (NARROWER, "widen", 0),
        (NARROWER, "any", 1),
        (OLD, "any", 0),
        (OLD.replace("models: [small]", "models: [small]  # said again"), "any", 0),
        (OLD.replace("[DEPLOY_KEY]", "[{name: DEPLOY_KEY, ref: 'local:OTHER'}]"), "widen", 1),
    ],
)
def test_ci_fails_on_what_it_asked_for(diff, new, fail_on, code):
    assert diff(OLD, new, "--fail-on", fail_on).exit_code == code


def test_a_check_that_fails_says_why(diff):
    other = OLD.replace("[DEPLOY_KEY]", "[{name: DEPLOY_KEY, ref: 'local:OTHER'}]")
    done = diff(OLD, other, "--fail-on", "widen")
    assert "0 wider, 0 narrower, 1 changed" in done.stdout
    cannot = "1 difference cannot be ordered as wider or narrower"
    assert done.stderr == f"--fail-on widen: {cannot}, so it fails too\n"
    assert diff(OLD, WIDER, "--fail-on", "widen").stderr == "--fail-on widen: 2 differences allow more\n"
    assert "1 difference allows less" in diff(OLD, NARROWER, "--fail-on", "any").stderr
    assert diff(OLD, NARROWER, "--fail-on", "widen").stderr == ""


def test_the_same_meaning_in_other_words_is_no_difference(diff):
    done = diff(OLD, OLD.replace("[small]", "[{name: small, upstream: any}]"))
    assert done.output == "no difference in what is allowed\n"


def test_the_document_has_every_difference(diff):
    document = json.loads(diff(OLD, WIDER, "--json").output)
    assert document["counts"] == {"widens": 2, "narrows": 0, "changes": 0}
    requests = [found["request"] for found in document["differences"] if found["plane"] == "egress"]
    assert requests == ["DELETE https://api.cloud.com/v1/x/", "DELETE https://api.cloud.com/v1/x/y"]
    (tool,) = [found for found in document["differences"] if found["plane"] == "tool"]
    assert (tool["old"]["says"], tool["new"]["says"]) == ("ask", "allow")
    assert tool["new"]["rules"] == [{"id": "tools/0", "where": "new.yaml:3:28"}]


@pytest.mark.parametrize(("before", "after"), [(OLD, WIDER), (WIDER, OLD), (OLD, "agent_configs: {}\n")])
def test_every_form_counts_the_same(diff, before, after):
    lines = diff(before, after).output.splitlines()
    told = [line for line in lines if line.startswith("  ")]
    counts = [
        ", ".join(
            f"{sum(line.startswith(f'  {mark} ') for line in told)} {word}"
            for mark, word in (("+", "wider"), ("-", "narrower"))
        )
    ]
    assert [line.partition(": ")[2] for line in lines if not line.startswith(" ")] == counts
    document = json.loads(diff(before, after, "--json").output)
    assert f"{document['counts']['widens']} wider, {document['counts']['narrows']} narrower" == counts[0]
    assert {found["group"] for found in document["differences"]} == set(range(len(told)))
    assert counts[0] in diff(before, after, "--markdown").output.splitlines()[0]


def test_who_may_approve_is_told_in_every_form(diff, tmp_path):
    first, second = ("A" * 43, "b" * 42 + "A")
    asks = "agent_configs: {{dev: {{tools: [a], requires_human_approval: {{everything: true{}}}}}}}\n"
    old = asks.format(f", approvers: [{first}], ttl: 5m")
    new = asks.format(f", approvers: [{first}, {second}], quorum: 2, ttl: 10m")
    lines = diff(old, new, "--sarif", str(tmp_path / "out.sarif")).output.splitlines()
    assert lines == [
        "dev: 2 wider, 1 narrower",
        f"  + now may approve: approver {second}",
        "  - 1 becomes 2: quorum",
        "  + 300s becomes 600s: ttl",
    ]
    assert f"may no longer approve: approver {second}" in diff(new, old).output
    assert f"now may approve: approver {second}" in diff(old, new, "--markdown").output
    assert json.loads(diff(old, new, "--json").output)["counts"] == {"widens": 2, "narrows": 1, "changes": 0}
    assert f"now may approve: approver {first}" in diff(asks.format(""), old).output


def test_a_review_page_shows_it_at_its_line(diff, tmp_path):
    diff(OLD, WIDER, "--sarif", str(tmp_path / "out.sarif"))
    (run,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    regions = [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"]]
    assert regions == [3, 5]
    assert {result["level"] for result in run["results"]} == {"error"}


def test_names_in_a_table_are_no_markup(diff):
    hostile = OLD.replace("deployer:", "de_plo.yer:").replace("run_terraform", "__x__")
    output = diff(OLD.replace("deployer:", "de_plo.yer:"), hostile, "--markdown").output
    assert "**de\\_plo.yer**" in output
    assert "tool:\\_\\_x\\_\\_" in output


def test_a_table_mentions_nobody_and_links_nowhere(diff):
    old = "agent_configs: {dev: {tools: [{name: x, args: {a: {one_of: [a]}}}]}}"
    new = old.replace("[a]", "[a, '@org/team https://evil.example #1']")
    (row,) = [line for line in diff(old, new, "--markdown").output.splitlines() if "widens" in line]
    assert "@<!-- -->org/team https:<!-- -->//evil.example #<!-- -->1" in row


def test_places_are_written_as_they_are_and_not_as_code_with_backslashes(diff, tmp_path):
    old, new = tmp_path / "o_ld.yaml", tmp_path / "n_ew.yaml"
    old.write_text(OLD)
    new.write_text(WIDER)
    shown = CliRunner().invoke(cli, ["policy", "diff", str(old), str(new), "--markdown"]).output
    assert shown.startswith("### o\\_ld.yaml to n\\_ew.yaml: ")
    assert "| n\\_ew.yaml:3:28 |" in shown


def test_one_agent_alone_and_one_that_is_new_or_gone(diff):
    more = OLD + "  reader: {tools: [read], models: []}\n"
    assert "deployer" not in diff(OLD, more, "--agent", "reader").output
    assert diff(OLD, more).output.splitlines() == [
        "reader: 2 wider, 0 narrower",
        "  + a new agent: reader",
        "  + now allowed: tool:read  [new.yaml:8:20]",
    ]
    assert diff(more, OLD).output.splitlines()[1] == "  - this agent has no profile any more: reader"
    assert diff(OLD, more, "--agent", "raeder").exit_code == 1


def test_two_answers_at_once_are_a_wrong_command_line(diff):
    assert diff(OLD, WIDER, "--json", "--markdown").exit_code == 2


def test_a_file_that_is_refused_is_never_compared(diff):
    done = diff(OLD, OLD.replace("tools", "tolos"))
    assert done.exit_code == 1
    assert "policy.unknown_key" in done.output


def test_a_report_that_cannot_be_written_is_said(diff, tmp_path):
    done = diff(OLD, WIDER, "--sarif", str(tmp_path / "missing" / "out.sarif"))
    assert done.exit_code == 2
    assert "cannot be written" in done.output
