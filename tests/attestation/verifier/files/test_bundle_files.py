"""Which files a reader's arguments stand for, and that no file keeps the others from being judged."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.attestation.period_builder import build
from tests.attestation.story import NOW, Story, trust

from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.files import bundle_files
from affiant.attestation.verifier.files.bundle_files import examine_file, find_bundles
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS

QUESTION = Question(verifiers=STANDARD_VERIFIERS, trust=trust(), at=NOW, build="build")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.affiant.json",
        "a.affiant.json",
        "deep/er/c.affiant.zip",
        "notes.json",
        "a.affiant.json.bak",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"{}")
    return tmp_path


def test_a_folder_stands_for_every_bundle_below_it_in_order(folder: Path) -> None:
    found = [str(path.relative_to(folder)) for path in find_bundles([folder])]
    assert found == ["a.affiant.json", "b.affiant.json", "deep/er/c.affiant.zip"]


def test_a_file_may_have_any_name_and_is_judged_once(folder: Path) -> None:
    given = [folder / "notes.json", folder / "b.affiant.json", folder, folder / "deep" / ".." / "notes.json"]
    assert [path.name for path in find_bundles(given)] == [
        "notes.json",
        "b.affiant.json",
        "a.affiant.json",
        "c.affiant.zip",
    ]


def test_a_link_that_leads_round_in_a_circle_is_not_followed(folder: Path) -> None:
    (folder / "deep" / "round").symlink_to(folder)
    assert len(find_bundles([folder])) == 3


def refusal(path: Path) -> str | None:
    verdict = examine_file(path, QUESTION).verdict
    assert verdict.exit_code == 20
    assert verdict.checks[0].state is State.REFUSED
    assert verdict.checks[0].code == "fmt.bundle"
    return verdict.checks[0].reason


def test_what_cannot_be_read_is_refused_as_a_verdict(folder: Path) -> None:
    assert refusal(folder / "gone.affiant.json") == "bundle.unreadable"
    assert refusal(folder) == "bundle.unreadable"


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.affiant.json")
    assert refusal(folder / "pipe.affiant.json") == "bundle.unreadable"


def test_a_file_that_is_too_large_is_refused_and_not_read_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_files, "MAX_BUNDLE", 1)
    assert refusal(folder / "a.affiant.json") == "bundle.too_large"


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"{}"])
def test_a_file_that_is_no_bundle_is_refused_where_a_comparison_is_asked(
    folder: Path, content: bytes
) -> None:
    (folder / "p.affiant.zip").write_bytes(content)
    compared = replace(QUESTION, compared=Comparison(None, None))
    verdict = examine_file(folder / "p.affiant.zip", compared).verdict
    assert (verdict.exit_code, verdict.checks[0].code, verdict.changed) == (20, "fmt.bundle", None)


def test_a_period_is_compared_where_that_is_asked(tmp_path: Path) -> None:
    path = build(tmp_path, Story().tell())
    compared = replace(QUESTION, at=NOW + timedelta(days=20), compared=Comparison(NOW, None))
    verdict = examine_file(path, compared).verdict
    assert verdict.changed is not None and verdict.changed.counted is not None
    assert (verdict.changed.by, verdict.changed.counted.judged) == ("asked", 2)
