"""The README's commands are true: each quick start is run literally, in a fresh copy of the tree, as by a new user."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.docs.console import ROOT, commands, fresh_copy, play

README = (ROOT / "README.md").read_text()
READERS = ("agent developers", "compliance teams", "security reviewers", "operators")


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_has_a_quick_start_that_ends_with_where_to_go_on(reader: str) -> None:
    text = section(f"For {reader}")
    assert len(commands(text)) >= 3
    last = text.strip().split("\n\n")[-1]
    assert last.startswith("**Go on:**")
    for link in re.findall(r"\]\(([^)#]+)", last):
        assert (ROOT / link).exists(), link


def test_make_knows_the_commands_that_the_readme_names() -> None:
    targets = re.findall(r"^(?:\$ )?make ([a-z-]+)", README, re.MULTILINE)
    assert {"demo", "test", "setup"} <= set(targets)
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, target


def test_no_command_of_the_readme_stands_outside_of_what_is_run() -> None:
    run = [
        command
        for title in ("Install", *(f"For {reader}" for reader in READERS))
        for command in commands(section(title))
    ]
    assert run
    assert len(commands(README)) == len(run)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reader", READERS)
def test_the_quick_start_works_literally_in_a_fresh_clone(reader: str, tmp_path: Path) -> None:
    steps = [*commands(section("Install")), *commands(section(f"For {reader}"))]
    play(steps, fresh_copy(tmp_path / "clone"), home=tmp_path / "home")
