"""Sessions share a stored input through an overlay; no agent, and no supervisor's user, changes what lies below."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from affiant.errors import StateError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.plan.linux import mount_table
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session.recover_command import take_files
from affiant.sandbox.session_state.session_folder import keep_files, remove_files, remove_kept
from affiant.sandbox.session_state.session_listing import SessionEntry
from affiant.sandbox.session_state.shared_input import (
    can_share,
    input_store,
    release_input,
    show_shared,
    shown_again,
    stored_input,
    unmount_input,
)
from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.walk import read_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay")

OWNER = Owner(1000, 1000)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = open_home(tmp_path / "home")
    yield home
    for folder in home.sessions.iterdir():
        unmount_input(home, folder.name)


def shared(home: Home, tmp_path: Path, session: str) -> tuple[Path, Copied]:
    source = tmp_path / "source"
    if not source.exists():
        (source / "deep").mkdir(parents=True)
        (source / "deep" / "a").write_text("a\n")
        (source / "b").write_text("b\n")
    folder = home.session(session)
    folder.mkdir()
    if not can_share(home, session):
        pytest.skip("this file system gives no overlay")
    copied = input_store(home).use(session, None, fill=lambda to: copy_in(source, to, owner=OWNER))
    show_shared(home, session, "files/0", OWNER)
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
    stored = stored_input(home, "one")
    assert stored is not None
    assert read_tree(stored) == copied.entries
    assert (place / "moved" / "a").read_bytes() == b"changed in place"
    assert {os.lstat(stored / name).st_nlink for name in ("b", "deep/a")} == {1}


def test_a_session_that_ends_leaves_no_mount_and_the_store_as_it_was(home, tmp_path):
    folder, copied = shared(home, tmp_path, "one")
    (folder / "files" / "0" / "new").touch()
    stored = stored_input(home, "one")
    assert stored is not None
    remove_files(home, "one")
    assert mounts(home) == []
    assert not folder.exists()
    assert read_tree(stored) == copied.entries


def supervisor_does(home: Home, folder: Path) -> None:
    """The session's folder is its supervisor's while it runs: it could exchange what lies in it."""
    os.mkdir(folder / "mine")
    (folder / "files").rename(folder / "mine" / "files")
    (folder / "files").mkdir()


def restart_does(home: Home, folder: Path) -> None:
    """A restart of the machine takes the mounts."""
    unmount_input(home, folder.name)


def kill_does(home: Home, folder: Path) -> None:
    """The command that kept the files was killed amid it."""
    keep_files(home, folder.name)


def nest_does(home: Home, folder: Path) -> None:
    """The agent nests folders deeper than any path can name."""
    deep = os.open(folder / "files" / "0", os.O_RDONLY)
    for _ in range(70):
        os.mkdir("x" * 200, dir_fd=deep)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)


def nothing_does(home: Home, folder: Path) -> None:
    """Nothing happens."""


@pytest.mark.parametrize(
    "happens", [nothing_does, restart_does, kill_does, supervisor_does], ids=lambda each: each.__name__
)
def test_files_that_are_kept_are_there_until_they_are_taken(home, tmp_path, happens):
    folder, copied = shared(home, tmp_path, "one")
    place = folder / "files" / "0"
    (place / "new").write_text("new\n")
    (place / "b").unlink()
    (place / "deep").rename(place / "moved")
    left = read_tree(place)
    happens(home, folder)
    changes = keep_files(home, "one")
    assert changes is not None
    assert (changes / "new").read_text() == "new\n"
    remove_files(home, "one")
    assert mounts(home) == []
    assert input_store(home).prune(2e9) == 0
    with shown_again(home, "one") as shown:
        assert read_tree(shown) == left
        with pytest.raises(OSError, match="Read-only"):
            (shown / "b").touch()
    remove_kept(home, "one")
    assert mounts(home) == []
    assert not changes.exists()
    assert input_store(home).prune(2e9) > 0


def test_files_that_are_kept_need_no_path_and_no_second_copy(home, tmp_path):
    folder, _ = shared(home, tmp_path, "one")
    nest_does(home, folder)
    (folder / "files" / "0" / "big").write_bytes(b"x" * 1000)
    before = os.lstat(folder / "files" / "0" / "big")
    changes = keep_files(home, "one")
    assert changes is not None
    assert os.lstat(changes / "big").st_ino == before.st_ino


def test_files_that_are_kept_are_taken_out_as_they_were_left(home, tmp_path):
    folder, _ = shared(home, tmp_path, "one")
    (folder / "files" / "0" / "new").write_text("new\n")
    (folder / "files" / "0" / "b").unlink()
    (folder / "records.ndjson").touch()
    asked = Asked(agent="a", profile="p", started=5, source="files/0", output="/out")
    note = SessionNote(session="one", state=SessionState.CLOSED, asked=asked, kept=True)
    keep_files(home, "one")
    remove_files(home, "one")
    write_note(home, note)
    entry = SessionEntry(note, None, None, folder / "files.kept")
    take_files(home, entry, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"new", "deep"}
    assert not (folder / "files.kept").exists()
    assert mounts(home) == []


def test_where_the_stored_input_is_gone_the_changes_are_named_and_stay(home, tmp_path):
    folder, copied = shared(home, tmp_path, "one")
    (folder / "files" / "0" / "new").write_text("new\n")
    changes = keep_files(home, "one")
    assert changes is not None
    remove_files(home, "one")
    input_store(home).place(copied.digest).parent.rename(tmp_path / "elsewhere")
    asked = Asked(agent="a", profile="p", started=5, source="files/0", output="/out")
    entry = SessionEntry(
        SessionNote(session="one", state=SessionState.CLOSED, asked=asked), None, None, folder / "files.kept"
    )
    with pytest.raises(StateError, match="cannot be shown") as caught:
        take_files(home, entry, tmp_path / "out")
    assert str(changes) in str(caught.value.hint)
    assert (changes / "new").exists()


def test_what_a_session_uses_is_not_pruned(home, tmp_path):
    folder, copied = shared(home, tmp_path, "one")
    assert input_store(home).prune(2e9) == 0
    assert read_tree(folder / "files" / "0") == copied.entries


def test_nothing_that_the_supervisors_user_puts_into_the_sessions_folder_is_believed(home, tmp_path):
    folder, copied = shared(home, tmp_path, "one")
    (folder / "layer").mkdir()
    os.mkfifo(folder / "layer" / "of")
    (folder / "layer" / "at").write_text("../../../../../etc")
    os.chown(folder, 1234, 1234)
    assert input_store(home).prune(2e9) == 0
    assert stored_input(home, "one") == input_store(home).place(copied.digest)
    keep_files(home, "one")
    assert mounts(home) == []


def test_a_link_in_place_of_the_files_is_not_followed(home, tmp_path):
    folder, _ = shared(home, tmp_path, "one")
    unmount_input(home, "one")
    victim = tmp_path / "victim"
    (victim / "0").mkdir(parents=True)
    (folder / "files").rename(folder / "away")
    (folder / "files").symlink_to(victim)
    keep_files(home, "one")
    remove_files(home, "one")
    with shown_again(home, "one") as shown:
        assert (shown / "b").read_text() == "b\n"
    remove_kept(home, "one")
    assert list((victim / "0").iterdir()) == []


def test_a_state_folder_below_a_link_is_unmounted_as_well(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    home = open_home(tmp_path / "link" / "home")
    shared(home, tmp_path, "one")
    assert mounts(open_home(tmp_path / "real" / "home"))
    remove_files(home, "one")
    assert not mounts(open_home(tmp_path / "real" / "home"))
    assert not home.session("one").exists()


def test_where_the_kernel_gives_no_overlay_nothing_is_left(home, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr("affiant.sandbox.session_state.shared_input.mount", refuse)
    home.session("one").mkdir()
    assert not can_share(home, "one")
    release_input(home, "one")
    assert not input_store(home).layers("one").exists()
