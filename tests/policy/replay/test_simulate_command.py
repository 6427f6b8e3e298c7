"""``affiant policy simulate`` as reviewers and CI call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

OLD = """\
agent_configs:
  dev:
    tools: [run, {name: apply, approval: true}]
    network_egress: [{host: api.b.com, methods: [GET]}]
    models: [{name: big, upstream: attested}]
    secrets_access: [KEY]
"""
WIDER = OLD.replace("[GET]", "[GET, POST]")
NARROWER = OLD.replace("[run, ", "[")
LOG = """\
{"agent":"dev","decision":"allow","reason":"allowed","request":"tool:run","ts":1700000000}
{"agent":"dev","decision":"deny","reason":"method_not_listed","request":"POST https://api.b.com/v1"}
{"agent":"dev","decision":"deny","reason":"approval_no_approver","request":"tool:apply"}
{"agent":"dev","attested":true,"decision":"allow","reason":"allowed","request":"model:big"}
{"agent":"dev","decision":"deny","reason":"secret_surface","request":"secret:KEY@api.b.com","surface":"header:x-key"}
"""


@pytest.fixture
def replay(tmp_path: Path):
    def run(new: str, *options: str, log: str = LOG, old: str | None = None) -> Result:
        (tmp_path / "new.yaml").write_text(new)
        command = ["policy", "simulate", "--log", "-", str(tmp_path / "new.yaml"), *options]
        if old is not None:
            (tmp_path / "old.yaml").write_text(old)
            command += ["--old", str(tmp_path / "old.yaml")]
        return CliRunner().invoke(cli, command, input=log)

    return run


def test_the_same_policy_changes_nothing(replay):
    assert replay(OLD, "--fail-on", "any").output == "5 decisions, 0 change: 0 wider, 0 narrower\n"
    assert replay(OLD, "--fail-on", "any", old=OLD).output == "5 decisions, 0 change: 0 wider, 0 narrower\n"


def test_what_changes_is_told_with_its_line_and_its_rule(replay):
    done = replay(WIDER.replace("[run, ", "["))
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "dev: 2 of 5 decisions change: 1 wider, 1 narrower",
        "  + host api.b.com: deny becomes allow: 1",
        "      line 2: POST https://api.b.com/v1  [allowed] egress/0 at new.yaml:4:22",
        "  - tool run: allow becomes deny: 1",
        "      line 1: tool:run  [tool_not_listed]",
        "5 decisions, 2 change: 1 wider, 1 narrower",
    ]


@pytest.mark.parametrize(
    ("new", "fail_on", "code"),
    [(WIDER, "widen", 1), (WIDER, "any", 1), (NARROWER, "widen", 0), (NARROWER, "any", 1), (OLD, "any", 0)],
)
def test_ci_fails_on_what_it_asked_for(replay, new, fail_on, code):
    assert replay(new, "--fail-on", fail_on).exit_code == code
    assert replay(new, "--fail-on", fail_on, old=OLD).exit_code == code
    assert replay(new).exit_code == 0


def test_the_document_has_counts_and_samples(replay):
    found = json.loads(replay(WIDER, "--json", old=OLD).output)
    assert (found["decisions"], found["wider"], found["narrower"], found["not_reproduced"]) == (5, 1, 0, 0)
    assert found["agents"] == {"dev": {"decisions": 5, "wider": 1, "narrower": 0}}
    (change,) = found["changes"]
    assert (change["kind"], change["name"], change["count"]) == ("host", "api.b.com", 1)
    assert change["samples"] == [
        {
            "log": "-",
            "line": 2,
            "request": "POST https://api.b.com/v1",
            "reason_before": "method_not_listed",
            "reason": "allowed",
            "rules": [{"id": "egress/0", "where": "new.yaml:4:22"}],
        }
    ]


def test_logs_that_were_set_aside_are_one_history(tmp_path: Path) -> None:
    first, second = LOG.splitlines(keepends=True)[:2], LOG.splitlines(keepends=True)[2:]
    (tmp_path / "new.yaml").write_text(
        WIDER.replace("models: [{name: big, upstream: attested}]", "models: []")
    )
    for name, lines in (("d.jsonl.000001", first), ("d.jsonl", second)):
        (tmp_path / name).write_text("".join(lines))
    command = [
        "policy",
        "simulate",
        "--log",
        str(tmp_path / "d.jsonl.000001"),
        "--log",
        str(tmp_path / "d.jsonl"),
    ]
    done = CliRunner().invoke(cli, [*command, str(tmp_path / "new.yaml")])
    assert done.output.splitlines() == [
        "dev: 2 of 5 decisions change: 1 wider, 1 narrower",
        "  + host api.b.com: deny becomes allow: 1",
        "      d.jsonl.000001:2: POST https://api.b.com/v1  [allowed] egress/0 at new.yaml:4:22",
        "  - model big: allow becomes deny: 1",
        "      d.jsonl:2: model:big  [model_not_listed]",
        "5 decisions, 2 change: 1 wider, 1 narrower",
    ]
    (tmp_path / "d.jsonl").write_text("")
    refused = CliRunner().invoke(cli, [*command, str(tmp_path / "new.yaml")])
    assert (refused.exit_code, "d.jsonl" in refused.output) == (1, True)


def test_a_log_of_another_policy_is_said(replay):
    lines = replay(OLD, old=NARROWER).output.splitlines()
    assert "1 recorded decisions are not what the old file decides" in lines


@pytest.mark.parametrize("log", ["", LOG + "\n", LOG + '{"agent":"dev"}\n', LOG[:-10]])
def test_a_log_that_is_refused_changes_nothing_and_passes_nothing(replay, log):
    done = replay(OLD, log=log)
    assert (done.exit_code, "policy.decision_log" in done.output) == (1, True)
    assert "decisions, " not in done.output


def test_a_line_that_never_ends_is_not_read_to_its_end(replay):
    done = replay(OLD, log="x" * 1_000_000)
    assert (done.exit_code, "too large" in done.output) == (1, True)


def test_hostile_text_reaches_no_terminal(replay):
    hostile = '{"agent":"dev","decision":"allow","reason":"allowed","request":"tool:\\u001b[2J\\u202e"}\n'
    done = replay(OLD, log=hostile)
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output


def test_a_wrong_command_line_is_told_apart(replay, tmp_path):
    assert replay(OLD, "--fail-on", "narrow").exit_code == 2
    missing = ["policy", "simulate", "--log", str(tmp_path / "none"), str(tmp_path / "new.yaml")]
    assert CliRunner().invoke(cli, missing).exit_code == 2


ARGS = "agent_configs: {dev: {tools: [{name: run, args: {n: {max: 2}}}]}}"
CALL = '{"agent":"dev","decision":"%s","reason":"%s","request":"tool:run","withheld":true}\n'


def test_a_call_whose_arguments_decide_and_are_not_told_counts_as_decided_before(replay):
    log = CALL % ("allow", "allowed") + CALL % ("deny", "tool_argument_refused")
    done = replay(ARGS, "--fail-on", "any", log=log)
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        [
            "2 calls are taken to be decided as before: arguments decide, and the log has none",
            "2 decisions, 0 change: 0 wider, 0 narrower",
        ],
    )
    assert json.loads(replay(ARGS, "--json", log=log).output)["untold"] == 2


def test_a_call_without_its_arguments_is_replayed_where_they_decide_nothing(replay):
    denied = "agent_configs: {dev: {tools: [{name: run, args: {n: {max: 2}}}, {deny: run}]}}"
    assert replay(denied, "--fail-on", "any", log=CALL % ("allow", "allowed")).exit_code == 1
    any_call = "agent_configs: {dev: {tools: [run]}}"
    assert replay(any_call, "--fail-on", "widen", log=CALL % ("deny", "tool_argument_refused")).exit_code == 1
    malformed = CALL % ("deny", "tool_arguments_malformed")  # whatever the rule
    assert replay(any_call, "--fail-on", "any", log=malformed).exit_code == 0


def test_a_table_for_a_review_tells_what_becomes_wider_first(replay):
    done = replay(WIDER.replace("[run, ", "["), "--markdown", "--fail-on", "widen")
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "### new.yaml: 5 decisions, 2 change: 1 wider, 1 narrower",
        "",
        "| | agent | what | decision | times | first | rule or reason |",
        "|---|---|---|---|---|---|---|",
        (
            "| wider | dev | host api.b.com | deny becomes allow | 1 "
            "| line 2: POST https:<!-- -->//api.b.com/v1 | new.yaml:4:22 |"
        ),
        "| narrower | dev | tool run | allow becomes deny | 1 | line 1: tool:run | tool\\_not\\_listed |",
    ]


def test_a_table_says_what_it_cannot_know_and_is_no_markup(replay, tmp_path):
    old = OLD.replace("run,", "{name: run, args: {n: {max: 3}}},").replace("dev:", "d_e_v:")
    log = LOG.replace(
        '"reason":"allowed","request":"tool:run"', '"reason":"allowed","request":"tool:run","withheld":true'
    )
    log = log.replace('"dev"', '"d_e_v"')
    output = replay(old.replace("max: 3", "max: 2"), "--markdown", log=log, old=old).output
    assert "1 calls are taken to be decided as before: arguments decide, and the log has none." in output
    output = replay(old.replace("[GET]", "[POST]"), "--markdown", log=log, old=old).output
    assert "| wider | d\\_e\\_v | host api.b.com |" in output


def test_a_table_has_a_bound_for_rows(replay):
    wider = OLD.replace("tools: [", f"tools: [{', '.join(f't{number}' for number in range(120))}, ")
    line = '{"agent":"dev","decision":"deny","reason":"tool_not_listed","request":"tool:t%d"}\n'
    output = replay(wider, "--markdown", log="".join(line % number for number in range(120))).output
    assert output.count("| wider |") == 50
    assert "| and 70 more; --json lists all | | | | | | |" in output


def test_one_answer_at_a_time(replay):
    assert replay(OLD, "--json", "--markdown").exit_code == 2
