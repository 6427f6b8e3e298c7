"""A store over sessions that differ in their platform, profile or image."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.story import NOW, Story, trust_bytes

from affiant.attestation.cli.bundle.receipts_commands import receipts

AT = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def affiant(tmp_path: Path) -> Callable[..., Result]:
    """``affiant receipts`` with the store of this test."""
    (tmp_path / "trust.json").write_bytes(trust_bytes())

    def run(command: str, *more: str) -> Result:
        arguments = [command, "--store", str(tmp_path / "receipts.sqlite"), *more]
        if command == "index":
            arguments += ["--trust", str(tmp_path / "trust.json"), "--at", AT]
        return CliRunner().invoke(receipts, arguments)

    return run


@pytest.fixture
def indexed(affiant: Callable[..., Result], tmp_path: Path) -> Callable[[Sequence[Story]], list[Story]]:
    """Writes and indexes the bundles of stories."""

    def run(stories: Sequence[Story]) -> list[Story]:
        paths = []
        for number, story in enumerate(stories):
            paths.append(tmp_path / f"{number}.affiant.json")
            paths[-1].write_bytes(story.bytes())
        result = affiant("index", *map(str, paths))
        assert result.exit_code == 0, result.output
        return list(stories)

    return run


def found(result: Result) -> list[dict]:
    assert result.exit_code in (0, 10), result.output
    return json.loads(result.output)["found"]
