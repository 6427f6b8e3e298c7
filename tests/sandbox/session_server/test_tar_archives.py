"""Tar archives of callers: whatever one holds, nothing is written beside its folder, and all is bounded."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from affiant.errors import AffiantError
from affiant.sandbox.session_server.tar_archives import pack_archive, unpack_archive
from affiant.sandbox.workspace.walk import Limits


def member(name: str, data: bytes = b"", **facts) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info, data


def archive(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as made:
        for info, data in members:
            made.addfile(info, io.BytesIO(data))
    file.seek(0)
    return file


def unpacked(folder: Path, file: io.BytesIO, **limits) -> dict[str, bytes]:
    unpack_archive(file, folder, limits=Limits(**limits))
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_files_folders_links_and_executable_bits_come_through_both_ways(tmp_path: Path) -> None:
    into, again = tmp_path / "into", tmp_path / "again"
    into.mkdir()
    again.mkdir()
    file = archive(
        member(".", type=tarfile.DIRTYPE),
        member("./a/b.txt", b"b"),
        member("run", b"#!/bin/sh\n", mode=0o4755, uid=0, uname="root"),
        member("link", type=tarfile.SYMTYPE, linkname="a/b.txt"),
        member("empty/", type=tarfile.DIRTYPE),
    )
    assert unpacked(into, file) == {"a/b.txt": b"b", "run": b"#!/bin/sh\n", "link": b"b"}
    assert (into / "run").stat().st_mode & 0o7777 == 0o755
    assert (into / "empty").is_dir()
    packed = io.BytesIO()
    pack_archive(into, packed)
    packed.seek(0)
    assert unpacked(again, packed) == {"a/b.txt": b"b", "run": b"#!/bin/sh\n", "link": b"b"}
    assert (again / "link").readlink() == Path("a/b.txt")


@pytest.mark.parametrize(
    "bad",
    [
        member("../out", b"x"),
        member("a/../../out", b"x"),
        member("/out", b"x"),
        member("a\nb", b"x"),
        member("n" * 300, b"x"),
        member("/".join("d" * 70), b"x"),
        member("device", type=tarfile.CHRTYPE),
        member("pipe", type=tarfile.FIFOTYPE),
        member("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        member(".", b"x"),
    ],
)
def test_an_entry_that_leads_elsewhere_is_an_error(
    tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(AffiantError) as found:
        unpacked(folder, archive(member("before", b"x"), bad))
    assert found.value.code == "session.archive"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    file = archive(member("d", type=tarfile.SYMTYPE, linkname=str(outside)), member("d/x", b"x"))
    with pytest.raises(AffiantError):
        unpacked(folder, file)
    again = archive(member("f", type=tarfile.SYMTYPE, linkname=str(outside / "f")), member("f", b"x"))
    (tmp_path / "second").mkdir()
    assert unpacked(tmp_path / "second", again) == {"f": b"x"}, "the link is replaced"
    assert not list(outside.iterdir())


@pytest.mark.parametrize("limits", [{"files": 2}, {"total_bytes": 20}])
def test_more_than_the_limits_is_an_error(tmp_path: Path, limits: dict) -> None:
    with pytest.raises(AffiantError) as found:
        unpacked(tmp_path, archive(*(member(f"f{n}", b"0123456789") for n in range(3))), **limits)
    assert found.value.code == "workspace.too_large"


def test_a_file_of_holes_does_not_unpack(tmp_path: Path) -> None:
    header = tarfile.TarInfo("sparse")
    header.type = tarfile.GNUTYPE_SPARSE
    data = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    data[483:495] = b"00077777777\0"  # its size, once it is written out
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()
    with pytest.raises(AffiantError) as found:
        unpacked(tmp_path, io.BytesIO(bytes(data) + bytes(1024)))
    assert found.value.code == "session.archive"
    assert not list(tmp_path.iterdir())


class Endless(io.RawIOBase):
    """A header, and as many bytes as are asked for."""

    def __init__(self, first: bytes) -> None:
        self.first = first
        self.given = 0

    def read(self, size: int = -1) -> bytes:
        self.given += size
        head, self.first = self.first[:size], self.first[size:]
        return head.ljust(size, b"a")


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
)
def test_an_extended_header_of_any_size_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, 1 << 30
    endless = Endless(info.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(AffiantError) as found:
        unpack_archive(endless, tmp_path)
    assert found.value.code == "session.archive"
    assert endless.given < 1 << 20


@pytest.mark.parametrize("data", [b"no archive" * 100, b"\x1f\x8b" + bytes(600), b"x"])
def test_what_is_no_archive_is_an_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(AffiantError) as found:
        unpacked(tmp_path, io.BytesIO(data))
    assert found.value.code == "session.archive"


def test_a_compressed_archive_and_one_that_ends_early_are_errors(tmp_path: Path) -> None:
    whole = archive(member("a", b"x" * 5000)).getvalue()
    for data in (whole[:2000], archive(member("a", b"x"), mode="w:gz").getvalue()):
        with pytest.raises(AffiantError) as found:
            unpacked(tmp_path, io.BytesIO(data))
        assert found.value.code == "session.archive"


def test_folders_that_paths_imply_are_entries_too(tmp_path: Path) -> None:
    deep = archive(member("a/b/c/d"), member("a/b/e/f"), member("a/b/", type=tarfile.DIRTYPE))
    (tmp_path / "in").mkdir()
    assert unpacked(tmp_path / "in", deep, files=7) == {"a/b/c/d": b"", "a/b/e/f": b""}
    (tmp_path / "few").mkdir()
    deep.seek(0)
    with pytest.raises(AffiantError) as found:
        unpacked(tmp_path / "few", deep, files=6)
    assert found.value.code == "workspace.too_large"


def test_many_folders_of_a_small_archive_are_too_many(tmp_path: Path) -> None:
    many = archive(*(member(f"{number}/" + "d/" * 60 + "f") for number in range(50)))
    with pytest.raises(AffiantError) as found:
        unpacked(tmp_path, many, files=1000)
    assert found.value.code == "workspace.too_large"
    assert len(list(tmp_path.rglob("*"))) < 1000


def test_it_ends_where_its_caller_has_left(tmp_path: Path) -> None:
    left = 0

    class Left(BaseException):
        pass

    def proceed() -> None:
        nonlocal left
        left += 1
        if left == 3:
            raise Left

    with pytest.raises(Left):
        unpack_archive(
            archive(*(member(f"f{n}") for n in range(9))), tmp_path, limits=Limits(proceed=proceed)
        )
    assert len(list(tmp_path.iterdir())) == 2
    left = -(2**30)
    unpack_archive(archive(member("big", bytes(5 << 20))), tmp_path, limits=Limits(proceed=proceed))
    assert left + 2**30 >= 5, "in a file too"


@pytest.mark.parametrize("target", ["", "a\0b", "t" * 4096])
def test_a_link_that_no_link_can_be_is_an_error(tmp_path: Path, target: str) -> None:
    info, data = member("link", type=tarfile.SYMTYPE)
    info.pax_headers = {"linkpath": target}
    with pytest.raises(AffiantError) as found:
        unpacked(tmp_path, archive((info, data)))
    assert found.value.code == "session.archive"
