"""What a shell completes: agents and rule ids, never an error, and never more than the file's reader takes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from affiant.__main__ import cli

PROFILES = """\
agent_configs:
  deployer:
    tools: [run, {name: apply, args: {copies: {max: 3}}}]
    network_egress: [{host: api.cloud.com, methods: [GET]}]
    limits: {tokens: 2M/day}
    tests: [{allow: {tool: nothing_allows_this}}]
  developer: {tools: [ls]}
"""
HOSTILE = {
    "no file of profiles": "- a",
    "not yaml": "agent_configs: [",
    "deep": "agent_configs: " + "[" * 60_000,
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nagent_configs: {dev: *b}",
    "a name that steers a terminal": 'agent_configs: {"a\\e[31mb": {}}',
    "another name that no agent has": "agent_configs: {'a b; rm -rf /': {}, dev: {}}",
    "a refused profile": "agent_configs: {dev: {tolos: []}}",
    "a floor elsewhere": "floor: ../../etc/passwd\nagent_configs: {dev: {}}",
    "a floor that is not there": "floor: none.yaml\nagent_configs: {dev: {}}",
}


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PROFILES)

    def run(*args: str, typed: str = "") -> list[str]:
        found = ShellComplete(cli, {}, "affiant", "_AFFIANT_COMPLETE").get_completions(list(args), typed)
        return [each.value for each in found]

    return run


@pytest.mark.parametrize(
    "args",
    [
        *(("policy", name, "p.yaml") for name in ("can", "explain", "digest", "show", "compile")),
        ("policy", "rule", "p.yaml", "--agent"),
        ("policy", "report", "p.yaml", "--agent"),
        ("policy", "diff", "old.yaml", "p.yaml", "--agent"),
        ("policy", "learn", "--from", "p.yaml", "--agent"),
        ("policy", "decisions", "d.jsonl", "--profiles", "p.yaml", "--agent"),
        ("run", "--profile", "p.yaml", "--agent"),
        ("session", "narrow", "s1", "p.yaml", "--agent"),
    ],
)
def test_agents_of_the_file_are_completed(complete, args: tuple[str, ...]) -> None:
    assert complete(*args) == ["deployer", "developer"]
    assert complete(*args, typed="dev") == ["developer"]
    assert complete(*args, typed="x") == []


def test_the_rules_of_a_floor_that_is_named_are_completed_too(complete) -> None:
    Path("org.yaml").write_text("tools: [{deny: kubectl}]")
    asked = ("policy", "rule", "p.yaml", "--agent", "developer")
    assert complete(*asked) == ["tools/0"]
    assert complete(*asked, "--floor", "org.yaml") == ["tools/0", "tools/1"]
    assert complete(*asked, "--floor", "nowhere.yaml") == []


def test_rules_are_completed_where_it_is_known_whose(complete) -> None:
    rules = ["tools/0", "tools/1", "egress/0", "limits/tokens"]
    assert complete("policy", "rule", "p.yaml", "--agent", "deployer") == rules
    assert complete("policy", "rule", "p.yaml", "--agent", "deployer", typed="e") == ["egress/0"]
    assert complete("policy", "rule", "p.yaml", "--agent", "deployer", "tools/0", "tools/1") == rules[2:]
    assert complete("policy", "rule", "p.yaml") == complete("policy", "rule", "p.yaml", "--agent", "x") == []
    Path("one.yaml").write_text("agent_configs: {dev: {tools: [ls]}}")
    assert complete("policy", "rule", "one.yaml") == ["tools/0"]


def test_every_rule_that_is_completed_is_one(complete) -> None:
    ids = complete("policy", "rule", "p.yaml", "--agent", "deployer")
    Path("p.yaml").write_text(PROFILES.replace("nothing_allows_this", "run"))
    done = CliRunner().invoke(cli, ["policy", "rule", "p.yaml", *ids, "--agent", "deployer"])
    assert done.exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_refused_prints_nothing(complete, shell: str, text: str) -> None:
    Path("h.yaml").write_text(text)
    for words in ("affiant policy can h.yaml ", "affiant policy rule h.yaml --agent dev "):
        done = CliRunner().invoke(
            cli,
            env={
                "_AFFIANT_COMPLETE": f"{shell}_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split())),
            },
            prog_name="affiant",
        )
        assert done.stderr == ""
        assert done.exit_code == 0
        assert done.stdout.isprintable() or done.stdout.replace("\n", "").replace("\t", "").isprintable()
        assert "rm -rf" not in done.stdout


def test_neither_a_folder_nor_a_pipe_is_waited_for(complete) -> None:
    os.mkfifo("pipe.yaml")
    for name in ("pipe.yaml", ".", "missing.yaml", "/dev/zero"):
        assert complete("policy", "can", name) == complete("policy", "rule", name, "--agent", "dev") == []


def test_the_profiles_of_other_agents_are_not_read(complete) -> None:
    """Of a file full of the dearest patterns, completing costs no more than the keys, and one profile."""
    dear = (
        "["
        + ", ".join(f"{{name: t{n}, args: {{a: {{pattern: '(a?b?c?){{{60 + n}}}'}}}}}}" for n in range(8))
        + "]"
    )
    Path("big.yaml").write_text(
        "agent_configs:\n"
        + "".join(f"  a{n}: {{tools: {dear}}}\n" for n in range(30))
        + "  dev: {tools: [ls]}\n"
    )
    start = time.process_time()
    assert len(complete("policy", "can", "big.yaml")) == 31
    assert complete("policy", "rule", "big.yaml", "--agent", "dev") == ["tools/0"]
    assert time.process_time() - start < 5
