from __future__ import annotations

from pathlib import Path

import pytest

from fault_scenarios.errors import EvidenceFolderRefused
from fault_scenarios.new_folder import write_new_folder


def test_a_new_folder_holds_exactly_the_files(tmp_path: Path) -> None:
    write_new_folder(tmp_path / "a" / "b", {"c/d": b"1", "e": b""})
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"a/b/c/d", "a/b/e"}
    assert (tmp_path / "a/b/c/d").read_bytes() == b"1"


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    write_new_folder(tmp_path, {"e": b"1"})
    assert (tmp_path / "e").read_bytes() == b"1"


def test_a_folder_with_anything_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("")
    with pytest.raises(EvidenceFolderRefused, match="not empty"):
        write_new_folder(tmp_path, {"e": b"1"})
    assert not (tmp_path / "e").exists()


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(EvidenceFolderRefused, match="cannot be written"):
            write_new_folder(path, {"e": b"1"})
    assert (tmp_path / "file").read_text() == "mine"
