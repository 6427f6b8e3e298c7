"""The reader of tar archives: what tar programs write is read as ``tarfile`` reads it; what is hostile is bounded."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.sandbox.session_server import tar_reader
from affiant.sandbox.session_server.tar_reader import TarEntry, TarReader

Read = list[tuple[TarEntry, bytes]]
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def read(data: bytes) -> Read:
    return [(entry, b"".join(content)) for entry, content in TarReader(io.BytesIO(data))]


def by_tarfile(data: bytes) -> Read:
    """What the standard library reads."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as opened:
        for each in opened:
            kind = "file" if each.isreg() else "directory" if each.isdir() else "link"
            content = opened.extractfile(each).read() if each.isreg() else b""  # type: ignore[union-attr]
            executable = each.isreg() and bool(each.mode & 0o100)
            target = each.linkname if each.issym() else ""
            found.append((TarEntry(each.name, kind, len(content), executable, target), content))
    return found


def stripped(entries: Read) -> Read:
    """``tarfile`` leaves out the last slashes of a folder's name."""
    return [
        (TarEntry(each.name.rstrip("/"), each.kind, each.size, each.executable, each.target), content)
        for each, content in entries
    ]


def refused(data: bytes) -> str:
    with pytest.raises(AffiantError) as found:
        read(data)
    assert found.value.code == "session.archive"
    return str(found.value)


