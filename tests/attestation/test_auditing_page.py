"""docs/auditing.md is true: its commands run as shown, in its order, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.__main__ import cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "auditing.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    vectors = ROOT / "attestation" / "vectors" / "receipts"
    shutil.copytree(vectors / "valid", tmp_path / "valid")
    shutil.copy(vectors / "trust.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = (["reconcile"], ["receipts", "index"], ["receipts", "find"])


def steps() -> list[tuple[str, int, list[str]]]:
    """Each command, its exit code and what is shown of its output."""
    found = []
    for block in BLOCKS:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            command, _, code = line.partition("  # exit ")
            found.append((command, int(code or 0), shown.splitlines()))
    return found


def test_its_commands_print_what_it_shows(folder: Path) -> None:
    ran = 0
    for command, code, shown in steps():
        program, *arguments = shlex.split(command)
        if program == "cat":
            (folder / arguments[0]).write_text("".join(f"{line}\n" for line in shown))
            continue
        assert program == "affiant"
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == code, f"{command}\n{result.output}"
        lines = iter(result.output.splitlines())
        for expected in shown:
            if expected != "...":
                assert expected in lines, f"{command}\nlacks {expected!r}\n{result.output}"
        ran += 1
    assert ran >= 5


def test_its_options_exist() -> None:
    help_text = "".join(CliRunner().invoke(cli, [*name, "--help"]).output for name in COMMANDS)
    for option in sorted(set(re.findall(r"--[a-z][a-z-]+", PAGE.read_text()))):
        assert option in help_text, option
