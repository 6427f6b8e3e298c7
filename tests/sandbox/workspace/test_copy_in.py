"""Copying a tree in: bounded, links as links, nothing special."""

import os
import socket

import pytest
from tests.raising import raises_code

from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.workspace.copy_in import copy_in
from affiant.sandbox.workspace.tree import (
    FileNameError,
    SpecialFile,
    TreeTooLarge,
    TreeUnreadable,
    tree_digest,
)
from affiant.sandbox.workspace.walk import Limits, read_tree, runtime_digest


@pytest.fixture
def source(tmp_path):
    tree = tmp_path / "source"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "main.py").write_text("print('hi')\n")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o6755)
    (tree / "latest").symlink_to("src")
    return tree


def test_the_copy_has_the_digest_of_the_source(source, tmp_path):
    copied = copy_in(source, tmp_path / "copy")
    assert copied.digest == tree_digest(read_tree(source)) == tree_digest(read_tree(tmp_path / "copy"))


def test_special_bits_do_not_arrive(source, tmp_path):
    copy_in(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "run.sh").stat().st_mode & 0o7777 == 0o755


def test_a_link_to_the_outside_is_copied_as_a_link_and_not_followed(source, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the machine's own")
    (source / "out").symlink_to(secret)
    (source / "up").symlink_to("../..")
    copy_in(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "out").readlink() == secret
    assert "the machine's own" not in "".join(
        path.read_text()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def test_a_socket_or_a_pipe_refuses_the_whole_copy(source, tmp_path, monkeypatch):
    os.mkfifo(source / "pipe")
    with pytest.raises(SpecialFile, match="pipe"):
        copy_in(source, tmp_path / "copy")
    os.unlink(source / "pipe")
    monkeypatch.chdir(source)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("s")
        with pytest.raises(SpecialFile):
            copy_in(source, tmp_path / "copy2")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
def test_a_device_refuses_the_whole_copy(source, tmp_path):
    os.mknod(source / "null", 0o20666, os.makedev(1, 3))
    with pytest.raises(SpecialFile):
        copy_in(source, tmp_path / "copy")


@pytest.mark.parametrize("name", [b"a\x1b[2Jb", b"\xff\xfe", "a\u202eb".encode(), b"a\nb"])
def test_a_name_that_is_not_printable_is_refused_and_shown_escaped(source, tmp_path, name):
    with open(os.fsencode(source) + b"/" + name, "wb"):
        pass
    with pytest.raises(FileNameError) as refused:
        copy_in(source, tmp_path / "copy")
    assert str(refused.value).isprintable()


def test_the_limits_refuse_and_do_not_cut_off(source, tmp_path):
    with pytest.raises(TreeTooLarge):
        copy_in(source, tmp_path / "a", limits=Limits(files=2))
    with pytest.raises(TreeTooLarge):
        copy_in(source, tmp_path / "b", limits=Limits(total_bytes=12))
    with pytest.raises(TreeTooLarge):
        copy_in(source, tmp_path / "c", limits=Limits(depth=1))


def test_what_is_carved_out_is_not_copied(source, tmp_path):
    copied = copy_in(source, tmp_path / "copy", exclude=frozenset({"src"}))
    assert not (tmp_path / "copy" / "src").exists()
    assert {entry.path for entry in copied.entries} == {"latest", "run.sh"}


def test_a_target_that_is_not_empty_is_refused(source, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "x").touch()
    with raises_code("workspace.output"):
        copy_in(source, tmp_path / "copy")


def test_a_target_that_is_a_link_is_refused(source, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "copy").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TreeUnreadable):
        copy_in(source, tmp_path / "copy")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_the_copy_belongs_to_its_owner_links_included(source, tmp_path):
    copy_in(source, tmp_path / "copy", owner=Owner(4321, 4322))
    for path in [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == (4321, 4322)
    assert source.stat().st_uid == 0


def test_a_runtime_has_one_digest_however_it_is_reached(source, tmp_path):
    (tmp_path / "link").symlink_to(source)
    assert runtime_digest(tmp_path / "link") == runtime_digest(source)
    (source / "new").touch()
    assert runtime_digest(tmp_path / "link") != tree_digest(())
