"""Changes become a diff or a commit on a new branch; work tree, index and other names stay as they are."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.errors import ConfigurationError
from affiant.sandbox.workspace import git_changes, git_process
from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.copy_out import changes_left
from affiant.sandbox.workspace.git_changes import (
    FolderBase,
    branch_message,
    fit_for_git,
    make_branch,
    make_diff,
    require_new_branch,
    submodules_of,
)
from affiant.sandbox.workspace.git_commit import copy_commit

GIT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


def git(folder: Path, *arguments: str, given: bytes | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=GIT,
        input=given,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout.decode().strip()


def fill(folder: Path) -> None:
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "a.txt").write_bytes(b"one\ntwo\n")
    (folder / "src" / 'odd "name" \\ é').write_text("odd\n")
    (folder / "gone.txt").write_text("gone\n")
    (folder / "becomes-folder").write_text("file\n")
    (folder / "image.bin").write_bytes(bytes(range(256)))
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "link").symlink_to("src/deep")


def work(folder: Path) -> None:
    """What an agent may do to :func:`fill`'s files."""
    (folder / "src" / "deep" / "a.txt").write_bytes(b"one\r\nthree")
    (folder / "src" / 'odd "name" \\ é').write_text("odder\n")
    (folder / "gone.txt").unlink()
    (folder / "becomes-folder").unlink()
    (folder / "becomes-folder").mkdir()
    (folder / "becomes-folder" / "inside").write_text("new\n")
    (folder / "image.bin").write_bytes(bytes(reversed(range(256))))
    (folder / "run.sh").chmod(0o755)
    (folder / "link").unlink()
    (folder / "link").symlink_to("src")
    (folder / "new empty").touch()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    fill(folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def started(repository: Path, place: Path) -> tuple[Copied, str]:
    return copy_commit(repository, "main", place)


def branch_of(repository: Path, place: Path, copied: Copied, name: str, message: str = "m\n") -> str:
    assert copied.commit is not None
    left = fit_for_git(changes_left(place, before=copied.entries), submodules_of(repository, copied.commit))
    return make_branch(
        left,
        place,
        repository=repository,
        commit=copied.commit,
        branch=name,
        message=message,
        now=1_700_000_000,
    )


def same_files(one: Path, other: Path, tmp_path: Path) -> bool:
    return (
        copy_in(one, tmp_path / "x", exclude=frozenset({".git"})).digest
        == copy_in(other, tmp_path / "y", exclude=frozenset({".git"})).digest
    )


def test_git_apply_makes_of_a_folder_what_the_agent_made_of_its_copy(tmp_path):
    (tmp_path / "in").mkdir()
    fill(tmp_path / "in")
    copied = copy_in(tmp_path / "in", tmp_path / "work")
    base = copy_in(tmp_path / "work", tmp_path / "base")
    work(tmp_path / "work")
    (tmp_path / "in" / "gone.txt").write_text("edited meanwhile\n")  # the diff is of what the session got
    left = fit_for_git(changes_left(tmp_path / "work", before=copied.entries))
    diff = make_diff(left, tmp_path / "work", base=FolderBase(tmp_path / "base", base.entries))
    copy_in(tmp_path / "base", tmp_path / "applied")
    git(tmp_path, "-C", "applied", "apply", "--binary", given=diff)
    assert same_files(tmp_path / "applied", tmp_path / "work", tmp_path)


def test_git_apply_makes_of_a_commit_what_the_agent_made_of_its_files(repository, tmp_path):
    copied, commit = started(repository, tmp_path / "work")
    before = copy_in(repository, tmp_path / "before").digest
    work(tmp_path / "work")
    left = fit_for_git(changes_left(tmp_path / "work", before=copied.entries))
    diff = make_diff(left, tmp_path / "work", base=(repository, commit))
    assert copy_in(repository, tmp_path / "after").digest == before, "nothing is written into the repository"
    git(repository, "apply", "--index", given=diff)
    assert same_files(repository, tmp_path / "work", tmp_path)


def test_no_change_is_an_empty_diff_and_a_folder_without_input_is_all_new(tmp_path):
    for name in ("work", "base"):
        (tmp_path / name).mkdir()
    empty = FolderBase(tmp_path / "base", ())
    assert (
        make_diff(fit_for_git(changes_left(tmp_path / "work", before=())), tmp_path / "work", base=empty)
        == b""
    )
    (tmp_path / "work" / "new").write_text("new\n")
    diff = make_diff(fit_for_git(changes_left(tmp_path / "work", before=())), tmp_path / "work", base=empty)
    assert b"+++ b/new" in diff


def test_a_base_that_was_changed_makes_no_diff(tmp_path):
    (tmp_path / "in").mkdir()
    fill(tmp_path / "in")
    copied = copy_in(tmp_path / "in", tmp_path / "base")
    (tmp_path / "base" / "gone.txt").write_text("other\n")
    left = fit_for_git(changes_left(tmp_path / "in", before=copied.entries))
    with raises_code("workspace.unreadable"):
        make_diff(left, tmp_path / "in", base=FolderBase(tmp_path / "base", copied.entries))


def test_a_branch_is_one_commit_on_top_and_nothing_else_changes(repository, tmp_path):
    copied, commit = started(repository, tmp_path / "work")
    work(tmp_path / "work")
    (repository / "uncommitted.txt").write_text("mine\n")
    git(repository, "add", "uncommitted.txt")
    index, head = (repository / ".git" / "index").read_bytes(), (repository / ".git" / "HEAD").read_bytes()
    made = branch_of(repository, tmp_path / "work", copied, "agents/one", "subject\n\nAffiant-Session: S\n")
    assert git(repository, "rev-parse", "agents/one") == made
    assert git(repository, "rev-parse", "agents/one^", "main").split() == [commit, commit]
    assert (repository / ".git" / "index").read_bytes() == index
    assert (repository / ".git" / "HEAD").read_bytes() == head
    assert git(repository, "log", "-1", "--format=%(trailers:key=Affiant-Session,valueonly)", made) == "S"
    git(repository, "fsck", "--strict", "--full")
    copy_commit(repository, "agents/one", tmp_path / "out")
    assert same_files(tmp_path / "out", tmp_path / "work", tmp_path)


@pytest.mark.parametrize(
    "branch",
    ["main", "main/below", "", "-x", "HEAD", "a..b", "a b", "x.lock", "../../HEAD", "a\0b", "@{-1}", "a~1"],
)
def test_what_exists_or_is_no_branch_is_an_error_before_anything_starts(repository, branch):
    with raises_code("session.output_branch"):
        require_new_branch(repository, branch)


def test_a_branch_without_a_commit_that_a_work_tree_has_checked_out_is_taken(repository, tmp_path):
    git(repository, "symbolic-ref", "HEAD", "refs/heads/unborn")
    with raises_code("session.output_branch"):
        require_new_branch(repository, "unborn")


def test_a_packed_branch_is_never_overwritten(repository, tmp_path):
    copied, _ = started(repository, tmp_path / "work")
    git(repository, "branch", "taken")
    git(repository, "pack-refs", "--all")
    work(tmp_path / "work")
    before = git(repository, "rev-parse", "taken")
    with raises_code("session.output_branch"):
        branch_of(repository, tmp_path / "work", copied, "taken")
    assert git(repository, "rev-parse", "taken") == before


def test_of_two_that_make_one_branch_at_once_exactly_one_does(repository, tmp_path):
    copied, _ = started(repository, tmp_path / "work")
    work(tmp_path / "work")
    outcomes: list[str] = []

    def make() -> None:
        try:
            outcomes.append(branch_of(repository, tmp_path / "work", copied, "contested"))
        except ConfigurationError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes.remove(git(repository, "rev-parse", "contested"))
    assert outcomes == ["session.output_branch"] * 3


def test_two_agents_of_one_repository_each_have_their_branch(repository, tmp_path):
    places = [tmp_path / f"work{number}" for number in range(4)]
    copies = [started(repository, place)[0] for place in places]
    for number, place in enumerate(places):
        (place / "src" / "deep" / "a.txt").write_text(f"agent {number}\n")
    threads = [
        threading.Thread(target=branch_of, args=(repository, place, copied, f"agent/{number}"))
        for number, (place, copied) in enumerate(zip(places, copies, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert git(repository, "show", f"agent/{number}:src/deep/a.txt") == f"agent {number}"


def test_no_hook_filter_or_configuration_counts_when_a_branch_is_made(repository, tmp_path):
    ran = tmp_path / "ran"
    (repository / ".gitattributes").write_text("* filter=evil diff=evil eol=crlf\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "-q", "-m", "two")
    copied, commit = started(repository, tmp_path / "work")
    work(tmp_path / "work")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for folder in (hooks, repository / ".git" / "hooks"):
        for name in ("reference-transaction", "post-commit", "pre-commit", "commit-msg", "post-index-change"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
            (folder / name).chmod(0o755)
    command = f"touch {ran}"
    for name in (
        "core.fsmonitor",
        "filter.evil.clean",
        "diff.evil.textconv",
        "diff.evil.command",
        "gpg.program",
    ):
        git(repository, "config", name, command)
    git(repository, "config", "core.hooksPath", str(hooks))
    ran.unlink(missing_ok=True)
    with open(repository / ".git" / "config", "a") as file:
        file.write("[broken\n")  # whoever reads it fails
    made = branch_of(repository, tmp_path / "work", copied, "one")
    left = fit_for_git(changes_left(tmp_path / "work", before=copied.entries))
    diff = make_diff(left, tmp_path / "work", base=(repository, commit))
    assert not ran.exists()
    assert (repository / ".git" / "refs" / "heads" / "one").read_text().strip() == made
    assert b"+three" in diff


@pytest.mark.parametrize(
    "name", [".git", ".GIT", ".Git", ".git.", ".git ", "git~1", "GIT~2", ".git:x", "a\\.git"]
)
def test_what_some_file_system_takes_for_a_git_folder_is_left_out_and_named(repository, tmp_path, name):
    copied, _ = started(repository, tmp_path / "work")
    (tmp_path / "work" / "sub" / name).mkdir(parents=True)
    (tmp_path / "work" / "sub" / name / "config").write_text("[core]\n\tfsmonitor = evil\n")
    (tmp_path / "work" / "sub" / "plain").touch()
    left = fit_for_git(changes_left(tmp_path / "work", before=copied.entries))
    assert left.changes.added == ("sub/plain",)
    assert [each.reason for each in left.changes.skipped] == ["workspace.git_name"]
    made = branch_of(repository, tmp_path / "work", copied, "one")
    assert git(repository, "diff", "--name-only", "main", made) == "sub/plain"


def test_links_that_lead_out_and_what_is_in_a_submodule_do_not_reach_the_branch(repository, tmp_path):
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(repository, "commit", "-q", "-m", "two")
    copied, _ = started(repository, tmp_path / "work")
    (tmp_path / "work" / "out").symlink_to("/etc/passwd")
    (tmp_path / "work" / "module" / "file").touch()
    made = branch_of(repository, tmp_path / "work", copied, "one")
    assert git(repository, "rev-parse", f"{made}^{{tree}}") == git(repository, "rev-parse", "main^{tree}")
    left = fit_for_git(changes_left(tmp_path / "work", before=copied.entries), ["module"])
    assert {each.reason for each in left.changes.skipped} == {
        "workspace.link_leaves_tree", "workspace.submodule",
    }  # fmt: skip


def test_what_the_agent_was_not_given_stays_in_the_commit(repository, tmp_path):
    hidden = frozenset({"src/deep"})
    copied, commit = copy_commit(repository, "main", tmp_path / "work", exclude=hidden)
    (tmp_path / "work" / "gone.txt").unlink()
    (tmp_path / "work" / "src" / "deep").mkdir()
    (tmp_path / "work" / "src" / "deep" / "a.txt").write_text("guessed\n")
    left = fit_for_git(changes_left(tmp_path / "work", before=copied.entries, exclude=hidden))
    made = make_branch(
        left, tmp_path / "work", repository=repository, commit=commit, branch="one", message="m\n", now=1
    )
    assert git(repository, "diff", "--name-status", "main", made) == "D\tgone.txt"


def test_no_value_of_a_task_label_can_add_a_trailer(repository, tmp_path):
    copied, _ = started(repository, tmp_path / "work")
    task = {"task": "x\nAffiant-Receipt: session-close forged\n", "attempt": 2}
    message = branch_message(session="S", agent="a\nb", task=task, receipt=("session-close", "H"))
    made = branch_of(repository, tmp_path / "work", copied, "one", message)
    trailers = git(repository, "log", "-1", "--format=%(trailers:key=Affiant-Receipt,valueonly)", made)
    assert trailers == "session-close H"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write as somebody else")
def test_root_writes_as_the_owner_of_the_repository(repository, tmp_path):
    for path in [tmp_path, *tmp_path.parents]:
        if path.stat().st_uid == 0 and path.parts[:2] == ("/", "tmp") and len(path.parts) > 2:
            path.chmod(0o755)
    copied, _ = started(repository, tmp_path / "work")
    work(tmp_path / "work")
    subprocess.run(["chown", "-R", "1234:1234", str(repository)], check=True)
    made = branch_of(repository, tmp_path / "work", copied, "one")
    assert {path.stat().st_uid for path in (repository / ".git").rglob("*")} == {1234}
    assert (repository / ".git" / "refs" / "heads" / "one").read_text().strip() == made


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's folder needs root")
def test_a_link_in_a_repository_leads_root_nowhere_that_its_owner_could_not_write(repository, tmp_path):
    for path in [tmp_path, *tmp_path.parents]:
        if path.stat().st_uid == 0 and path.parts[:2] == ("/", "tmp") and len(path.parts) > 2:
            path.chmod(0o755)
    copied, _ = started(repository, tmp_path / "work")
    work(tmp_path / "work")
    subprocess.run(["chown", "-R", "1234:1234", str(repository)], check=True)
    (tmp_path / "roots").mkdir()
    (repository / ".git" / "refs" / "heads" / "x").symlink_to(tmp_path / "roots")
    with raises_code("session.input_commit"):
        branch_of(repository, tmp_path / "work", copied, "x/one")
    assert list((tmp_path / "roots").iterdir()) == []


def test_a_pipe_among_the_work_trees_is_not_waited_for(repository):
    worktree = repository / ".git" / "worktrees" / "x"
    worktree.mkdir(parents=True)
    os.mkfifo(worktree / "HEAD")
    require_new_branch(repository, "one")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write as somebody else")
@pytest.mark.parametrize("what", ["config", "HEAD"])
def test_no_git_of_roots_reads_what_the_repositorys_owner_was_given(repository, tmp_path, monkeypatch, what):
    """The owner puts a pipe there as soon as it has the folder."""
    for path in [tmp_path, *tmp_path.parents]:
        if path.stat().st_uid == 0 and path.parts[:2] == ("/", "tmp") and len(path.parts) > 2:
            path.chmod(0o755)
    copied, _ = started(repository, tmp_path / "work")
    work(tmp_path / "work")
    subprocess.run(["chown", "-R", "1234:1234", str(repository)], check=True)
    give, as_writer, writers = git_changes._give, git_process._as, list[tuple[int, int] | None]()

    def give_and_replace(git: Path, writer: tuple[int, int]) -> None:
        give(git, writer)
        writers.clear()
        (git / what).unlink()
        os.mkfifo(git / what)

    def noted(writer: tuple[int, int] | None) -> Mapping[str, Any]:
        writers.append(writer)
        return as_writer(writer)

    monkeypatch.setattr(git_changes, "_give", give_and_replace)
    monkeypatch.setattr(git_process, "_as", noted)
    monkeypatch.setattr(git_process, "_ASKED_WITHIN_S", 0.5)
    monkeypatch.setattr(git_process, "_ENDED_WITHIN_S", 0.5)
    with raises_code("workspace.unwritable", "session.output_branch"):
        branch_of(repository, tmp_path / "work", copied, "one")
    assert set(writers) == {(1234, 1234)}
