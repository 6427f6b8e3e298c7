"""``affiant policy compile``: where documents and report go, what is never replaced, and the exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.policy.commands import policy
from affiant.policy.exports.compile_command import TARGETS
from affiant.policy.loading.profile_set import Profile

PROFILES = """\
agent_configs:
  web:
    network_egress:
      - {host: api.b.com, paths: [/v1]}
      - host: open.b.com
  tools: {tools: [x]}
"""
PAGE = Path(__file__).parents[3] / "docs" / "policy-exports.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.yaml"
    path.write_text(PROFILES)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(policy, ["compile", *map(str, arguments)])


def test_the_document_goes_to_standard_output_and_the_report_to_standard_error(file: Path) -> None:
    result = run(file, "web", "--target", "srt")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["network"]["allowedDomains"] == []
    assert "profiles.yaml:4:9: omitted: egress/0: " in result.stderr
    assert "--allow-wider requests" in result.stderr


def test_an_accepted_kind_writes_what_is_loose_in_it_alone(file: Path) -> None:
    result = run(file, "web", "--target", "srt", "--allow-wider", "protocol")
    assert json.loads(result.stdout)["network"]["allowedDomains"] == ["open.b.com:443"]
    assert "profiles.yaml:5:9: widened: egress/1: " in result.stderr
    both = run(file, "web", "--target", "srt", "--allow-wider", "protocol", "--allow-wider", "requests")
    assert json.loads(both.stdout)["network"]["allowedDomains"] == ["api.b.com:443", "open.b.com:443"]
    assert run(file, "web", "--target", "srt", "--allow-wider", "all").stdout == both.stdout


def test_an_unknown_kind_is_refused_with_those_there_are(file: Path) -> None:
    result = run(file, "web", "--target", "srt", "--allow-wider", "everything")
    assert result.exit_code == 2
    assert "protocol: any protocol passes" in result.stderr


def test_one_document_is_a_file_and_nothing_is_replaced(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "web.yaml"
    assert run(file, "web", "--target", "cilium", "-o", place).exit_code == 0
    before = place.read_bytes()
    again = run(file, "tools", "--target", "cilium", "-o", place)
    assert again.exit_code == 2 and "exists already" in again.stderr
    assert place.read_bytes() == before
    assert run(file, "web", "--target", "srt", "-o", file).exit_code == 2
    assert file.read_text() == PROFILES


def test_several_documents_are_a_folder_all_or_none(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    assert run(file, "web", "--target", "cedar").exit_code == 2
    assert run(file, "--target", "cedar", "-o", place).exit_code == 0
    names = ["tools.cedar", "tools.cedarschema", "web.cedar", "web.cedarschema"]
    assert sorted(path.name for path in place.iterdir()) == names
    (place / "web.cedar").unlink()
    assert run(file, "--target", "cedar", "-o", place).exit_code == 2
    assert not (place / "web.cedar").exists()


def test_a_dangling_link_is_not_written_through(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "link"
    place.symlink_to(tmp_path / "elsewhere")
    assert run(file, "web", "--target", "srt", "-o", place).exit_code == 2
    assert not (tmp_path / "elsewhere").exists()


def test_json_holds_documents_and_losses(file: Path) -> None:
    result = run(file, "tools", "--target", "cedar", "--json")
    (profile,) = json.loads(result.stdout)["profiles"]
    assert [document["name"] for document in profile["documents"]] == ["tools.cedar", "tools.cedarschema"]
    assert profile["exact"] == ["tools/0"]
    (loss,) = profile["losses"]
    assert (loss["rule"], loss["kind"], loss["outcome"], loss["direction"], loss["allow_wider"]) == (
        *("profile", "canonical", "unjudged", "wider"),
        False,
    )


def test_a_loss_fails_where_that_was_asked_for(file: Path) -> None:
    result = run(file, "web", "--target", "srt", "--fail-on-loss")
    assert result.exit_code == 1
    assert json.loads(result.stdout)


def test_an_unknown_agent_writes_nothing(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    assert run(file, "nobody", "--target", "srt", "-o", place).exit_code == 1
    assert not place.exists()


def test_every_document_names_the_profile_and_its_digest(file: Path) -> None:
    for target in TARGETS:
        result = run(file, "web", "--target", target, "--json")
        (profile,) = json.loads(result.stdout)["profiles"]
        for document in profile["documents"]:
            assert "web (profiles.yaml)" in document["text"]
            assert profile["policy_digest"] in document["text"]
            assert "change the profile, not this file" in document["text"]


RICH = """
tools: [Read, Glob, Edit, Write, WebFetch, Bash, run_tests, {name: mcp__a__b, approval: true},
  {name: odd, args: {p: {argv: [[a]]}}}, {name: Grep, args: {p: any}},
  {name: search, server: github, schema: 'sha256:%s'}],
filesystem_access: [read:/w, 'read-write:/w/o', {path: "/w/s (1)", mode: none}, "read:/data (x)"],
network_egress: [{host: api.b.com, methods: [GET, POST], paths: [/v1]}, {host: "**.c.com"}, {host: "*.d.com"},
  {host: plain.e.com, scheme: http}, {host: private, address: 10.1.0.0/16}, {deny: x.c.com}],
secrets_access: [{name: KEY, hosts: [api.b.com], ref: "local:KEY"}], models: [small], resources: {cpus: 2},
requires_human_approval: {egress: [POST]}
""".replace("%s", "a" * 64)


def test_the_page_names_every_kind_of_loss(profile_of: Callable[..., Profile]) -> None:
    page = PAGE.read_text()
    profiles = [profile_of(RICH), profile_of("filesystem_access: 'read:/w', network_egress: 'allowed:a.b'")]
    losses = [
        loss
        for target in TARGETS.values()
        for profile in profiles
        for accepted in (frozenset[str](), frozenset(target.wider))
        for loss in target.export(profile, accepted).losses
    ]
    kinds = {loss.kind for loss in losses}
    assert kinds >= {kind for target in TARGETS.values() for kind in target.wider}
    assert len(kinds) > 20
    for kind in sorted(kinds):
        assert f"`{kind}`" in page, kind


def test_the_examples_of_the_page_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROFILES.replace("  web:", "  deployment_agent: {}\n  code_implementer: {}\n  crawler: {}\n  web:")
    file.write_text(text)
    commands = re.findall(r"^affiant policy compile (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        arguments = command.partition(">")[0].split()
        result = CliRunner().invoke(policy, ["compile", *arguments])
        assert result.exit_code == (1 if "--fail-on-loss" in arguments else 0), (command, result.output)
