"""Archives of the workspace: what was packed is unpacked again, and a hostile archive changes nothing on this side."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("agents.sandbox", reason="needs affiant[openai-agents]")

from agents.sandbox.errors import WorkspaceArchiveWriteError  # noqa: E402 - the SDK may be missing

from affiant.sandbox.openai_agents.archive import packed, unpacked  # noqa: E402


def made(folder: Path) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file").write_bytes(b"content")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("deep/file")
    (folder / "left").mkdir()
    (folder / "left/out").write_text("x")
    return folder


def test_what_was_packed_is_unpacked_without_what_is_skipped(tmp_path: Path) -> None:
    with packed(made(tmp_path / "from"), {Path("left")}) as archive:
        names = tarfile.open(fileobj=io.BytesIO(archive.read())).getnames()
        archive.seek(0)
        (tmp_path / "to").mkdir()
        unpacked(archive, tmp_path / "to")
    assert sorted(names) == [".", "./deep", "./deep/file", "./link", "./run.sh"]
    found = sorted(path.relative_to(tmp_path / "to").as_posix() for path in (tmp_path / "to").rglob("*"))
    assert found == ["deep", "deep/file", "link", "run.sh"]
    assert (tmp_path / "to/deep/file").read_bytes() == b"content"
    assert os.readlink(tmp_path / "to/link") == "deep/file"
    assert os.access(tmp_path / "to/run.sh", os.X_OK)


def test_an_archive_names_no_user_of_this_machine(tmp_path: Path) -> None:
    with packed(made(tmp_path / "from"), set()) as archive:
        members = tarfile.open(fileobj=io.BytesIO(archive.read())).getmembers()
    assert {(each.uid, each.gid, each.uname, each.gname) for each in members} == {(0, 0, "", "")}


def member(name: str, **facts: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(info, key, value)
    return info


HOSTILE: dict[str, Callable[[Path], list[tarfile.TarInfo]]] = {
    "a path above": lambda place: [member("../out")],
    "a path above, within": lambda place: [member("a/../../out")],
    "an absolute path": lambda place: [member(f"{place}/out")],
    "a link above": lambda place: [member("l", type=tarfile.SYMTYPE, linkname="../out")],
    "an absolute link": lambda place: [member("l", type=tarfile.SYMTYPE, linkname=str(place / "out"))],
    "a file through a link": lambda place: [
        member("l", type=tarfile.SYMTYPE, linkname="."),
        member("l/../out"),
    ],
    "a file below a link": lambda place: [
        member("l", type=tarfile.SYMTYPE, linkname="deep"),
        member("l/file"),
    ],
    "a hard link": lambda place: [member("l", type=tarfile.LNKTYPE, linkname="/etc/hostname")],
    "a device": lambda place: [member("l", type=tarfile.CHRTYPE, devmajor=1, devminor=5)],
    "a pipe": lambda place: [member("l", type=tarfile.FIFOTYPE)],
    "a link as its root": lambda place: [member(".", type=tarfile.SYMTYPE, linkname="/etc")],
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_archive_is_an_error_and_writes_nothing_outside(tmp_path: Path, attack: str) -> None:
    place = tmp_path / "to"
    place.mkdir()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for each in HOSTILE[attack](tmp_path):
            tar.addfile(each)
    archive.seek(0)
    with pytest.raises(WorkspaceArchiveWriteError):
        unpacked(archive, place)
    assert [path.name for path in tmp_path.iterdir()] == ["to"]


CUT = gzip.compress(os.urandom(100_000), mtime=0)[:50_000]


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", b"\x1f\x8b\x08garbage", gzip.compress(b"no archive", mtime=0), CUT],
    ids=["empty", "no archive", "garbage", "no archive in gzip", "cut"],
)
def test_what_is_no_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(WorkspaceArchiveWriteError):
        unpacked(io.BytesIO(content), tmp_path)
