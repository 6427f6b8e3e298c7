"""Users read plain words: pages, help, messages and first sentences have none of the words that were replaced."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.plain_words import PACKAGES, ROOT, Text, Use, help_texts, module_texts, page_texts, uses

from affiant.__main__ import COMMANDS, cli

SCANNED = (
    "attestation/affiant/attestation/anchors",
    "attestation/affiant/attestation/audit",
    "attestation/affiant/attestation/bundle",
    "attestation/affiant/attestation/cli/bundle",
    "attestation/affiant/attestation/cli/collateral",
    "attestation/affiant/attestation/cli/log",
    "attestation/affiant/attestation/cli/options",
    "attestation/affiant/attestation/cli/platform",
    "attestation/affiant/attestation/cli/quote",
    "attestation/affiant/attestation/encoding",
    "attestation/affiant/attestation/erasure",
    "attestation/affiant/attestation/log",
    "attestation/affiant/attestation/log_reading",
    "attestation/affiant/attestation/quote",
    "attestation/affiant/attestation/records",
    "attestation/affiant/attestation/release",
    "attestation/affiant/attestation/schema",
    "attestation/affiant/attestation/signatures",
    "attestation/affiant/attestation/simulated",
    "attestation/affiant/attestation/statements",
    "attestation/affiant/attestation/tdx",
    "attestation/affiant/attestation/tlog",
    "attestation/affiant/attestation/verdict",
    "attestation/affiant/attestation/verifier",
    "attestation/fault_scenarios",
    "gateway",
    "policy",
    "sandbox",
    "secrets",
)
"""Folders whose modules and pages are looked at: all of them."""
PAGES = (
    "attestation/vectors/README.md",
    "README.md",
    "docs",
    "attestation/README.md",
    "attestation/verifier-js/README.md",
)
NOT_SCANNED = {
    "docs/adr": "decisions keep the words of their day",
    "docs/errors.md": "it repeats docstrings, which say `refused` of what an error does",
}
"""Pages that are not looked at, and why."""


class Allowed(NamedTuple):
    """A phrase that stays: ``where`` is a path or a command, in which ``*`` stands for anything."""

    where: str
    phrase: str
    reason: str

    def allows(self, use: Use) -> bool:
        return fnmatch(use.where, self.where) and self.phrase.lower() in use.phrase.lower()


ALLOWED = [Allowed(**each) for each in json.loads((ROOT / "tests" / "plain_words_allowed.json").read_text())]


def found(texts: Iterator[Text]) -> list[str]:
    return [
        f"{use.where}:{use.line}: {use.word!r} in '{use.phrase}'"
        for text in texts
        for use in uses(text)
        if not any(each.allows(use) for each in ALLOWED)
    ]


def pages_in(place: Path) -> Iterator[Path]:
    pages = place.rglob("*.md") if place.is_dir() else iter((place,))
    return (path for path in pages if not str(path.relative_to(ROOT)).startswith(tuple(NOT_SCANNED)))


@pytest.mark.parametrize("folder", SCANNED)
def test_messages_and_first_sentences_of_modules_use_plain_words(folder: str) -> None:
    assert found(module_texts(ROOT / folder)) == []


def test_messages_and_first_sentences_of_shared_modules_use_plain_words() -> None:
    shared = sorted((ROOT / "attestation" / "affiant").glob("*.py"))
    assert len(shared) > 8
    assert found(chain.from_iterable(module_texts(path) for path in shared)) == []


@pytest.mark.parametrize("place", [*SCANNED, *PAGES])
def test_pages_use_plain_words(place: str) -> None:
    assert found(page_texts(pages_in(ROOT / place))) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_uses_plain_words(name: str) -> None:
    module, _, attribute = COMMANDS[name].place.partition(":")
    command = getattr(importlib.import_module(f"affiant.{module}"), attribute)
    assert found(help_texts(command, f"affiant {name}")) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_says_what_it_does(name: str) -> None:
    module, _, attribute = COMMANDS[name].place.partition(":")
    command = getattr(importlib.import_module(f"affiant.{module}"), attribute)
    helps = (text for text in help_texts(command, f"affiant {name}") if text.where.endswith("--help"))
    assert [text.where for text in helps if not text.text.strip()] == []


def test_the_list_of_commands_uses_plain_words() -> None:
    summaries = (Text("affiant --help", 1, entry.summary) for entry in COMMANDS.values())
    assert found(chain(summaries, (Text("affiant --help", 1, cli.help or ""),))) == []


def test_every_folder_is_looked_at() -> None:
    named = {*SCANNED}
    assert all((ROOT / folder).is_dir() for folder in named)
    for package in PACKAGES:
        root = ROOT / package / "affiant" / package
        for module in root.rglob("*.py"):
            above = {str(each.relative_to(ROOT)) for each in module.parents if each.is_relative_to(ROOT)}
            assert above & named or module.name == "__init__.py" or module.parent == root, module


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A refusal and two refusals", ["refusal", "refusals"]),
        ("the kind `refusal` is a record", []),
        ("given ``instant`` it is\nTOLD", ["told"]),
        ("no room for it", []),
        ("the room", ["room"]),
        ("retold, cardinal, weighted, crewed", []),
        ("It stands in for the host", ["stands in"]),
    ],
)
def test_a_word_is_found_outside_of_code_alone(text: str, words: list[str]) -> None:
    assert [use.word for use in uses(Text("here", 1, text))] == words


def test_a_word_has_its_line_and_the_words_around_it() -> None:
    (use,) = uses(Text("page.md", 7, "one\ntwo\nthree was told and went"))
    assert use == Use("page.md", 9, "told", "two three was told and went")


def test_code_blocks_and_targets_of_links_are_not_looked_at(tmp_path: Path) -> None:
    text = "```\ntold\n```\n[a page](told.md) was told\n"
    made = tmp_path / "page.md"
    made.write_text(text)
    (seen,) = page_texts(iter((made,)), below=tmp_path)
    assert [(use.line, use.word) for use in uses(seen)] == [(4, "told")]


def test_each_exception_is_used_and_has_its_reason() -> None:
    texts = list(chain.from_iterable(page_texts(pages_in(ROOT / place)) for place in [*SCANNED, *PAGES]))
    texts += chain.from_iterable(module_texts(ROOT / folder) for folder in SCANNED)
    everything = [use for text in texts for use in uses(text)]
    for each in ALLOWED:
        assert each.reason
        assert each.where.startswith("affiant ") or any(each.allows(use) for use in everything), each
