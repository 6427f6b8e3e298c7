"""A session's changes as a diff and as a branch, from `--input` to the trailers that lead back to its receipts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.cli.recover_command import recover
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session import session as session_module
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_state.bundle_out import boundary_record
from affiant.sandbox.session_state.session_listing import find_session
from affiant.sandbox.workspace import git_commit, git_process

GIT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=GIT, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "file.txt").write_text("content\n")
    (folder / "gone.txt").write_text("gone\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def request(warm, **members) -> SessionRequest:
    return SessionRequest(
        profile=warm.folder / "profiles.yaml",
        agent="writer",
        min_isolation=IsolationClass(warm.isolation),
        **members,
    )


async def changed(warm, text: str, **members) -> Session:
    async with Session.open(request(warm, **members), home=warm.home) as session:
        done = await session.run(["sh", "-c", f"echo {text} > file.txt; rm -f gone.txt; echo new > new.txt"])
        assert done.exit_code == 0, done.stderr
    return session


def trailer(repository: Path, commit: str, key: str) -> str:
    return git(repository, "log", "-1", f"--format=%(trailers:key={key},valueonly)", commit)


def printed_by_the_page(bundle: Path) -> list[str]:
    """What the reader's program on docs/workspace.md prints for ``bundle``."""
    page = (Path(__file__).parents[3] / "docs" / "workspace.md").read_text()
    program = page.partition("python3 -c '\n")[2].partition("' session.affiant.json")[0]
    command = [sys.executable, "-I", "-c", program, str(bundle)]
    return subprocess.run(command, capture_output=True, check=True, timeout=60, text=True).stdout.split()


def test_two_agents_of_one_repository_at_once_leave_two_branches_that_name_their_receipts(
    warm, repository, tmp_path
):
    async def both() -> list[Session]:
        return await asyncio.gather(
            *(
                changed(
                    warm,
                    name,
                    input=repository,
                    input_commit="main",
                    output_branch=f"agents/{name}",
                    output_diff=tmp_path / f"{name}.diff",
                    task={"task": name, "attempt": 1},
                )
                for name in ("one", "two")
            )
        )

    before = (repository / ".git" / "index").read_bytes()
    sessions = asyncio.run(both())
    assert (repository / ".git" / "index").read_bytes() == before
    assert git(repository, "status", "--porcelain") == ""
    for name, session in zip(("one", "two"), sessions, strict=True):
        branch = f"agents/{name}"
        assert session.commit == git(repository, "rev-parse", branch)
        assert git(repository, "show", f"{branch}:file.txt") == name
        assert (
            git(repository, "diff", "--name-status", "main", branch) == "M\tfile.txt\nD\tgone.txt\nA\tnew.txt"
        )
        assert trailer(repository, branch, "Affiant-Session") == session.id
        assert trailer(repository, branch, "Affiant-Task") == f'{{"attempt":1,"task":"{name}"}}'
        record = boundary_record(session.bundle().receipts, session.id)
        assert record is not None
        assert record[0] == "session-close"
        assert trailer(repository, branch, "Affiant-Receipt") == " ".join(record)
        assert record[1] in printed_by_the_page(session.bundle_path)
        git(repository, "checkout", "-q", "--detach", "main")
        git(repository, "apply", "--index", str(tmp_path / f"{name}.diff"))
        assert git(repository, "write-tree") == git(repository, "rev-parse", f"{branch}^{{tree}}")
        git(repository, "reset", "-q", "--hard")
        git(repository, "checkout", "-q", "main")


def test_a_diff_of_a_folder_is_of_what_the_session_was_given(warm, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "file.txt").write_text("content\n")
    (folder / "gone.txt").write_text("gone\n")

    async def run() -> Session:
        opening = Session.open(request(warm, input=folder, output_diff=tmp_path / "x.diff"), home=warm.home)
        async with opening as session:
            (folder / "gone.txt").write_text("changed by its owner meanwhile\n")
            assert (await session.run(["rm", "gone.txt"])).exit_code == 0
            assert (await session.run(["ls", "-A"])).stdout.split() == ["file.txt"]
        return session

    session = asyncio.run(run())
    (folder / "gone.txt").write_text("gone\n")
    git(folder, "apply", str(tmp_path / "x.diff"))
    assert sorted(os.listdir(folder)) == ["file.txt"]
    assert session.changes is not None
    assert session.changes.removed == ("gone.txt",)
    assert not (warm.home / "sessions" / session.id / "base").exists()


