"""docs/evidence_sources.md is true: its commands exist, it names every source and code, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from affiant.__main__ import cli
from affiant.attestation.error_codes import ERROR_CODES
from affiant.attestation.quote.providers.base import errors
from affiant.attestation.quote.providers.collection import AUTO_ORDER, ProviderName
from affiant.attestation.simulated.platform.errors import PlatformUnreachableError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evidence_sources.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_its_commands_exist_with_their_options() -> None:
    commands = re.findall(r"^affiant quote ([a-z]+)([^\n]*)", TEXT, re.MULTILINE)
    assert {name for name, _ in commands} == {"sources", "take"}
    for name, rest in commands:
        help_text = CliRunner().invoke(cli, ["quote", name, "--help"]).output
        for option in re.findall(r"--[a-z0-9-]+", rest):
            assert option in help_text, f"{name} {option}"


def test_it_names_every_source_in_the_order_of_auto() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE)
    assert rows == list(ProviderName)
    assert list(ProviderName)[:-1] == list(AUTO_ORDER)


def test_its_codes_are_those_of_the_code() -> None:
    known = {getattr(errors, name).code for name in errors.__all__} | {PlatformUnreachableError.code}
    known |= ERROR_CODES.keys()
    row = next(line for line in TEXT.splitlines() if line.startswith("| 1 |"))
    assert set(re.findall(r"`([a-z]+\.[a-z]+)`", row)) <= known


def test_it_says_what_was_not_run() -> None:
    assert "**No hardware and no Azure machine has run this yet**" in TEXT
