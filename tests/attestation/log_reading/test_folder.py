"""A folder may come from anybody: links, pipes and strange paths are refused, never followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.attestation.log_builder import LogBuilder

from affiant.attestation.log_reading.errors import LogAbsent, PathRefused, ResourceTooLarge
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.tlog.errors import TileMalformed


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../log/checkpoint", "tile/../checkpoint", "tile/0/000/", "./checkpoint"]
)
def test_only_paths_of_a_log_are_read(built: LogBuilder, path: str) -> None:
    with pytest.raises(TileMalformed):
        FolderLog(built.folder).read(path, limit=100)


def test_what_is_not_there_is_none(built: LogBuilder) -> None:
    source = FolderLog(built.folder)
    assert source.read("tile/0/009", limit=8192) is None
    assert source.read("tile/7/x001/000", limit=8192) is None
    with pytest.raises(LogAbsent):
        FolderLog(built.folder / "nowhere").read("checkpoint", limit=100)


def test_a_file_larger_than_it_can_be_is_refused(built: LogBuilder) -> None:
    path = built.folder / "tile/0/000"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ResourceTooLarge):
        FolderLog(built.folder).read("tile/0/000", limit=8192)


@pytest.mark.parametrize("what", ["file", "folder", "dangling", "pipe", "a folder in its place"])
def test_links_and_pipes_are_refused(built: LogBuilder, tmp_path: Path, what: str) -> None:
    path = built.folder / "tile/0/000"
    content = path.read_bytes()
    match what:
        case "file":
            (tmp_path / "elsewhere").write_bytes(content)
            path.unlink()
            path.symlink_to(tmp_path / "elsewhere")
        case "folder":
            (built.folder / "tile/0").rename(tmp_path / "elsewhere")
            (built.folder / "tile/0").symlink_to(tmp_path / "elsewhere")
        case "dangling":
            path.unlink()
            path.symlink_to("nowhere")
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case _:
            path.unlink()
            path.mkdir()
    with pytest.raises(PathRefused):
        FolderLog(built.folder).read("tile/0/000", limit=8192)


def test_a_listing_names_links_and_does_not_follow_them(built: LogBuilder, tmp_path: Path) -> None:
    (built.folder / "tile/loop").symlink_to(built.folder)
    found = dict(FolderLog(built.folder).paths())
    assert found["tile/loop"] is False and found["checkpoint"] is True
    assert not any(path.startswith("tile/loop/") for path in found)


def test_a_folder_without_an_end_is_refused(built: LogBuilder) -> None:
    (built.folder / "/".join("x" * 20)).mkdir(parents=True)
    with pytest.raises(PathRefused):
        list(FolderLog(built.folder).paths())