@pytest.mark.slow
def test_a_branch_that_appeared_meanwhile_is_kept_and_so_are_the_agents_files(warm, repository):
    async def run() -> None:
        asked = request(warm, input=repository, input_commit="main", output_branch="late")
        async with Session.open(asked, home=warm.home) as session:
            git(repository, "branch", "late")
            await session.run(["sh", "-c", "echo changed > file.txt"])

    with raises_code("session.output_branch") as caught:
        asyncio.run(run())
    assert git(repository, "rev-parse", "late") == git(repository, "rev-parse", "main")
    assert "affiant session recover" in str(caught.value.hint)


@pytest.mark.parametrize("members", [{"output_branch": "main"}, {"output_branch": "x", "input_commit": None}])
def test_a_branch_that_cannot_be_made_starts_nothing(warm, repository, members):
    async def run() -> None:
        asked = {"input": repository, "input_commit": "main", **members}
        async with Session.open(request(warm, **asked), home=warm.home):
            pytest.fail("it was opened")

    with raises_code("session.output_branch"):
        asyncio.run(run())


def test_a_diff_in_the_state_folder_is_refused(warm):
    async def run() -> None:
        asked = request(warm, input=warm.folder / "in", output_diff=warm.home / "trust.json")
        async with Session.open(asked, home=warm.home):
            pytest.fail("it was opened")

    with raises_code("session.input_private"):
        asyncio.run(run())


def without_a_temporary_folder(monkeypatch, folder: Path) -> None:
    """The machine has none any more: its disk is full, or the folder is gone."""
    monkeypatch.setattr("tempfile.tempdir", str(folder / "gone"))


def without_git(monkeypatch, folder: Path) -> None:
    monkeypatch.setitem(git_process._ENVIRONMENT, "PATH", str(folder))
    monkeypatch.setattr(git_commit, "SEARCHED", str(folder))


@pytest.mark.parametrize("broken", [without_a_temporary_folder, without_git])
@pytest.mark.parametrize("form", ["diff", "branch"])
def test_what_the_machine_cannot_write_as_a_diff_or_branch_is_kept_and_noted(
    warm, repository, tmp_path, monkeypatch, broken, form
):
    asked = {
        "diff": {"output_diff": tmp_path / "x.diff"},
        "branch": {"input": repository, "input_commit": "main", "output_branch": "x"},
    }[form]
    opened: list[Session] = []

    async def run() -> None:
        async with Session.open(request(warm, **asked), home=warm.home) as session:
            opened.append(session)
            done = await session.run(["sh", "-c", "echo work > new.txt"])
            assert done.exit_code == 0, done.stderr
            broken(monkeypatch, tmp_path)

    with raises_code("session.output_path", "workspace.unwritable", "workspace.git") as caught:
        asyncio.run(run())
    monkeypatch.undo()
    assert f"affiant session recover {opened[0].id} --output DIR" in str(caught.value.hint)
    taken(warm, opened[0].id, tmp_path, code=caught.value.code)


def taken(warm, session: str, folder: Path, *, code: str) -> None:
    """The session is noted as closed, with this code; its files can be recovered, once."""
    home = open_home(warm.home)
    entry = find_session(home, session)
    assert (entry.noted, entry.note.state, entry.note.code) == (True, SessionState.CLOSED, code)
    assert (entry.note.kept, entry.kept is not None) == (True, True)
    recover(home, entry, given=None, bundle=None, output=folder / "out", starting=lambda: None)
    assert (folder / "out" / "new.txt").read_text() == "work\n"
    entry = find_session(home, session)
    assert (entry.note.kept, entry.kept) == (False, None)


@pytest.mark.parametrize("members", [{"output_diff": "x.diff"}, {"output_branch": "x"}, {}])
def test_a_session_that_needs_git_starts_nothing_without_it(warm, repository, tmp_path, monkeypatch, members):
    without_git(monkeypatch, tmp_path)
    monkeypatch.setattr(session_module, "launched", lambda *_, **__: pytest.fail("it was launched"))
    asked = {"input": repository, "input_commit": "main"} if "output_diff" not in members else {}
    asked |= {name: tmp_path / value if name == "output_diff" else value for name, value in members.items()}

    async def run() -> None:
        async with Session.open(request(warm, **asked), home=warm.home):
            pytest.fail("it was opened")

    with raises_code("workspace.git"):
        asyncio.run(run())
