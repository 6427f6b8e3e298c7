"""A commit's files arrive as they are; nothing that a repository, a user or a machine configures for git counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import zlib
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.session.session_plan import parse_input
from affiant.sandbox.workspace.copy_in import copy_in
from affiant.sandbox.workspace.git_commit import copy_commit
from affiant.sandbox.workspace.walk import Limits

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


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "a.txt").write_bytes(b"one\n$Id$\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/deep")
    (folder / "empty").touch()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "tag", "-a", "v1", "-m", "v1")
    return folder


def test_a_commit_arrives_as_a_copy_of_its_files_would(repository, tmp_path):
    copied, commit = copy_commit(repository, "main", tmp_path / "out")
    assert commit == git(repository, "rev-parse", "HEAD")
    (repository / ".git").rename(tmp_path / "away")
    assert (
        copied.digest
        == copy_in(repository, tmp_path / "plain").digest
        == copy_in(tmp_path / "out", tmp_path / "o2").digest
    )
    assert not (tmp_path / "out" / ".git").exists()
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)


@pytest.mark.parametrize("reference", ["HEAD", "main", "v1", "v1^{}", "refs/heads/main", "main~0"])
def test_what_rev_parse_takes_names_a_commit_and_later_work_is_not_in_it(repository, tmp_path, reference):
    (repository / "uncommitted.txt").touch()
    _, commit = copy_commit(repository, reference, tmp_path / "out")
    assert commit == git(repository, "rev-parse", "main")
    assert not (tmp_path / "out" / "uncommitted.txt").exists()


def test_packed_bare_and_linked_repositories_are_read(repository, tmp_path):
    git(repository, "branch", "feature/x")
    git(repository, "gc", "-q")
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"), "feature/x")
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(tmp_path / "bare"))
    for number, place in enumerate((repository, tmp_path / "tree", tmp_path / "bare")):
        copied, _ = copy_commit(place, "feature/x", tmp_path / f"out{number}")
        assert {entry.path for entry in copied.entries} >= {"src", "src/deep/a.txt", "link"}
    _, commit = copy_commit(tmp_path / "tree", "HEAD", tmp_path / "head")
    assert commit == git(repository, "rev-parse", "feature/x")


@pytest.mark.parametrize(
    "reference",
    ["", "absent", "main:run.sh", "main^{tree}", "--all", "-h", "v1..main", "a\0b", ":0:run.sh", "0" * 40],
)
def test_what_names_no_commit_is_an_error_and_never_an_option(repository, tmp_path, reference):
    with raises_code("session.input_commit", match="no such commit"):
        copy_commit(repository, reference, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_configuration_hook_filter_or_helper_is_run_or_read(repository, tmp_path):
    ran = tmp_path / "ran"
    command = f"sh -c 'touch {ran}'"
    (repository / ".gitattributes").write_text(
        "*.txt filter=evil diff=evil eol=crlf ident export-subst\nempty export-ignore\n"
    )
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "two")
    for name in (
        "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "core.fsmonitor", "core.sshCommand",
        "core.pager", "alias.cat-file", "alias.ls-tree", "core.gitProxy", "credential.helper",
    ):  # fmt: skip
        git(repository, "config", name, f"!{command}" if name.startswith("alias") else command)
    git(repository, "config", "core.hooksPath", str(tmp_path / "hooks"))
    (tmp_path / "hooks").mkdir()
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (tmp_path / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (tmp_path / "hooks" / hook).chmod(0o755)
    with open(repository / ".git" / "config", "a") as file:
        file.write("[broken\n")  # whoever reads it fails
    copy_commit(repository, "main", tmp_path / "out")
    assert not ran.exists()
    assert (tmp_path / "out" / "src" / "deep" / "a.txt").read_bytes() == b"one\n$Id$\n"
    assert (tmp_path / "out" / "empty").exists()


def test_a_repository_is_not_written(repository, tmp_path):
    before = copy_in(repository / ".git", tmp_path / "before").digest
    copy_commit(repository, "main", tmp_path / "out")
    assert copy_in(repository / ".git", tmp_path / "after").digest == before


def test_submodules_are_empty_folders_and_pointers_of_lfs_stay_pointers(repository, tmp_path):
    (repository / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    (repository / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(repository, "add", "-A")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(repository, "commit", "-q", "-m", "two")
    copy_commit(repository, "main", tmp_path / "out")
    assert list((tmp_path / "out" / "module").iterdir()) == []
    assert (tmp_path / "out" / "big.bin").read_text().startswith("version https://git-lfs")


def hostile(repository: Path, *entries: tuple[str, str, str]) -> str:
    """A commit with a tree of these entries, written past git's own checks."""
    blob = git(repository, "hash-object", "-w", "--stdin", given=b"/etc/passwd")
    tree = git(repository, "mktree", "--missing", given=b"100644 blob %b\tx" % blob.encode())
    raw = b""
    for mode, name, kind in entries:
        raw += f"{mode} {name}".encode() + b"\0" + bytes.fromhex(tree if kind == "tree" else blob)
    made = git(repository, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=raw)
    return git(repository, "commit-tree", made, "-m", "hostile")


