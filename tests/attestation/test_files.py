"""A file is there whole or not at all, and nothing is written over unasked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from affiant.files import write_whole


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
