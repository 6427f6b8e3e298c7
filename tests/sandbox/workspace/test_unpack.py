"""What a stream writes below a directory, and what it cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.workspace.tree import Entry, Kind
from affiant.sandbox.workspace.unpack import Unpacking
from affiant.sandbox.workspace.walk import open_directory


def entry(path: str, content: bytes | str | None, *, executable: bool = False):
    """``content``: of a file; text: a link's target; None: a folder."""
    if content is None:
        return Entry(path, Kind.DIRECTORY, executable=False, content=""), iter(())
    if isinstance(content, str):
        return Entry(path, Kind.LINK, executable=False, content=content), iter(())
    return Entry(path, Kind.FILE, executable, ""), iter((content,))


def unpack(folder: Path, *entries, **more) -> Unpacking:
    with open_directory(folder) as base:
        unpacking = Unpacking(base, **more)
        unpacking.unpack(entries)
        return unpacking


def test_files_folders_and_links_arrive_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "old").write_text("old")
    done = unpack(
        tmp_path,
        entry("d", None),
        entry("d/a", b"a", executable=True),
        entry("old", b"new"),
        entry("l", "d/a"),
    )
    assert (done.files, done.length) == (3, 4)
    assert (tmp_path / "d/a").stat().st_mode & 0o111
    assert (tmp_path / "old").read_text() == "new"
    assert os.readlink(tmp_path / "l") == "d/a"
    assert sorted(os.listdir(tmp_path)) == ["d", "kept", "l", "old"]


def test_a_link_that_is_there_is_replaced_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "out/target").write_text("outside")
    (tmp_path / "in/a").symlink_to("../out/target")
    (tmp_path / "in/d").symlink_to("../out")
    unpack(tmp_path / "in", entry("a", b"new"))
    assert (tmp_path / "out/target").read_text() == "outside"
    assert not (tmp_path / "in/a").is_symlink()
    for one in (entry("d", None), entry("d/x", b"x")):
        with raises_code("workspace.output"):
            unpack(tmp_path / "in", one)
    assert os.listdir(tmp_path / "out") == ["target"]


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "d/below").mkdir(parents=True)
    with raises_code("workspace.output"):
        unpack(tmp_path, entry("d", b"x"))
    assert os.listdir(tmp_path) == ["d"]


def test_links_that_could_lead_out_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    links = [entry("up", "../x"), entry("root", "/etc"), entry("in", "d/a")]
    done = unpack(tmp_path, entry("d", None), *links, only_inside=True)
    assert [each.path for each in done.skipped] == ["up", "root"]
    assert sorted(os.listdir(tmp_path)) == ["d", "in"]


def test_a_file_that_cannot_be_written_whole_leaves_nothing_and_the_count_is_right(tmp_path: Path) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with open_directory(tmp_path) as base:
        unpacking = Unpacking(base)
        broken = (Entry("b", Kind.FILE, executable=False, content=""), breaks())
        with pytest.raises(OSError, match="No space"):
            unpacking.unpack([entry("a", b"1234"), broken, entry("c", b"never")])
    assert (unpacking.files, unpacking.length, os.listdir(tmp_path)) == (1, 4, ["a"])


def test_a_draft_that_somebody_put_there_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f".affiant-{os.getpid()}-0.new").symlink_to("../target")
    unpack(tmp_path / "in", entry("a", b"x"))
    assert not (tmp_path / "target").exists()
    assert (tmp_path / "in/a").read_bytes() == b"x"
