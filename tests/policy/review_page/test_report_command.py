"""``affiant policy report`` as reviewers call it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli

FILE = "floor: floor.yaml\nagent_configs: {dev: {tools: [x, y]}}\n"
OLD = "agent_configs: {dev: {tools: [x]}}\n"
FLOOR = "tools: [{deny: y}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "new.yaml").write_text(FILE)
    (tmp_path / "old.yaml").write_text(OLD)
    (tmp_path / "floor.yaml").write_text(FLOOR)
    return tmp_path


def report(folder: Path, *arguments: str) -> Result:
    paths = [str(folder / each) if each.endswith((".yaml", ".html")) else each for each in arguments]
    return CliRunner().invoke(cli, ["policy", "report", *paths])


def test_the_commands_of_the_documentation_are_true(folder: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "policy-review.md").read_text()
    commands = re.findall(r"^\$ affiant policy report (.*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for name in ("profiles.yaml", "after.yaml"):
        (folder / name).write_text(FILE)
    (folder / "before.yaml").write_text(OLD)
    for command in commands:
        assert report(folder, *command.split()).exit_code == 0
    assert "What changed" in (folder / "review.html").read_text()


def test_the_examples_of_the_help_are_true(folder: Path, seed_path: Path) -> None:
    text = CliRunner().invoke(cli, ["policy", "report", "--help"]).output
    examples = re.findall(r"^ +affiant policy report (.*?)(?: > .*)?$", text, re.MULTILINE)
    assert len(examples) == 4
    for name in ("profiles.yaml", "before.yaml", "after.yaml"):
        (folder / name).write_bytes(seed_path.read_bytes())
    for example in examples:
        assert report(folder, *example.split()).exit_code == 0, example
        (folder / "report.html").unlink(missing_ok=True)


def test_a_page_is_written_and_nothing_is_printed(folder: Path) -> None:
    done = report(folder, "new.yaml", "-o", "r.html")
    assert (done.exit_code, done.output) == (0, "")
    page = (folder / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert str(folder) not in page
    assert "floor.yaml:1" in page
    assert sorted(each.name for each in folder.iterdir()) == ["floor.yaml", "new.yaml", "old.yaml", "r.html"]


def test_the_page_goes_to_standard_output_and_is_the_same(folder: Path) -> None:
    report(folder, "new.yaml", "--against", "old.yaml", "-o", "r.html")
    done = report(folder, "new.yaml", "--against", "old.yaml", "-o", "-")
    assert done.exit_code == 0
    assert done.stdout == (folder / "r.html").read_text()
    assert not (folder / "-").exists()


def test_json_says_what_was_written_and_what_is_in_it(folder: Path) -> None:
    done = report(folder, "new.yaml", "--against", "old.yaml", "-o", "r.html", "--json")
    found = json.loads(done.stdout)
    page = (folder / "r.html").read_bytes()
    assert found["page"] == f"sha256:{hashlib.sha256(page).hexdigest()}"
    assert found["digest"].encode() in page
    assert (found["agents"], found["wider"], found["narrower"], found["left_out"]) == (["dev"], 0, 0, 0)
    assert found["warnings"] == 0
    assert report(folder, "new.yaml", "-o", "-", "--json").exit_code == 2


def test_a_file_that_is_there_is_replaced_only_by_force(folder: Path) -> None:
    (folder / "r.html").write_text("mine")
    done = report(folder, "new.yaml", "-o", "r.html")
    assert (done.exit_code, "--force replaces it" in done.output) == (2, True)
    assert (folder / "r.html").read_text() == "mine"
    assert report(folder, "new.yaml", "-o", "r.html", "--force").exit_code == 0
    assert "mine" not in (folder / "r.html").read_text()


def test_what_is_read_is_never_replaced_not_even_by_force(folder: Path) -> None:
    for place in ("new.yaml", "old.yaml", "floor.yaml"):
        (folder / "link.html").unlink(missing_ok=True)
        (folder / "link.html").symlink_to(folder / place)
        for output in (place, "link.html"):
            done = report(folder, "new.yaml", "--against", "old.yaml", "-o", output, "--force")
            assert (done.exit_code, "is read" in done.output) == (2, True), output
    assert [(folder / name).read_text() for name in ("new.yaml", "old.yaml", "floor.yaml")] == [
        FILE,
        OLD,
        FLOOR,
    ]


def test_a_file_that_is_refused_leaves_no_page(folder: Path) -> None:
    (folder / "bad.yaml").write_text("agent_configs: {dev: {tool: [ghp_0123456789abcdefghij]}}")
    for arguments in (["bad.yaml"], ["new.yaml", "--against", "bad.yaml"], ["none.yaml"]):
        done = report(folder, *arguments, "-o", "r.html")
        assert done.exit_code == 1
        assert "ghp_" not in done.output
    assert not (folder / "r.html").exists()


def test_a_wrong_command_line_is_2_and_a_full_disk_is_not(folder: Path) -> None:
    assert report(folder, "new.yaml").exit_code == 2
    assert report(folder, "new.yaml", "-o", "none/r.html").exit_code == 2
    assert report(folder, "new.yaml", "-o", "r.html", "--at", "soon").exit_code == 2
    assert report(folder, "new.yaml", "-o", "/dev/full").exit_code == 1
    assert report(folder, "new.yaml", "-o", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_an_instant_is_printed_only_where_one_is_given(folder: Path) -> None:
    assert "Reviewed at" not in report(folder, "new.yaml", "-o", "-").stdout
    done = report(folder, "new.yaml", "-o", "-", "--at", "2026-11-22T04:00:00Z")
    assert "2026-11-22T04:00:00Z" in done.stdout


def test_one_agent_may_be_asked_for_and_an_unknown_one_is_refused(folder: Path) -> None:
    (folder / "two.yaml").write_text("agent_configs: {a: {tools: [x]}, b: {tools: [y]}}")
    assert "1 more agents" in report(folder, "two.yaml", "--agent", "a", "-o", "-").stdout
    done = report(folder, "two.yaml", "--agent", "c", "-o", "r.html")
    assert (done.exit_code, "[policy.unknown_agent]" in done.output) == (1, True)


def test_more_agents_than_a_page_holds_are_no_page_of_some(folder: Path) -> None:
    agents = ", ".join(f"a{at}: {{}}" for at in range(501))
    (folder / "many.yaml").write_text(f"agent_configs: {{{agents}}}")
    done = report(folder, "many.yaml", "-o", "r.html")
    assert (done.exit_code, "at most 500" in done.output) == (2, True)
    assert report(folder, "many.yaml", "--agent", "a7", "-o", "r.html").exit_code == 0