@pytest.mark.parametrize(
    "entries",
    [
        [("100644", "..", "blob")],
        [("40000", "..", "tree")],
        [("40000", ".git", "tree")],
        [("40000", ".GIT", "tree")],
        [("100644", "a/../../b", "blob")],
        [("100644", "/tmp/x", "blob")],
        [("120000", "a", "blob"), ("40000", "a", "tree")],
        [("120000", "a", "blob"), ("100644", "a/x", "blob")],
        [("100644", "a", "blob"), ("100644", "a", "blob")],
        [("100644", "a\n", "blob")],
        [("100644", "a\x1b[2J", "blob")],
        [("100894", "a", "blob")],
        [("9", "a", "blob")],
        [("-1", "a", "blob")],
        [("", "a", "blob")],
        [("7" * 5000, "a", "blob")],
    ],
)
def test_a_hostile_tree_writes_nothing_outside_and_into_no_git_folder(repository, tmp_path, entries):
    commit = hostile(repository, *entries)
    around = sorted(path.name for path in tmp_path.iterdir())
    with raises_code("workspace.name", "workspace.unreadable"):
        copy_commit(repository, commit, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "out") == around
    assert not (tmp_path / "out" / ".git").exists()


def test_a_link_of_a_commit_stays_a_link(repository, tmp_path):
    copied, _ = copy_commit(repository, hostile(repository, ("120000", "a", "blob")), tmp_path / "out")
    assert (tmp_path / "out" / "a").readlink() == Path("/etc/passwd")
    assert [(entry.path, entry.content) for entry in copied.entries] == [("a", "/etc/passwd")]


@pytest.mark.parametrize("limits", [Limits(files=2), Limits(total_bytes=12), Limits(depth=2)])
def test_a_commit_is_bounded(repository, tmp_path, limits):
    with raises_code("workspace.too_large"):
        copy_commit(repository, "main", tmp_path / "out", limits=limits)


def test_what_the_profile_carves_out_stays_out(repository, tmp_path):
    copied, _ = copy_commit(repository, "main", tmp_path / "out", exclude=frozenset({"src/deep", "empty"}))
    assert {entry.path for entry in copied.entries} == {"src", "run.sh", "link"}


def test_an_object_that_is_not_here_is_not_fetched(repository, tmp_path):
    blob = git(repository, "rev-parse", "main:run.sh")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    git(repository, "config", "remote.origin.url", "http://127.0.0.1:9/x")
    git(repository, "config", "remote.origin.promisor", "true")
    with raises_code("workspace.unreadable", match="lacks an object"):
        copy_commit(repository, "main", tmp_path / "out")


