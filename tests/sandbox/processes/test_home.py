"""The state folder: whose it is, what it keeps, and that nobody else gets in."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.processes.home import give_folder, lock, open_home, write_file

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to other users")


def test_a_new_home_is_private_in_every_part(tmp_path: Path):
    home = open_home(tmp_path / "deep" / "home")
    for folder in (home.path, home.platform, home.gateway, home.secrets, home.sessions, home.launches):
        assert folder.stat().st_mode & 0o777 == 0o700, folder


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_home_that_others_can_enter_is_refused_not_repaired(tmp_path: Path, mode: int):
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(mode)
    with raises_code("home.refused", match="chmod go="):
        open_home(tmp_path / "home")
    assert (tmp_path / "home").stat().st_mode & 0o777 == mode


def test_a_home_that_is_a_link_or_a_file_is_refused(tmp_path: Path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with raises_code("home.refused"):
            open_home(tmp_path / name)


@pytest.mark.root
@needs_root
def test_a_home_of_another_user_is_refused_even_for_root(tmp_path: Path):
    (tmp_path / "home").mkdir(mode=0o700)
    os.chown(tmp_path / "home", 12345, 12345)
    with raises_code("home.refused", match="another user"):
        open_home(tmp_path / "home")


def test_the_openings_key_is_made_once_and_kept_private(tmp_path: Path):
    home = open_home(tmp_path / "home")
    first = home.openings_key(random_bytes=secrets.token_bytes)
    again = home.openings_key(random_bytes=bytes)
    assert first.private_bytes_raw() == again.private_bytes_raw()
    assert (home.path / "openings.key").stat().st_mode & 0o777 == 0o600


def test_two_commands_at_once_agree_on_one_openings_key(tmp_path: Path):
    home = open_home(tmp_path / "home")
    found: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                home.openings_key(random_bytes=secrets.token_bytes).private_bytes_raw()
            )
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x00" * 32, b'{"key":"AA","typ":"affiant-openings-key/1"}']
)
def test_an_openings_key_of_another_form_is_refused_and_never_replaced(tmp_path: Path, content: bytes):
    home = open_home(tmp_path / "home")
    path = home.path / "openings.key"
    write_file(path, content)
    with raises_code("home.file"):
        home.openings_key(random_bytes=secrets.token_bytes)
    assert path.read_bytes() == content


def test_an_openings_key_that_others_can_read_is_refused(tmp_path: Path):
    home = open_home(tmp_path / "home")
    home.openings_key(random_bytes=secrets.token_bytes)
    (home.path / "openings.key").chmod(0o640)
    with raises_code("home.file", match="chmod go="):
        home.openings_key(random_bytes=secrets.token_bytes)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "file"
    write_file(path, b"one")
    with pytest.raises(FileExistsError):
        write_file(path, b"two", replace=False)
    assert path.read_bytes() == b"one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"], "no draft is left"


def test_a_file_is_never_written_through_a_link(tmp_path: Path):
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    write_file(tmp_path / "file", b"new")
    assert (tmp_path / "victim").read_bytes() == b"untouched"


def test_a_second_holder_of_a_lock_is_refused(tmp_path: Path):
    with lock(tmp_path / "lock"), raises_code("store.locked"), lock(tmp_path / "lock", wait=False):
        pass
    with lock(tmp_path / "lock", wait=False):
        pass


@pytest.mark.root
@needs_root
def test_giving_a_folder_away_follows_no_link(tmp_path: Path):
    (tmp_path / "outside").touch()
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").touch()
    (folder / "link").symlink_to(tmp_path / "outside")
    give_folder(folder, 12345)
    assert folder.stat().st_uid == 12345
    assert (folder / "below" / "file").stat().st_uid == 12345
    assert (tmp_path / "outside").stat().st_uid == os.geteuid()


@pytest.mark.root
@needs_root
def test_a_file_with_a_second_name_elsewhere_is_not_given_away(tmp_path: Path):
    (tmp_path / "shadow").touch()
    (tmp_path / "folder").mkdir()
    os.link(tmp_path / "shadow", tmp_path / "folder" / "mine")
    with raises_code("home.refused"):
        give_folder(tmp_path / "folder", 12345)
    assert (tmp_path / "shadow").stat().st_uid == os.geteuid()