def info(name: str, size: int = 0, **facts: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size = size
    for fact, value in facts.items():
        setattr(made, fact, value)
    return made


def header(kind: bytes, size: int, name: str = "h", form: int = tarfile.GNU_FORMAT) -> bytes:
    return info(name, size, type=kind).tobuf(form)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def extended(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header(kind, len(records)) + padded(records)


def record(keyword: str, value: str) -> bytes:
    rest = f" {keyword}={value}\n".encode()
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


PLAIN = header(tarfile.REGTYPE, 0, "file")
END = bytes(1024)

names = st.text(
    st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=300
)
members = st.one_of(
    st.tuples(names, st.just(tarfile.REGTYPE), st.binary(max_size=2000), st.sampled_from([0o644, 0o755])),
    st.tuples(names, st.just(tarfile.DIRTYPE), st.just(b""), st.just(0o755)),
    st.tuples(names, st.just(tarfile.SYMTYPE), st.just(b""), st.just(0o777)),
)


@thorough(60)
@given(st.lists(members, min_size=1, max_size=5), st.sampled_from(["gnu", "pax"]), names)
def test_what_tarfile_writes_is_read_as_tarfile_reads_it(entries: list, form: str, target: str) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=FORMATS[form]) as made:
        for name, kind, data, mode in entries:
            link = target if kind == tarfile.SYMTYPE else ""
            made.addfile(info(name, len(data), type=kind, mode=mode, linkname=link), io.BytesIO(data))
    assert stripped(read(file.getvalue())) == stripped(by_tarfile(file.getvalue()))


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_what_gnu_tar_writes_is_read(tmp_path: Path, form: str) -> None:
    program = shutil.which("tar")
    assert program is not None
    long = "/".join(["n" * 40] * 3) if form != "v7" else "short"
    place = tmp_path / "in" / long
    place.mkdir(parents=True)
    (place / "file").write_bytes(b"x" * 1500)
    (place / "run").write_bytes(b"#!/bin/sh\n")
    (place / "run").chmod(0o755)
    (place / "link").symlink_to("../elsewhere")
    data = subprocess.run(
        [program, f"--format={form}", "-C", str(tmp_path / "in"), "-cf", "-", "."],
        check=True,
        capture_output=True,
    ).stdout
    found = stripped(read(data))
    assert found == stripped(by_tarfile(data))
    assert {each.kind for each, _ in found} == {"file", "directory", "link"}
    assert (f"./{long}/run", True) in {(each.name, each.executable) for each, _ in found}


@thorough(200)
@given(st.integers(0, 3000), st.binary(min_size=1, max_size=8))
def test_a_damaged_archive_is_read_or_an_error(at: int, damage: bytes) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as made:
        made.addfile(info("n" * 200, 700), io.BytesIO(b"x" * 700))
        made.addfile(info("l", type=tarfile.SYMTYPE, linkname="t" * 200))
    data = bytearray(file.getvalue())
    data[at : at + len(damage)] = damage
    try:
        read(bytes(data))
    except AffiantError as error:
        assert error.code == "session.archive"


def test_an_archive_that_ends_anywhere_but_between_entries_is_an_error() -> None:
    whole = extended(record("path", "n" * 300)) + header(tarfile.REGTYPE, 700) + padded(b"x" * 700)
    for size in (0, 1, 511, 512, 700, 1024, 1100, 1536, 1600, len(whole) - 1):
        refused(whole[:size])
    assert len(read(whole)) == len(read(whole + END)) == 1


@pytest.mark.parametrize(
    "kind", [tarfile.GNUTYPE_SPARSE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"V", b"D", b"~"]
)
def test_other_kinds_of_entries_are_errors_before_more_is_read(kind: bytes) -> None:
    assert "neither a file" in refused(header(kind, 0))


@pytest.mark.parametrize(
    "records",
    [
        record("GNU.sparse.map", "0,1"),
        record("GNU.sparse.size", "9"),
        record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", "f"),
    ],
)
def test_a_file_of_holes_is_an_error_before_its_map_is_read(records: bytes) -> None:
    assert "neither a file" in refused(extended(records) + header(tarfile.REGTYPE, 1 << 30))


@pytest.mark.parametrize(
    "records",
    [
        b"2 " * 1000 + b"=",
        b"1 a=\n",
        b"4 a=\n",
        b"6 a=\n",
        b"999999999 a=\n",
        b"05 a=\n",
        b"0 a=\n",
        b"-5 a=\n",
        b"+5 a=\n",
        b"4 a\n",
        b"5 a=b",
        b"\n",
        b"5 a=\n\0",
        record("size", "-1"),
        record("size", "1_0"),
        record("size", "0x1"),
        record("size", " 1"),
    ],
)
def test_records_of_another_form_are_errors(records: bytes) -> None:
    refused(extended(records) + PLAIN + END)


def test_a_file_larger_than_its_header_can_say_has_its_size_from_the_records() -> None:
    ((entry, content),) = read(extended(record("size", "600")) + PLAIN + padded(b"y" * 600) + END)
    assert (entry.size, content) == (600, b"y" * 600)


def test_a_negative_size_is_an_error() -> None:
    for kind in (tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.DIRTYPE):
        block = bytearray(header(kind, 0))
        block[124:136] = (-512).to_bytes(12, "big", signed=True)
        block[148:156] = b" " * 8
        block[148:156] = f"{sum(block):06o}\0 ".encode()
        refused(bytes(block) + END)


def test_a_header_whose_checksum_does_not_hold_is_an_error() -> None:
    for at in (0, 60, 124, 156, 300, 511):
        block = bytearray(PLAIN)
        block[at] ^= 1
        assert "checksum" in refused(bytes(block) + END)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_extended_headers_in_a_row_are_bounded(kind: bytes) -> None:
    one = extended(record("path", "n"), kind) if kind != tarfile.GNUTYPE_LONGNAME else extended(b"n\0", kind)
    assert len(read(one * 15 + PLAIN + END)) == 1
    for count in (16, 3000):
        assert "in a row" in refused(one * count + PLAIN + END)


def test_extended_headers_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_reader, "EXTENDED_BYTES", 10_000)
    one = extended(record("comment", "x" * 980)) + PLAIN
    assert len(read(one * 10 + END)) == 10
    assert "too large" in refused(one * 11 + END)


def test_a_global_header_names_no_entry() -> None:
    ((entry, _),) = read(extended(record("path", "other"), tarfile.XGLTYPE) + PLAIN + END)
    assert entry.name == "file"
