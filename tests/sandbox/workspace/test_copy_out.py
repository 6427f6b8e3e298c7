"""Taking changes out of a tree that a hostile agent wrote."""

import os
import tempfile
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.workspace.copy_in import copy_in
from affiant.sandbox.workspace.copy_out import copy_out
from affiant.sandbox.workspace.tree import TreeTooLarge
from affiant.sandbox.workspace.walk import Limits


@pytest.fixture
def session(tmp_path):
    """An input with one file, and the sandbox's copy of it."""
    (tmp_path / "input" / "src").mkdir(parents=True)
    (tmp_path / "input" / "src" / "a.py").write_text("a\n")
    (tmp_path / "input" / "src" / "b.py").write_text("b\n")
    copied = copy_in(tmp_path / "input", tmp_path / "tree")
    return tmp_path / "tree", tmp_path / "output", copied.entries


def test_only_what_changed_leaves(session):
    tree, output, before = session
    (tree / "src" / "a.py").write_text("changed\n")
    (tree / "new" / "deep").mkdir(parents=True)
    (tree / "new" / "deep" / "c").write_text("c\n")
    (tree / "src" / "b.py").unlink()
    taken = copy_out(tree, output, before=before)
    assert taken.changes.added == ("new/deep/c",)
    assert taken.changes.changed == ("src/a.py",)
    assert taken.changes.removed == ("src/b.py",)
    assert sorted(path.name for path in output.rglob("*") if path.is_file()) == ["a.py", "c"]


def test_twice_is_the_same_as_once(session):
    tree, output, before = session
    (tree / "x").write_text("x")
    first = copy_out(tree, output, before=before)
    second = copy_out(tree, output, before=before)
    assert first == second
    assert [path.name for path in output.iterdir()] == ["x"]


def test_no_link_of_the_tree_leads_anywhere_else(session, tmp_path):
    tree, output, before = session
    secret = tmp_path / "secret"
    secret.write_text("the machine's own")
    (tree / "absolute").symlink_to(secret)
    (tree / "up").symlink_to("../secret")
    (tree / "fine").symlink_to("src/a.py")
    (tree / "src" / "around").symlink_to("../src/../../secret")
    taken = copy_out(tree, output, before=before)
    assert taken.changes.added == ("fine",)
    assert {skipped.path for skipped in taken.changes.skipped} == {"absolute", "up", "src/around"}
    assert not (output / "absolute").is_symlink()


def test_a_directory_exchanged_for_a_link_is_not_read_through(session, tmp_path):
    tree, output, before = session
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.py").write_text("the machine's own")
    for name in ("a.py", "b.py"):
        (tree / "src" / name).unlink()
    (tree / "src").rmdir()
    (tree / "src").symlink_to(tmp_path / "private")
    taken = copy_out(tree, output, before=before)
    assert taken.changes.removed == ("src/a.py", "src/b.py")
    assert list(output.iterdir()) == []


def test_special_files_and_hostile_names_are_skipped_and_shown_escaped(session):
    tree, output, before = session
    os.mkfifo(tree / "pipe")
    with open(os.fsencode(tree) + b"/\x1b[2J", "wb"):
        pass
    (tree / "bad").symlink_to("a\x1b]0;x")
    taken = copy_out(tree, output, before=before)
    assert len(taken.changes.skipped) == 3
    assert all(skipped.path.isprintable() for skipped in taken.changes.skipped)
    assert list(output.iterdir()) == []


def test_setuid_does_not_leave(session):
    tree, output, before = session
    (tree / "tool").write_text("#!/bin/sh\n")
    (tree / "tool").chmod(0o6777)
    copy_out(tree, output, before=before)
    assert (output / "tool").stat().st_mode & 0o7777 == 0o755


def test_a_link_in_the_output_is_replaced_and_not_written_through(session, tmp_path):
    tree, output, before = session
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    output.mkdir()
    (output / "x").symlink_to(victim)
    (tree / "x").write_text("agent's")
    copy_out(tree, output, before=before)
    assert victim.read_text() == "untouched"
    assert not (output / "x").is_symlink()
    assert (output / "x").read_text() == "agent's"


