"""``affiant policy learn`` as reviewers call it: a proposal that says so, and never over anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

START = """\
agent_configs:
  dev:
    tools: [run, apply]
    network_egress: [{host: api.b.com, methods: [GET, POST]}]
    models: [small]
"""
LOG = """\
{"agent":"dev","decision":"allow","reason":"allowed","request":"tool:run","ts":1700000000}
{"agent":"dev","decision":"allow","reason":"allowed","request":"GET https://api.b.com/v1/a","ts":1700000060}
{"agent":"dev","decision":"allow","reason":"allowed","request":"GET https://api.b.com/v1/b","ts":1700000060}
{"agent":"dev","decision":"deny","reason":"method_not_listed","request":"PUT https://api.b.com/v1/a"}
"""


@pytest.fixture
def learn(tmp_path: Path):
    (tmp_path / "profiles.yaml").write_text(START)

    def run(*options: str, log: str = LOG, start: bool = True) -> Result:
        named = ("--from", str(tmp_path / "profiles.yaml")) if start else ()
        return CliRunner().invoke(cli, ["policy", "learn", "--log", "-", *named, *options], input=log)

    return run


def test_the_first_line_says_that_it_is_a_proposal_and_every_rule_why_it_is_there(learn):
    done = learn()
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].startswith(
        "# PROPOSAL, drafted by 'affiant policy learn' from -. Nobody has reviewed it."
    )
    assert "      - run  # once, 2023-11-14T22:13:20Z" in lines
    assert "          - /v1/a  # once, 2023-11-14T22:14:20Z" in lines
    assert "    #     - {host: api.b.com, methods: [PUT], paths: [/v1/a]}" in lines
    assert "    #   tools/0 at profiles.yaml:3:18: apply" in lines


def test_a_draft_is_written_once_and_replays_the_log_as_it_was(learn, tmp_path):
    place = tmp_path / "proposal.yaml"
    done = learn("-o", str(place))
    assert (done.exit_code, "a proposal of 2 rules for 1 agents from 4 decisions" in done.output) == (0, True)
    before = place.read_bytes()
    assert learn("-o", str(place)).exit_code == 2
    assert place.read_bytes() == before
    for command in (
        ["simulate", "--log", "-", str(place), "--fail-on", "any"],
        ["diff", str(tmp_path / "profiles.yaml"), str(place), "--fail-on", "widen"],
        ["lint", str(place)],
    ):
        assert CliRunner().invoke(cli, ["policy", *command], input=LOG).exit_code == 0


def test_a_place_that_cannot_be_written_is_a_refusal(learn, tmp_path):
    done = learn("-o", str(tmp_path / "none" / "proposal.yaml"))
    assert (done.exit_code, "[policy.learn]" in done.output) == (1, True)


def test_the_document_has_the_counts_and_the_draft(learn):
    found = json.loads(learn("--json").output)
    assert (found["proposal"], found["decisions"], found["agents"]["dev"]["decisions"]) == (True, 4, 4)
    agent = found["agents"]["dev"]
    assert agent["rules"]["tools"] == [
        {"note": "", "rule": "run", "seen": {"count": 1, "first": 1700000000, "last": 1700000000}}
    ]
    assert [each["request"] for each in agent["withheld"]] == ["PUT https://api.b.com/v1/a"]
    assert [each["rule"] for each in agent["unused"]] == ["apply", "small"]
    assert found["draft"].startswith("# PROPOSAL")


def test_options_that_widen_stand_in_the_first_lines(learn):
    text = learn("--generalize-paths", "1", "--keep", "models", "--include-denied").output
    assert "# As asked, paths of more than 1 segments stand for all below (--generalize-paths)." in text
    assert "# As asked, models is as it was (--keep)." in text
    assert "# As asked, what nothing allowed is allowed here, and marked DENIED (--include-denied)." in text
    assert "- {host: api.b.com, methods: [GET], paths: [/v1/**]}  # 2 times" in text
    assert "# DENIED until now (method_not_listed); once" in text


def test_a_gateways_lines_are_the_agents_whose_profile_has_the_digest(learn, tmp_path):
    digest = (
        CliRunner()
        .invoke(cli, ["policy", "digest", str(tmp_path / "profiles.yaml"), "dev"])
        .output.split()[0]
    )
    line = {"decision": "allow", "reason": "allowed", "request": "model:small", "policy_digest": digest}
    assert "      - small  # once" in learn(log=json.dumps(line) + "\n").output
    alone = learn(log=json.dumps(line) + "\n", start=False)
    assert (alone.exit_code, "policy.decision_log" in alone.output) == (1, True)


@pytest.mark.parametrize("log", ["", LOG + "\n", LOG[:-10], '{"agent":"dev"}\n'])
def test_a_log_that_is_refused_proposes_nothing(learn, log):
    done = learn(log=log)
    assert (done.exit_code, "policy.decision_log" in done.output, "PROPOSAL" in done.output) == (
        1,
        True,
        False,
    )


def test_an_agent_without_a_decision_is_a_refusal(learn):
    done = learn("--agent", "nobody")
    assert (done.exit_code, "[policy.learn]" in done.output) == (1, True)


@pytest.mark.parametrize(
    "options", [("--keep", "models"), ("--keep", "nothing"), ("--generalize-paths", "0"), ("--log", "/none")]
)
def test_a_wrong_command_line_is_told_apart(learn, options):
    assert learn(*options, start=False).exit_code == 2
