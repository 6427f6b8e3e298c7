"""``affiant policy decisions`` as people, SIEMs and collectors use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli
from affiant.policy.decision_log.reader import read_decision_log
from affiant.policy.loading.load import load_profiles

PROFILES = """\
agent_configs:
  dev:
    tools: [run, {name: apply, approval: true}]
    network_egress: [{host: api.b.com, methods: [GET]}]
"""
DIGEST = load_profiles(PROFILES.encode()).profile("dev").digest
SESSION = """\
{"agent":"dev","decision":"allow","reason":"allowed","request":"GET https://api.b.com/a","rules":["egress/0"],"session":"s","ts":1700000000}
{"agent":"dev","decision":"deny","reason":"method_not_listed","request":"POST https://api.b.com/v1","session":"s","ts":1700000100}
{"agent":"ops","decision":"deny","reason":"approval_no_approver","request":"tool:apply","session":"t","ts":1700000200}
"""
GATEWAY = (
    f'{{"decision":"allow","policy_digest":"{DIGEST}","reason":"allowed","request":"tool:run","rules":["tools/1"],'
    '"session":"s","ts":1700000050}\n'
)


@pytest.fixture
def shown(tmp_path: Path):
    def run(*options: str, **logs: str) -> Result:
        (tmp_path / "p.yaml").write_text(PROFILES)
        paths = []
        for name, text in (logs or {"session": SESSION}).items():
            (tmp_path / f"{name}.jsonl").write_text(text)
            paths.append(str(tmp_path / f"{name}.jsonl"))
        given = [str(tmp_path / each) if each == "p.yaml" else each for each in options]
        return CliRunner().invoke(cli, ["policy", "decisions", *paths, *given])

    return run


def test_a_table_says_when_who_what_and_why(shown):
    done = shown()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "time                  agent  plane   decision  reason                rule      request",
        "2023-11-14T22:13:20Z  dev    egress  allow     allowed               egress/0  GET https://api.b.com/a",
        "2023-11-14T22:15:00Z  dev    egress  deny      method_not_listed     -         POST https://api.b.com/v1",
        "2023-11-14T22:16:40Z  ops    tool    deny      approval_no_approver  -         tool:apply",
    ]


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        (["--decision", "deny"], ["POST https://api.b.com/v1", "tool:apply"]),
        (["--decision", "ask"], []),
        (["--agent", "ops"], ["tool:apply"]),
        (["--agent", "ops", "--agent", "dev", "--plane", "tool"], ["tool:apply"]),
        (["--session", "s", "--reason", "allowed"], ["GET https://api.b.com/a"]),
        (["--session", "t"], ["tool:apply"]),
        (["--since", "1700000100"], ["POST https://api.b.com/v1", "tool:apply"]),
        (["--since", "2023-11-14T22:15:00Z", "--until", "1700000200"], ["POST https://api.b.com/v1"]),
    ],
)
def test_only_what_was_asked_for_is_shown(shown, options, requests):
    done = shown(*options, "--format", "jsonl")
    assert done.exit_code == 0
    assert [json.loads(line)["request"] for line in done.stdout.splitlines()] == requests


def test_a_gateway_s_lines_get_the_agent_and_the_places_of_rules_from_the_file_that_decided(shown):
    unknown = shown("--agent", "dev", gateway=GATEWAY)
    assert (unknown.exit_code, unknown.stdout) == (0, "")
    assert (
        "1 decisions have no agent name and are left out: name the profile file that decided with --profiles"
        in unknown.stderr
    )
    known = shown("--agent", "dev", "--profiles", "p.yaml", gateway=GATEWAY)
    assert "dev    tool   allow     allowed  tools/1 " in known.stdout
    assert "p.yaml:3:18  tool:run" in known.stdout
    line = shown("--profiles", "p.yaml", "--format", "jsonl", gateway=GATEWAY).stdout
    (named,) = read_decision_log(line.encode().splitlines())
    assert named.agent == "dev"
    assert "agent" not in json.loads(shown("--format", "jsonl", gateway=GATEWAY).stdout)


def test_jsonl_is_a_decision_log_again_with_nothing_lost(shown):
    again = shown("--format", "jsonl").stdout.encode().splitlines()
    assert list(read_decision_log(again)) == list(read_decision_log(SESSION.encode().splitlines()))


def test_lines_that_are_none_are_told_with_their_number_and_no_other_is_lost(shown):
    first, *rest = SESSION.splitlines(keepends=True)
    broken = first + "{}\n" + rest[0] + "x" * 1_200_000 + "\n\n" + rest[1]
    for form in ("table", "jsonl", "ocsf", "otlp-json"):
        done = shown("--format", form, broken=broken, after=GATEWAY)
        assert done.exit_code == 1
        told = [line for line in done.stderr.splitlines() if "policy.decision_log" in line]
        assert [line.split("refused: ")[1].split(": ")[0] for line in told] == [
            "broken.jsonl:2",
            "broken.jsonl:4",
            "broken.jsonl:5",
        ]
        assert len(done.stdout.splitlines()) == 4 + (form == "table")


def test_a_file_that_is_no_log_does_not_fill_the_screen(shown):
    done = shown(other="hello\n" * 1000)
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 101
    assert "900 more lines are not decisions" in done.stderr


def test_an_event_for_each_decision_and_none_that_would_have_to_be_made_up(shown):
    done = shown("--format", "ocsf", "--decision", "deny")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["class_uid"], each["action"], each["status_code"]) for each in events] == [
        (4002, "Denied", "method_not_listed"),
        (6003, "Denied", "approval_no_approver"),
    ]
    untimed = SESSION.replace(',"ts":1700000100', "")
    done = shown("--format", "ocsf", log=untimed)
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, 2)
    assert "log.jsonl:2" in done.stderr
    assert "policy.decision_event" in done.stderr


def test_decisions_that_say_no_time_are_counted_when_a_time_is_asked_for(shown):
    done = shown("--since", "0", log=SESSION.replace(',"ts":1700000100', ""))
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 3)
    assert "1 decisions have no time and are left out" in done.stderr


def test_one_document_has_all_and_the_counts(shown):
    done = shown("--json", "--profiles", "p.yaml", gateway=GATEWAY, broken="{}\n" + SESSION)
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["count"], found["refused"], found["refusals"][0]["where"]) == (4, 1, "broken.jsonl:1")
    first = found["decisions"][0]
    assert (first["log"], first["line"], first["agent"]) == ("gateway.jsonl", 1, "dev")
    assert first["rules"][0]["where"].endswith("p.yaml:3:18")
    assert json.loads(shown("--json", "--decision", "ask").stdout)["decisions"] == []


def test_a_log_without_lines_shows_nothing(shown):
    assert (shown(empty="").exit_code, shown(empty="").stdout) == (0, "")


def test_two_answers_and_what_is_not_there_are_mistakes_of_the_command_line(shown, tmp_path):
    assert shown("--json", "--format", "ocsf").exit_code == 2
    assert shown("--since", "yesterday").exit_code == 2
    assert CliRunner().invoke(cli, ["policy", "decisions"]).exit_code == 2
    assert CliRunner().invoke(cli, ["policy", "decisions", str(tmp_path / "none")]).exit_code == 2
    assert shown("--profiles", "none.yaml").exit_code == 1


def test_hostile_text_reaches_no_terminal(shown):
    hostile = (
        SESSION.splitlines(keepends=True)[2]
        .replace("tool:apply", "tool:\\u001b[2J\\u202e\\n")
        .replace('"t"', '"\\u202e"')
    )
    for form in ("table", "jsonl", "ocsf", "otlp-json"):
        text = shown("--format", form, log=hostile).stdout
        assert all(line.isascii() and line.isprintable() for line in text.splitlines()), form


def test_rows_of_a_pipe_come_as_its_lines_do(tmp_path: Path):
    command = [
        sys.executable,
        "-u",
        "-c",
        "from affiant.__main__ import main; main()",
        "policy",
        "decisions",
        "-",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(SESSION.splitlines(keepends=True)[0].encode())
        running.stdin.flush()
        assert running.stdout.readline().startswith(b"time")
        assert b"GET https://api.b.com/a" in running.stdout.readline()
        running.stdin.close()
        assert running.wait(10) == 0


def test_a_log_of_any_size_is_read_in_little_memory(tmp_path: Path):
    """Its own peak, by the kernel; getrusage's would begin with that of the process that started it."""
    code = (
        "import sys\n"
        "from affiant.__main__ import cli\n"
        "cli(['policy', 'decisions', sys.argv[1], '--json'], standalone_mode=False)\n"
        "peak = [each for each in open('/proc/self/status') if each.startswith('VmHWM:')]\n"
        "print(peak[0].split()[1], file=sys.stderr)\n"
    )
    peaks = []
    for lines in (100, 1500):
        log = tmp_path / f"{lines}.jsonl"
        log.write_text(SESSION.splitlines(keepends=True)[0].replace("/a", "/" + "a" * 4000) * lines)
        done = subprocess.run(
            [sys.executable, "-c", code, str(log)], check=True, capture_output=True, text=True, timeout=60
        )
        assert json.loads(done.stdout)["count"] == lines
        peaks.append(int(done.stderr))
    assert peaks[1] - peaks[0] < 2 << 10  # KiB; the second log has 5 MiB more
