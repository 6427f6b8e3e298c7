"""A file is there whole or not at all, and nothing is written over unasked."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from affiant.files import ExposedFile, read_private, write_whole


def test_a_file_is_replaced_whole_and_no_draft_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        write_whole(path, content, mode=0o600)
        assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_stands_there_stays_unless_it_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        write_whole(path, b"theirs", replace=False)
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        write_whole(path, b"theirs", replace=False)
    assert path.is_symlink() and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "file", b"")


def test_a_pipe_or_a_device_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    """As root, ``--html /dev/null`` would take the device from every process of the machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    for path in (pipe, link):
        with pytest.raises(FileExistsError, match="no regular file"):
            write_whole(path, b"file")
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_drafts_of_killed_writers_are_in_nobodys_way(tmp_path: Path) -> None:
    """In a container every writer may have the same process id."""
    path = tmp_path / "file"
    left = path.with_name(f".{path.name}.{os.getpid()}.new")
    left.write_bytes(b"half")
    write_whole(path, b"whole")
    assert path.read_bytes() == b"whole" and left.read_bytes() == b"half"


def test_two_threads_write_one_file_and_one_of_them_is_last(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([number]) * 4096 for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_whole(path, content), contents))
    assert path.read_bytes() in contents and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("exact", "expected"), [(True, 0o644), (False, 0o600)])
def test_the_umask_takes_from_the_mode_unless_it_is_exact(
    tmp_path: Path, *, exact: bool, expected: int
) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "file", b"", mode=0o644, exact=exact)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == expected


@pytest.mark.parametrize("there", [False, True])
def test_without_hard_links_nothing_is_written_over_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "file"
    if there:
        path.write_bytes(b"mine")
        with pytest.raises(FileExistsError):
            write_whole(path, b"theirs", replace=False)
    else:
        write_whole(path, b"mine", replace=False)
    assert path.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [path]


def test_a_private_file_is_read_to_one_byte_beyond_its_limit(tmp_path: Path) -> None:
    write_whole(tmp_path / "key", b"secret", mode=0o600)
    assert read_private(tmp_path / "key", limit=6) == b"secret"
    assert read_private(tmp_path / "key", limit=3) == b"secr"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o601])
def test_a_file_that_others_can_reach_is_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    write_whole(path, b"secret", mode=mode, exact=True)
    with pytest.raises(ExposedFile) as refused:
        read_private(path, limit=100)
    assert refused.value.mode == mode and "secret" not in str(refused.value)


def test_neither_a_link_nor_a_pipe_nor_a_folder_is_a_private_file(tmp_path: Path) -> None:
    """A pipe would keep its reader waiting for ever."""
    write_whole(tmp_path / "key", b"secret", mode=0o600)
    (tmp_path / "link").symlink_to("key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(0o700)
    for name in ("link", "pipe", "folder"):
        with pytest.raises(OSError):  # noqa: PT011 - each system's own
            read_private(tmp_path / name, limit=100)