def replaced(repository: Path, reference: str, kind: str, content: bytes) -> Path:
    """The object with other content, as a damaged disk or the repository's owner leaves it."""
    name = git(repository, "rev-parse", reference)
    place = repository / ".git" / "objects" / name[:2] / name[2:]
    place.unlink()
    place.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content))
    return place


def test_an_object_with_other_content_than_its_name_says_is_an_error(repository, tmp_path):
    blob = bytes.fromhex(git(repository, "rev-parse", "main:run.sh"))
    tree = git(repository, "rev-parse", "main:src")
    author = "a <a@example.com> 1 +0000"
    commit = f"tree {tree}\nauthor {author}\ncommitter {author}\n\nother\n".encode()
    for number, (reference, kind, content) in enumerate(
        [
            ("main:run.sh", "blob", b"other\n"),
            ("main^{tree}", "tree", b"100755 g\0" + blob),
            ("main", "commit", commit),
        ]
    ):
        place = repository / ".git" / "objects"
        saved = tmp_path / f"objects-{number}"
        shutil.copytree(place, saved)
        replaced(repository, reference, kind, content)
        expected = "no such commit" if kind == "commit" else "damaged"  # git compares a commit itself
        with raises_code("workspace.unreadable", "session.input_commit", match=expected):
            copy_commit(repository, "main", tmp_path / f"out-{number}")
        shutil.rmtree(place)
        saved.rename(place)
    assert copy_commit(repository, "main", tmp_path / "out")


def pipe_head(repository: Path) -> None:
    (repository / ".git" / "HEAD").unlink()
    os.mkfifo(repository / ".git" / "HEAD")


def pipe_alternates(repository: Path) -> None:
    os.mkfifo(repository / ".git" / "objects" / "info" / "alternates")


