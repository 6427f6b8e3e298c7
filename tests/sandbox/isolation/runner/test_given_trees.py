"""The input that the agent finds is the one that the activation names, and nothing lies beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.isolation.runner.given_trees import check_input
from affiant.sandbox.workspace.copy_in import copy_in


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "input"
    (folder / "inner").mkdir(parents=True)
    (folder / "agent.py").write_text("print()")
    (folder / "inner" / "data").write_text("1")
    return folder


@pytest.mark.parametrize("place", ["files/0", "files/0/deeper/still"])
def test_the_copy_is_found_where_the_profile_put_it(tmp_path: Path, source: Path, place: str) -> None:
    copied = copy_in(source, tmp_path / "session" / place)
    check_input(tmp_path / "session", copied.digest)


@pytest.mark.parametrize("change", ["changed", "added", "removed", "beside", "executable"])
def test_any_change_is_refused(tmp_path: Path, source: Path, change: str) -> None:
    session = tmp_path / "session"
    copied = copy_in(source, session / "files/0")
    match change:
        case "changed":
            (session / "files/0/agent.py").write_text("import os")
        case "added":
            (session / "files/0/more.py").write_text("")
        case "removed":
            (session / "files/0/inner/data").unlink()
        case "beside":
            (session / "files/1").mkdir()
        case "executable":
            (session / "files/0/agent.py").chmod(0o755)
    with raises_code("session.provision_mismatch"):
        check_input(session, copied.digest)


def test_without_an_input_there_are_no_files(tmp_path: Path, source: Path) -> None:
    check_input(tmp_path, None)
    copy_in(source, tmp_path / "files/0")
    with raises_code("session.provision_mismatch"):
        check_input(tmp_path, None)


def test_a_link_in_the_place_of_the_copy_is_refused(tmp_path: Path, source: Path) -> None:
    copied = copy_in(source, tmp_path / "elsewhere")
    (tmp_path / "session/files").mkdir(parents=True)
    (tmp_path / "session/files/0").symlink_to(tmp_path / "elsewhere")
    with raises_code("session.provision_mismatch"):
        check_input(tmp_path / "session", copied.digest)


def test_an_input_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with raises_code("session.provision_mismatch"):
        check_input(tmp_path, "sha256:" + "0" * 64)
