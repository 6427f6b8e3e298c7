"""Sessions share a stored input through an overlay; no agent, and no supervisor's user, changes what lies below."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.plan.linux import mount_table
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.session_state.session_folder import keep_files, remove_files
from affiant.sandbox.session_state.shared_input import (
    can_share,
    input_store,
    mark_use,
    show_shared,
    stored_input,
    unmount_input,
)
from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.walk import WHOLE, read_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay")

OWNER = Owner(1000, 1000)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = open_home(tmp_path / "home")
    yield home
    for folder in home.sessions.iterdir():
        unmount_input(folder)


def shared(home: Home, tmp_path: Path, session: str) -> tuple[Path, Copied]:
    source = tmp_path / "source"
    if not source.exists():
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "a").write_text("a\n")
        (source / "b").write_text("b\n")
    folder = home.session(session)
    folder.mkdir()
    if not can_share(folder):
        pytest.skip("this file system gives no overlay")
    copied = input_store(home).use(
        None,
        fill=lambda to: copy_in(source, to, owner=OWNER),
        mark=lambda digest: mark_use(folder, digest),
        limits=WHOLE,
    )
    show_shared(home, folder, "files/0", OWNER)
    return folder, copied


def mounts(home: Home) -> list[str]:
    return [each.at for each in mount_table() if Path(each.at).is_relative_to(home.path)]


def test_whatever_is_written_in_one_session_is_in_no_other_and_not_in_the_store(home, tmp_path):
    (one, copied), (two, _) = (shared(home, tmp_path, name) for name in ("one", "two"))
    place = one / "files" / "0"
    os.link(place / "b", place / "second-name")
    (place / "second-name").write_text("changed by a link\n")
    with open(place / "deep" / "a", "r+b") as file:
        file.write(b"changed in place")
    (place / "deep").rename(place / "moved")
    (place / "b").chmod(0o777)
    os.truncate(place / "b", 0)
    assert read_tree(two / "files" / "0") == copied.entries
    stored = stored_input(home, one)
    assert stored is not None
    assert read_tree(stored) == copied.entries
    assert (place / "moved" / "a").read_bytes() == b"changed in place"
    assert {os.lstat(stored / name).st_nlink for name in ("b", "deep/a")} == {1}


def test_a_session_that_ends_leaves_no_mount_and_the_store_as_it_was(home, tmp_path):
    folder, copied = shared(home, tmp_path, "one")
    (folder / "files" / "0" / "new").touch()
    stored = stored_input(home, folder)
    assert stored is not None
    remove_files(home, "one")
    assert mounts(home) == []
    assert not folder.exists()
    assert read_tree(stored) == copied.entries


@pytest.mark.parametrize("restarted", [False, True])
def test_files_that_are_kept_are_whole_without_the_store(home, tmp_path, restarted):
    folder, _ = shared(home, tmp_path, "one")
    (folder / "files" / "0" / "new").write_text("new\n")
    (folder / "files" / "0" / "b").unlink()
    left = read_tree(folder / "files" / "0")
    if restarted:  # a restart of the machine takes the mounts
        unmount_input(folder)
    kept = keep_files(home, "one")
    remove_files(home, "one")
    assert mounts(home) == []
    assert input_store(home).prune(2e9) > 0
    assert read_tree(kept / "0") == left


def test_what_a_session_uses_is_not_pruned(home, tmp_path):
    folder, copied = shared(home, tmp_path, "one")
    assert input_store(home).prune(2e9) == 0
    assert read_tree(folder / "files" / "0") == copied.entries


def test_layers_that_another_user_put_there_are_not_followed(home, tmp_path):
    """The session's folder is the supervisor's while it runs: it could exchange what lies in it."""
    folder, _ = shared(home, tmp_path, "one")
    (folder / "layer").rename(folder / "away")
    (folder / "layer").mkdir()
    (folder / "layer" / "at").write_text("../../../../../etc")
    (folder / "layer" / "of").write_text("sha256:../../../etc")
    os.chown(folder / "layer", 1234, 1234)
    assert stored_input(home, folder) is None
    keep_files(home, "one")
    assert os.lstat("/etc").st_ino == os.stat("/etc/").st_ino
    assert not [each for each in mount_table() if each.at == "/etc"]


def test_a_link_in_place_of_the_files_is_not_followed(home, tmp_path):
    folder, _ = shared(home, tmp_path, "one")
    unmount_input(folder)
    victim = tmp_path / "victim"
    (victim / "0").mkdir(parents=True)
    (folder / "files").rename(folder / "away")
    (folder / "files").symlink_to(victim)
    with pytest.raises(OSError, match="Not a directory"):
        keep_files(home, "one")
    assert list((victim / "0").iterdir()) == []
    assert mounts(home) == []