def test_a_linked_directory_in_the_output_refuses(session, tmp_path):
    tree, output, before = session
    (tmp_path / "elsewhere").mkdir()
    output.mkdir()
    (output / "new").symlink_to(tmp_path / "elsewhere")
    (tree / "new").mkdir()
    (tree / "new" / "x").write_text("x")
    with raises_code("workspace.output"):
        copy_out(tree, output, before=before)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_of_the_output_is_not_replaced_by_a_file(session):
    tree, output, before = session
    (output / "x").mkdir(parents=True)
    (tree / "x").write_text("x")
    with raises_code("workspace.output"):
        copy_out(tree, output, before=before)
    assert [path.name for path in output.iterdir()] == ["x"]


def test_carve_outs_never_leave(session):
    tree, output, before = session
    (tree / ".git" / "hooks").mkdir(parents=True)
    (tree / ".git" / "hooks" / "pre-commit").write_text("evil")
    taken = copy_out(tree, output, before=before, exclude=frozenset({".git"}))
    assert taken.changes.added == ()
    assert not (output / ".git").exists()


def test_more_than_the_limits_writes_nothing(session):
    tree, output, before = session
    with open(tree / "huge", "wb") as file:
        file.truncate(10 << 20)
    with pytest.raises(TreeTooLarge):
        copy_out(tree, output, before=before, limits=Limits(total_bytes=1 << 20))
    assert not output.exists()


@pytest.mark.root
def test_of_a_file_that_does_not_fit_nothing_stays_and_the_code_says_so(session, full_disk):
    tree, _, before = session
    (tree / "a").write_text("fits")
    (tree / "b").write_bytes(bytes(100_000))
    with raises_code("workspace.unwritable", match="No space left") as refused:
        copy_out(tree, full_disk / "out", before=before)
    assert refused.value.code == "workspace.unwritable"
    assert {path.name: path.read_text() for path in (full_disk / "out").iterdir()} == {"a": "fits"}


@pytest.mark.root
def test_a_folder_that_cannot_be_made_is_unwritable_and_no_conflict(session, full_disk):
    tree, _, before = session
    (full_disk / "out").mkdir()
    while True:
        try:
            (full_disk / f"filler{len(list(full_disk.iterdir()))}").mkdir()
        except OSError:
            break
    (tree / "d").mkdir()
    (tree / "d" / "x").write_text("x")
    with raises_code("workspace.unwritable"):
        copy_out(tree, full_disk / "out", before=before)


def test_no_name_of_the_agents_is_taken_for_a_draft(session):
    tree, output, before = session
    for name in (".affiant-output.new", ".affiant-output1.new", "z"):
        (tree / name).write_text(name)
    copy_out(tree, output, before=before)
    assert {path.name: path.read_text() for path in output.iterdir()} == {
        name: name for name in (".affiant-output.new", ".affiant-output1.new", "z")
    }


def test_new_folders_leave_even_if_nothing_in_them_does(session):
    tree, output, before = session
    (tree / "empty" / "deeper").mkdir(parents=True)
    (tree / "odd").mkdir()
    os.mkfifo(tree / "odd" / "pipe")
    taken = copy_out(tree, output, before=before)
    assert taken.changes.folders == ("empty", "empty/deeper", "odd")
    assert sorted(path.name for path in output.rglob("*")) == ["deeper", "empty", "odd"]
    assert not (output / "src").exists(), "folders that were there before are no change"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes somebody else, whom modes bind")
def test_a_folder_that_lets_nobody_look_is_skipped_and_said():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        os.seteuid(12345)
        try:
            folder = Path(place) / "tree" / "d"
            folder.mkdir(parents=True)
            (folder / "x").write_text("x")
            (folder.parent / "y").write_text("y")
            folder.chmod(0o400)
            taken = copy_out(folder.parent, Path(place) / "out", before=())
            folder.chmod(0o700)
        finally:
            os.seteuid(0)
        assert taken.changes.added == ("y",)
        assert [(each.path, each.reason) for each in taken.changes.skipped] == [
            ("d/x", "workspace.unreadable")
        ]
