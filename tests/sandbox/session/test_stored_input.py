"""A second session with the same input copies nothing; no agent changes what the next one gets."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.isolation.plan.linux import mount_table
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session.recover_command import take_files
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_state.interrupted import reap_leftovers
from affiant.sandbox.session_state.session_listing import find_session
from affiant.sandbox.session_state.shared_input import stored_input
from affiant.sandbox.workspace.walk import read_tree

_ATTACK = """
ln file.txt second; echo changed > second; chmod 777 file.txt; mv deep moved; rm moved/a; echo x >> moved/b
mkdir deep; echo other > deep/a; ln -s /etc/passwd link; ls
"""


@pytest.fixture
def source(warm, tmp_path: Path) -> Path:
    if os.geteuid() != 0 or warm.isolation != "userspace-kernel":
        pytest.skip("inputs are shared by root's sessions under gVisor")
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "file.txt").write_text(f"content of {tmp_path}\n")
    for name in ("a", "b"):
        (folder / "deep" / name).write_text(name)
    return folder


def request(warm, **members) -> SessionRequest:
    return SessionRequest(
        profile=warm.folder / "profiles.yaml",
        agent="writer",
        min_isolation=IsolationClass(warm.isolation),
        **members,
    )


def stored(warm, session: Session) -> Path:
    tree = stored_input(open_home(warm.home), session.id)
    assert tree is not None
    return tree


def written(tree: Path) -> tuple[int, ...]:
    facts = (tree / "file.txt").stat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def git(folder: Path, *arguments: str) -> None:
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **identity}
    subprocess.run(["git", "-C", str(folder), *arguments], env=environment, check=True, timeout=60)


def mounts(warm) -> list[str]:
    sessions = warm.home / "sessions"
    return [each.at for each in mount_table() if Path(each.at).is_relative_to(sessions)]


def test_two_sessions_of_one_folder_share_one_tree_and_nothing_that_they_write(warm, source, tmp_path):
    async def run() -> None:
        opening = Session.open(request(warm, input=source, output=tmp_path / "out"), home=warm.home)
        async with opening as one:
            tree = stored(warm, one)
            facts, entries = written(tree), read_tree(tree)
            assert (await one.run(["sh", "-c", _ATTACK])).exit_code == 0
            async with Session.open(request(warm, input=source), home=warm.home) as two:
                assert stored(warm, two) == tree
                assert written(tree) == facts, "it was not written again"
                upper = warm.home / "inputs" / "sessions" / two.id / "upper"
                assert list(upper.iterdir()) == [], "nothing was copied"
                seen = await two.run(["sh", "-c", "cat file.txt deep/a deep/b; ls"])
                assert seen.stdout == f"content of {tmp_path}\nabdeep\nfile.txt\n"
            assert read_tree(tree) == entries
        assert one.output is not None
        assert (tmp_path / "out" / "second").read_text() == "changed\n"
        assert (tmp_path / "out" / "moved" / "b").read_text() == "bx\n"
        assert "deep/b" in one.output.changes.removed

    asyncio.run(run())
    assert mounts(warm) == []


@pytest.mark.slow
def test_a_commit_whose_tree_is_stored_is_not_read_again(warm, source):
    git(source, "init", "-q", "-b", "main")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "one")

    async def seen() -> str:
        asked = request(warm, input=source, input_commit="main")
        async with Session.open(asked, home=warm.home) as session:
            return (await session.run(["cat", "file.txt"])).stdout

    first = asyncio.run(seen())
    blob = subprocess.run(
        ["git", "-C", str(source), "rev-parse", "main:file.txt"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (source / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert asyncio.run(seen()) == first


def test_a_stored_tree_that_was_damaged_is_never_used(warm, source):
    async def seen() -> tuple[Path, str]:
        async with Session.open(request(warm, input=source), home=warm.home) as session:
            return stored(warm, session), (await session.run(["cat", "deep/a"])).stdout

    tree, first = asyncio.run(seen())
    (tree / "deep" / "a").write_text("damaged")
    assert asyncio.run(seen()) == (tree, first)


@pytest.mark.slow
def test_a_state_folder_without_its_store_fills_it_again(warm, source):
    async def seen() -> str:
        async with Session.open(request(warm, input=source), home=warm.home) as session:
            return (await session.run(["cat", "deep/a"])).stdout

    first = asyncio.run(seen())
    shutil.rmtree(warm.home / "inputs")
    assert asyncio.run(seen()) == first == "a"


_NEST = """
import os
open("result.txt", "w").write("the work")
below = os.open(".", os.O_RDONLY)
for _ in range(70):
    os.mkdir("x" * 200, dir_fd=below)
    below = os.open("x" * 200, os.O_RDONLY, dir_fd=below)
"""


def test_an_agent_that_nests_folders_beyond_every_path_loses_no_file(warm, source, tmp_path):
    async def run() -> str:
        opening = Session.open(request(warm, input=source, output=tmp_path / "out"), home=warm.home)
        async with opening as session:
            assert (await session.run(["python3", "-c", _NEST])).exit_code == 0
        raise AssertionError("it is nested too deep to be copied")

    with pytest.raises(AffiantError, match="nested too deep") as caught:
        asyncio.run(run())
    kept = Path(str(caught.value.hint).split("kept in ")[1].split(",")[0])
    assert (kept / "result.txt").read_text() == "the work"
    assert mounts(warm) == []


def test_files_that_can_be_neither_copied_nor_kept_are_not_removed(warm, source, tmp_path):
    """Something is in the way at both places; the next command keeps them once it is gone."""
    home, ids = open_home(warm.home), list[str]()

    async def run() -> None:
        opening = Session.open(request(warm, input=source, output=tmp_path / "out"), home=warm.home)
        async with opening as session:
            ids.append(session.id)
            await session.run(["sh", "-c", "echo work > result.txt"])
            (home.session(session.id) / "files.kept" / "in-the-way").mkdir(parents=True)
            (tmp_path / "out").rmdir()
            (tmp_path / "out").touch()

    with pytest.raises(AffiantError) as caught:
        asyncio.run(run())
    assert "The next affiant command tries again" in str(caught.value.hint)
    (told,) = [each for each in reap_leftovers(home) if each.session == ids[0]]
    assert "cannot be tidied up" in told.text
    assert (home.session(ids[0]) / "files").is_dir()
    (home.session(ids[0]) / "files.kept" / "in-the-way").rmdir()
    (told,) = [each for each in reap_leftovers(home) if each.session == ids[0]]
    assert f"affiant session recover {ids[0]} --output DIR" in told.text
    kept = find_session(home, ids[0]).kept
    assert kept is not None
    assert (kept / "result.txt").read_text() == "work\n"
    (tmp_path / "out").unlink()
    take_files(home, find_session(home, ids[0]), tmp_path / "out")
    assert (tmp_path / "out" / "result.txt").read_text() == "work\n"
    assert mounts(warm) == []


def test_where_the_overlay_cannot_be_mounted_the_session_gets_a_copy(warm, source, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def run() -> None:
        async with Session.open(request(warm, input=source), home=warm.home) as session:
            assert stored_input(open_home(warm.home), session.id) is None
            assert (await session.run(["cat", "deep/a"])).stdout == "a"

    monkeypatch.setattr("affiant.sandbox.session.attested_launch.show_shared", refuse)
    asyncio.run(run())
