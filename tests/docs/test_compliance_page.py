"""The compliance page names only checks, commands, options, kinds of records and pages that exist."""

from __future__ import annotations

import importlib
import re

import click
import pytest
from tests.docs.console import ROOT
from tests.docs.test_pages import targets

from affiant.__main__ import COMMANDS
from affiant.attestation.schema.records import KINDS
from affiant.attestation.verifier.verify_bundle import CHECKS

PAGE = ROOT / "docs" / "compliance.md"
TEXT = PAGE.read_text()
QUOTED = re.findall(r"`([^`]+)`", TEXT)
NAMED_COMMANDS = sorted({each for each in QUOTED if each.startswith("affiant ")})
NAMED_CHECKS = sorted({each for each in QUOTED if re.fullmatch(r"[a-z]+\.[a-z_]+", each)})


def command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that ``words`` name, and those of its arguments."""
    module, _, attribute = COMMANDS[words[0]].place.partition(":")
    found = getattr(importlib.import_module(f"affiant.{module}"), attribute)
    rest = words[1:]
    while isinstance(found, click.Group) and rest and not rest[0].startswith("-"):
        found = found.commands[rest.pop(0)]
    return found, rest


@pytest.mark.parametrize("text", NAMED_COMMANDS)
def test_every_command_that_is_named_exists_with_its_options(text: str) -> None:
    found, rest = command(text.split()[1:])
    options = {name for parameter in found.params for name in parameter.opts}
    assert [each for each in rest if each.startswith("--") and each not in options] == []


@pytest.mark.parametrize("code", NAMED_CHECKS)
def test_every_check_that_is_named_is_a_row_of_a_verdict(code: str) -> None:
    assert code in {getattr(check, "code", check) for check in CHECKS}


def test_kinds_of_records_that_are_named_exist() -> None:
    known = {str(kind) for kind in KINDS}
    assert {"session-start", "session-close", "erasure"} <= known
    named = {each for each in QUOTED if re.fullmatch(r"[a-z]+-[a-z]+|erasure", each)}
    assert named <= known


def test_much_is_named_and_every_link_leads_somewhere() -> None:
    assert len(NAMED_CHECKS) > 15
    assert len(NAMED_COMMANDS) > 10
    assert [str(target) for target in targets(PAGE) if not target.exists()] == []
    assert PAGE.resolve() in targets(ROOT / "docs" / "README.md")


RULES = {
    "EU AI Act": ["12(1)", "12(2)", "12(3)", "19(1)", "26(6)"],
    "ISO/IEC 42001": ["A.6.2.8", "A.9.4"],
    "SOC 2": ["CC6.1", "CC7.2", "CC8.1"],
    "GDPR": ["5(1)", "17", "32(1)"],
}


@pytest.mark.parametrize("rule", RULES)
def test_each_row_says_what_is_not_shown(rule: str) -> None:
    section = next(part for part in TEXT.split("\n## ") if part.startswith(rule))
    rows = [row.strip("| ").split(" | ") for row in re.findall(r"^\|.*\|$", section, re.MULTILINE)]
    heads, _, *entries = rows
    assert heads[-1] == "what it does not show"
    assert all(len(row) == len(heads) and len(row[-1]) > 20 for row in entries)
    named = " ".join(row[0] for row in entries)
    assert [each for each in RULES[rule] if each not in named] == []
