"""The task label in a session's folder: shown behind the start record that commits to it, and nowhere else."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.attestation.story import Story
from tests.attestation.verifier.test_verify_bundle import judge
from tests.raising import raises_code

from affiant.attestation.records.task_label import TaskLabel, make_task_label
from affiant.sandbox.session_state.task_label import keep_label, kept_label, with_label

LABEL = make_task_label({"workflow": "nightly", "attempt": 3}, random_bytes=random.Random(1).randbytes)
OTHER = make_task_label({"task": "another"}, random_bytes=random.Random(2).randbytes)
HIDDEN = TaskLabel(LABEL.digests, ())


def shown(
    story: Story, disclosures: tuple[str, ...], *, session: str | None = None
) -> dict[str, dict[str, int]]:
    bundle = with_label(story.bundle(), disclosures, session=session or story.session)
    verdict = judge(bundle.to_bytes())
    assert verdict.exit_code == 40
    return {
        name: verdict.summary.uses[name] for name in ("workflow", "attempt") if name in verdict.summary.uses
    }


def test_what_was_kept_is_shown(tmp_path: Path) -> None:
    keep_label(tmp_path, LABEL)
    assert (tmp_path / "task.json").stat().st_mode & 0o777 == 0o600
    assert shown(Story(task=HIDDEN), kept_label(tmp_path)) == {
        "workflow": {"nightly": 1},
        "attempt": {"3": 1},
    }


def test_a_session_without_a_label_shows_none(tmp_path: Path) -> None:
    assert kept_label(tmp_path) == ()
    assert shown(Story(), LABEL.disclosures) == {}


def test_a_label_that_the_start_does_not_commit_to_is_not_shown() -> None:
    assert shown(Story(task=HIDDEN), OTHER.disclosures) == {}
    assert shown(Story(task=HIDDEN), LABEL.disclosures, session="A" * 22) == {}


def test_a_label_that_is_shown_already_is_not_repeated() -> None:
    assert shown(Story(task=LABEL), LABEL.disclosures)["attempt"] == {"3": 1}


def test_a_label_is_kept_once(tmp_path: Path) -> None:
    keep_label(tmp_path, LABEL)
    with pytest.raises(FileExistsError):
        keep_label(tmp_path, OTHER)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"disclosures":"x"}', b'{"disclosures":[1]}', b"x" * 20_000]
)
def test_another_form_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "task.json").write_bytes(content)
    with pytest.raises(Exception) as caught:
        kept_label(tmp_path)
    assert getattr(caught.value, "code", None) in ("session.bundle", "fmt.json")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/etc/passwd", path), os.mkdir])
def test_what_is_no_plain_file_is_not_followed_and_not_waited_for(tmp_path: Path, make) -> None:
    make(tmp_path / "task.json")
    with raises_code("session.bundle"):
        kept_label(tmp_path)
