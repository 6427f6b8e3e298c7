"""docs/attestation.md is true: its lines run, its commands exist, its exit codes are those of the code."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import affiant.attestation as attestation
import fault_scenarios
from affiant.__main__ import cli
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.verdict.verdict import EXIT_CODES, EXIT_SIMULATED

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "attestation.md"
WITH_EXAMPLES = [
    ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts))
    for package in (attestation, fault_scenarios)
    for folder in map(Path, package.__path__)
    for path in sorted(folder.rglob("*.py"))
    if path.name != "__init__.py" and ">>> " in path.read_text(encoding="utf-8")
]


def test_its_lines_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 15
    assert result.failed == 0


def test_a_quote_is_checked_in_ten_lines() -> None:
    lines = PAGE.read_text().partition("## The same, from Python")[2].split("\n\n")
    block = next(part for part in lines if part.startswith(">>> "))
    assert block.count(">>> ") == 10
    assert block.rstrip().splitlines()[-1].startswith(">>> verified = verify_quote(")


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_its_commands_exist_with_their_options() -> None:
    text = PAGE.read_text().replace("\\\n", " ")
    commands = re.findall(r"^affiant quote ([a-z]+)([^\n]*)", text, re.MULTILINE)
    assert {name for name, _ in commands} == {"inspect", "verify", "explain", "eventlog"}
    for name, rest in commands:
        help_text = CliRunner().invoke(cli, ["quote", name, "--help"]).output
        for option in re.findall(r"--[a-z0-9-]+", rest):
            assert option in help_text, f"{name} {option}"


def test_its_exit_codes_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| ([a-z]+) \|", PAGE.read_text(), re.MULTILINE))
    expected = {str(code): str(tier) for tier, code in EXIT_CODES.items()}
    assert rows == expected | {str(EXIT_SIMULATED): "simulated", "2": "usage"}


def test_it_names_every_status() -> None:
    text = PAGE.read_text()
    for status in TCBStatus:
        assert f"`{status.value}`" in text


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (DOCS / target).exists(), target
