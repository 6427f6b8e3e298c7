"""Files at places of the user's own: whole or not at all, and a refusal where the machine does not let us."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from affiant.sandbox.base.errors import OutputPlaceError
from affiant.sandbox.base.user_files import write_user_file


def test_a_file_is_written_whole_in_place_of_the_old_one(tmp_path: Path):
    (tmp_path / "f").write_text("old")
    write_user_file(tmp_path / "f", b"new", mode=0o600)
    assert (tmp_path / "f").read_text() == "new"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.root
def test_a_full_disk_is_a_refusal_and_leaves_the_old_file_and_nothing_else(full_disk: Path):
    (full_disk / "f").write_text("old")
    with pytest.raises(OutputPlaceError, match="No space left") as refused:
        write_user_file(full_disk / "f", bytes(100_000))
    assert refused.value.where == str(full_disk / "f")
    assert [path.read_text() for path in full_disk.iterdir()] == ["old"]


@pytest.mark.parametrize("name", ["missing/f", "folder", "", "."])
def test_a_place_that_takes_no_file_is_a_refusal(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / name, Path(name)):
        with pytest.raises(OutputPlaceError):
            write_user_file(path, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_pipe_is_written_to_and_not_replaced_by_a_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_user_file(tmp_path / "pipe", b"x")
        assert os.read(reading, 10) == b"x"
    finally:
        os.close(reading)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EINVAL])
def test_a_folder_that_cannot_be_synchronised_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    """One that may be written and not read, or a file system without that; the file itself is durable."""

    def refused(_folder: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("affiant.sandbox.base.user_files.sync_folder", refused)
    write_user_file(tmp_path / "f", b"whole")
    assert (tmp_path / "f").read_bytes() == b"whole"


def test_where_others_could_have_put_something_it_is_replaced_and_no_link_followed(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    write_user_file(tmp_path / "link", b"x", stream=False)
    assert (tmp_path / "link").is_file()
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_in_a_circle_is_replaced_too(tmp_path: Path):
    (tmp_path / "loop").symlink_to("loop")
    write_user_file(tmp_path / "loop", b"x", stream=False)
    assert (tmp_path / "loop").read_text() == "x"