def pipe_names(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    (repository / ".git" / "packed-refs").unlink()
    os.mkfifo(repository / ".git" / "packed-refs")


@pytest.mark.parametrize(
    "attack", [pipe_head, pipe_alternates, pipe_names], ids=lambda attack: attack.__name__
)
def test_a_pipe_in_a_repository_is_an_error_and_not_waited_for(repository, tmp_path, monkeypatch, attack):
    monkeypatch.setattr("affiant.sandbox.workspace.git_process._ASKED_WITHIN_S", 0.5)
    attack(repository)
    with raises_code("session.input_commit"):
        copy_commit(repository, "main", tmp_path / "out")


def pipe_blob(repository: Path) -> None:
    place = replaced(repository, "main:run.sh", "blob", b"")
    place.unlink()
    os.mkfifo(place)


def test_a_pipe_in_place_of_an_object_holds_no_start_for_good(repository, tmp_path, monkeypatch):
    monkeypatch.setattr("affiant.sandbox.workspace.git_process._ENDED_WITHIN_S", 0.5)
    pipe_blob(repository)
    with raises_code("workspace.unreadable"):
        copy_commit(repository, "main", tmp_path / "out")


def test_a_pipe_in_place_of_an_object_holds_no_start_that_is_interrupted(repository, tmp_path):
    asked: list[None] = []

    def proceed() -> None:
        if threading.current_thread() is not threading.main_thread():
            asked.append(None)
            raise KeyboardInterrupt

    pipe_blob(repository)
    with raises_code("workspace.unreadable"):
        copy_commit(repository, "main", tmp_path / "out", limits=Limits(proceed=proceed))
    assert asked


def test_what_is_no_repository_is_an_error(tmp_path):
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    for place in (tmp_path, tmp_path / "absent", Path("/etc")):
        with raises_code("session.input_commit", match="not a git repository"):
            copy_commit(place, "HEAD", tmp_path / "out")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives a folder to another user")
def test_a_folder_of_one_user_is_no_way_into_anothers_repository(repository, tmp_path):
    for make in (
        lambda folder: (folder / ".git").write_text(f"gitdir: {repository}/.git\n"),
        lambda folder: (folder / ".git").symlink_to(repository / ".git"),
    ):
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        make(folder)
        os.chown(folder, 4711, 4711)
        with raises_code("session.input_commit", match="another owner"):
            copy_commit(folder, "HEAD", tmp_path / "out")


def test_alternates_of_the_same_owner_are_read(repository, tmp_path):
    git(tmp_path, "clone", "-q", "-s", str(repository), str(tmp_path / "one"))
    git(tmp_path, "clone", "-q", "-s", str(tmp_path / "one"), str(tmp_path / "two"))
    (tmp_path / "one" / ".git" / "objects" / "info" / "alternates").write_text(
        "# a comment\n\n/absent\n../../../repo/.git/objects\n../../.git/objects\n"
    )
    _, commit = copy_commit(tmp_path / "two", "HEAD", tmp_path / "out")
    assert commit == git(repository, "rev-parse", "HEAD")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives a folder to another user")
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("relative", [False, True])
def test_no_alternate_leads_into_another_users_repository(repository, tmp_path, depth, relative):
    folder = tmp_path / "folder"
    git(tmp_path, "init", "-q", str(folder))
    target = repository / ".git" / "objects"
    objects = folder / ".git" / "objects"
    for number in range(1, depth):
        (objects / f"more{number}" / "info").mkdir(parents=True)
        named = os.path.relpath(target, objects / f"more{number}") if relative else target
        (objects / f"more{number}" / "info" / "alternates").write_text(f"{named}\n")
        target = objects / f"more{number}"
    named = os.path.relpath(target, objects) if relative else target
    (objects / "info" / "alternates").write_text(f"# x\n{named}\n")
    (folder / ".git" / "refs" / "heads" / "main").write_text(git(repository, "rev-parse", "HEAD") + "\n")
    assert git(folder, "ls-tree", "main")  # git itself reads it
    for path, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.lchown(os.path.join(path, name), 4711, 4711)
    with raises_code("session.input_commit", match="objects of another owner"):
        copy_commit(folder, "main", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ['"/srv/x"', "a\0b", "x" * (1 << 17)])
def test_alternates_that_cannot_be_judged_are_an_error(repository, tmp_path, line):
    (repository / ".git" / "objects" / "info" / "alternates").write_text(f"{line}\n")
    with raises_code("session.input_commit", match="alternates?"):
        copy_commit(repository, "main", tmp_path / "out")


@pytest.mark.parametrize(
    "place", ["objects/ab", "objects/info/alternates", "refs/heads/other", "refs/heads/a/b"]
)
def test_a_link_inside_a_repository_is_an_error(repository, tmp_path, place):
    link = repository / ".git" / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("/nowhere")
    with raises_code("session.input_commit", match="a link in (objects|refs)"):
        copy_commit(repository, "main", tmp_path / "out")


def test_two_agents_on_one_repository_do_not_meet(repository, tmp_path):
    found: list[str] = []
    threads = [
        threading.Thread(
            target=lambda number=number: found.append(
                copy_commit(repository, "main", tmp_path / f"out{number}")[0].digest
            )
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    (repository / "run.sh").write_text("changed meanwhile")
    git(repository, "commit", "-q", "-a", "-m", "two")
    for thread in threads:
        thread.join()
    assert len(found) == 8


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("src", (Path("src"), None, None)),
        ("src:/w", (Path("src"), "/w", None)),
        (".@main", (Path("."), None, "main")),
        (".@feature/x:/w", (Path("."), "/w", "feature/x")),
        ("a@b@v1", (Path("a@b"), None, "v1")),
        ("@main", (Path("@main"), None, None)),
        ("src@", (Path("src@"), None, None)),
    ],
)
def test_the_option_names_a_folder_or_a_commit(value, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_input(value) == parts


def test_a_folder_of_exactly_this_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src@main").mkdir()
    assert parse_input("src@main") == (Path("src@main"), None, None)
