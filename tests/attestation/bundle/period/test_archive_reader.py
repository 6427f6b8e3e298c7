"""Round trips of period bundles, and every way in which an archive lies."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.attestation.deflate_streams import coded
from tests.attestation.period_builder import build, central_entries, last_bytes, rezipped, sorted_records
from tests.attestation.story import Story
from tests.properties import thorough

from affiant.attestation.bundle.period.archive import Archive
from affiant.attestation.bundle.period.archive_reader import PeriodBundle, is_archive
from affiant.attestation.bundle.period.errors import (
    ArchiveUnreadable,
    DigestMismatch,
    LineMalformed,
    ManifestMalformed,
    MemberAbsent,
    WriterMisused,
    ZipContentMismatch,
)
from affiant.attestation.bundle.period.lines import split_lines
from affiant.attestation.bundle.period.manifest import Range
from affiant.attestation.bundle.period.writer import write_archive
from affiant.attestation.bundle.period.zip_directory import ZipBounds, read_directory
from affiant.attestation.bundle.period.zip_form import FULL32, Member, end_records
from affiant.errors import AffiantError

PUBLISHED = Path(__file__).parents[4] / "attestation/vectors/receipts/period/valid-session.affiant.zip"


@pytest.fixture(scope="module")
def story() -> Story:
    return Story().tell()


@pytest.fixture(scope="module")
def archive(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("period"), story, extra={"anchors/13.tsr": b"a token"})


LONG = "".join(hashlib.sha256(bytes([n % 256, n >> 8])).hexdigest() for n in range(1100)).encode()


def read_all(path: Path) -> None:
    with PeriodBundle(path) as bundle:
        for _ in bundle.receipts():
            pass
        bundle.read_rest()


# -- what was written is what is read --------------------------------------------------------------------------


def test_receipts_come_back_in_log_order_with_their_disclosures(archive: Path, story: Story) -> None:
    with PeriodBundle(archive) as bundle:
        assert list(bundle.receipts()) == [record.sdjwt for record in sorted_records(story)]
        assert dict(bundle.objects("evidence")) == story.bundle().evidence
        assert bundle.anchors == ("anchors/13.tsr",)
        assert bundle.read("anchors/13.tsr") == b"a token"
        assert bundle.unknown == bundle.absent == ()
        assert bundle.read_rest() > 5


def test_the_same_input_gives_the_same_file(archive: Path, story: Story, tmp_path: Path) -> None:
    again = build(tmp_path, story, extra={"anchors/13.tsr": b"a token"})
    assert again.read_bytes() == archive.read_bytes()


def test_other_programs_read_it(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as other:
        assert other.testzip() is None
        assert other.namelist() == sorted(other.namelist())
        other.extractall(tmp_path)
        assert {info.date_time for info in other.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    for line in (tmp_path / "receipts/000000.ndjson").read_text().splitlines():
        assert json.loads(line).count(".") == 2
    listed = json.loads((tmp_path / "manifest.json").read_bytes())["files"]
    for name, entry in listed.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == entry["sha256"]


def test_the_commands_of_the_readme_in_it_work(archive: Path, tmp_path: Path) -> None:
    try:
        subprocess.run(["node", "--version"], check=True, capture_output=True, timeout=20)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no node")
    with zipfile.ZipFile(archive) as other:
        other.extractall(tmp_path)
    text = (tmp_path / "README.txt").read_text()
    for position in (1, 2):
        script = text.split("node -e '")[position].split("'\n")[0]
        done = subprocess.run(
            ["node", "-e", script], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "NOT AS LISTED" not in done.stdout
        if position == 2:
            assert done.stdout.strip().endswith("true")


def test_a_single_bundle_is_no_archive(archive: Path, story: Story) -> None:
    assert is_archive(archive.read_bytes()[:4])
    assert not is_archive(story.bytes()[:4])


# -- what stands in it -----------------------------------------------------------------------------------------


def test_an_unknown_file_is_named_and_not_read(archive: Path, tmp_path: Path) -> None:
    with PeriodBundle(rezipped(archive, tmp_path / "x.zip", {"notes/hello.md": b"hi"})) as bundle:
        assert bundle.unknown == ("notes/hello.md",)


def test_a_listed_file_that_is_gone_is_named(archive: Path, tmp_path: Path) -> None:
    with PeriodBundle(rezipped(archive, tmp_path / "x.zip", {"anchors/13.tsr": None})) as bundle:
        assert bundle.absent == ("anchors/13.tsr",)
        with pytest.raises(MemberAbsent):
            bundle.read("anchors/13.tsr")


def test_a_file_that_is_not_the_listed_one_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(DigestMismatch):
        read_all(rezipped(archive, tmp_path / "x.zip", {"anchors/13.tsr": b"b token"}))
    with pytest.raises(DigestMismatch):
        read_all(rezipped(archive, tmp_path / "x.zip", {"anchors/13.tsr": b"another token"}))


def test_a_file_that_is_not_listed_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ManifestMalformed):
        read_all(rezipped(archive, tmp_path / "x.zip", {"anchors/12.tsr": b""}))


@pytest.mark.parametrize("manifest", [None, b"{}", b"[]", b"{", b'{"typ":"affiant-period/1"}', b"[" * 40])
def test_no_manifest_or_another_form_is_refused(
    archive: Path, tmp_path: Path, manifest: bytes | None
) -> None:
    with pytest.raises(ManifestMalformed):
        read_all(rezipped(archive, tmp_path / "x.zip", {"manifest.json": manifest}))


def test_an_object_under_another_name_is_refused(story: Story, tmp_path: Path) -> None:
    path = build(tmp_path, story, extra={f"policies/{'0' * 64}.json": b"{}"})
    with PeriodBundle(path) as bundle, pytest.raises(DigestMismatch):
        dict(bundle.objects("policies"))
    with pytest.raises(DigestMismatch):  # also where nobody asks for it
        read_all(path)


@pytest.mark.parametrize(
    "lines",
    [b"abc\n", b'"a.b"\n', b'"a.b.c" \n', b'"a.b.c"', b"\n", b'"a.b.c"\r\n', b'"' + LONG + b'"\n'],
)
def test_a_line_of_another_form_is_refused(story: Story, tmp_path: Path, lines: bytes) -> None:
    with PeriodBundle(build(tmp_path, story, extra={"receipts/000001.ndjson": lines})) as bundle:
        with pytest.raises(LineMalformed):
            list(bundle.receipts())


@pytest.mark.parametrize("line", [b'["x"]\n', b'["' + b"A" * 43 + b'","YQ"]\n', b"[]\n"])
def test_disclosures_of_no_receipt_are_refused(story: Story, tmp_path: Path, line: bytes) -> None:
    made = {"receipts/000001.ndjson": b'"a.b.c"\n', "disclosures/000001.ndjson": line}
    with PeriodBundle(build(tmp_path, story, extra=made)) as bundle, pytest.raises(LineMalformed):
        list(bundle.receipts())


def test_a_line_is_found_however_it_is_cut() -> None:
    data = b"".join(b"%d\n" % n for n in range(1000))
    for size in (1, 2, 3, 7, 4096):
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        assert list(split_lines(pieces, where="x")) == [b"%d" % n for n in range(1000)]


def test_the_writer_takes_nothing_that_the_layout_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/passwd").write_text("x")
    asked = Range(None, None, "log", 0, 0)
    with pytest.raises(WriterMisused):
        write_archive(tmp_path / "in", tmp_path / "out.zip", asked=asked, exporter="test")
    (tmp_path / "in/passwd").unlink()
    (tmp_path / "in/README.txt").symlink_to("/etc/passwd")
    with pytest.raises(WriterMisused):
        write_archive(tmp_path / "in", tmp_path / "out.zip", asked=asked, exporter="test")
    assert not (tmp_path / "out.zip").exists()


# -- archives that lie -----------------------------------------------------------------------------------------

Spoil = Callable[[bytearray], None]


def central(offset: int, form: str, value: int) -> Spoil:
    """Set one field of the first entry of the directory."""

    def spoil(data: bytearray) -> None:
        struct.pack_into(form, data, central_entries(data)[0] + offset, value)

    return spoil


def both(central_at: int, local_at: int, form: str, value: int) -> Spoil:
    """Set one field in both headers of the first member, so that they agree."""

    def spoil(data: bytearray) -> None:
        struct.pack_into(form, data, central_entries(data)[0] + central_at, value)
        struct.pack_into(form, data, local_at, value)

    return spoil


def rename(old: bytes, new: bytes) -> Spoil:
    """Another name of the same length, in both headers."""

    def spoil(data: bytearray) -> None:
        assert len(old) == len(new)
        data[:] = data.replace(old, new)

    return spoil


def insert(at: int, what: bytes) -> Spoil:
    def spoil(data: bytearray) -> None:
        data[at:at] = what

    return spoil


def _grow_directory(data: bytearray) -> None:
    data[-22:-22] = bytes(5)


def _comment(data: bytearray) -> None:
    struct.pack_into("<H", data, len(data) - 2, 3)
    data.extend(b"PK\5")


def _end_count(data: bytearray) -> None:
    count = struct.unpack_from("<H", data, len(data) - 12)[0]
    struct.pack_into("<HH", data, len(data) - 14, count - 1, count - 1)


def _zip64(data: bytearray) -> None:
    count, size, offset = struct.unpack("<HII", data[-12:-2])
    full = end_records(0xFFFF, FULL32, FULL32)[:-22]
    del data[-22:]
    data += full + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, size, offset, 0)


LIES: dict[str, tuple[str, Spoil]] = {
    "encrypted": ("zip.encrypted", both(8, 6, "<H", 0x0001)),
    "strong encryption": ("zip.encrypted", both(8, 6, "<H", 0x0041)),
    "data descriptor": ("zip.header", both(8, 6, "<H", 0x0008)),
    "stored": ("zip.method", both(10, 8, "<H", 0)),
    "another method": ("zip.method", both(10, 8, "<H", 14)),
    "a link": ("zip.kind", central(38, "<I", 0o120777 << 16)),
    "a folder": ("zip.kind", central(38, "<I", 0o040755 << 16 | 0x10)),
    "set-uid": ("zip.kind", central(38, "<I", 0o104755 << 16)),
    "another disk": ("zip.header", central(34, "<H", 1)),
    "another time": ("zip.header", both(12, 10, "<H", 1)),
    "local flags": ("zip.header", lambda data: struct.pack_into("<H", data, 6, 1)),
    "local method": ("zip.header", lambda data: struct.pack_into("<H", data, 8, 0)),
    "local size": ("zip.header", lambda data: struct.pack_into("<I", data, 22, 1)),
    "local name": ("zip.header", lambda data: struct.pack_into("<B", data, 30, 0x58)),
    "local extra": ("zip.header", lambda data: struct.pack_into("<H", data, 28, 4)),
    "a comment": ("zip.structure", lambda data: data.extend(b"x")),
    "a longer comment": ("zip.structure", _comment),
    "something before": ("zip.structure", insert(0, b"#!/bin/sh\n")),
    "something between": ("zip.structure", _grow_directory),
    "a member less": ("zip.structure", _end_count),
    "64 bits that are not needed": ("zip.zip64", _zip64),
    "a path out": ("zip.name", rename(b"anchors/13.tsr", b"../chors/13.ts")),
    "an absolute path": ("zip.name", rename(b"anchors/13.tsr", b"/nchors/13.tsr")),
    "a backslash": ("zip.name", rename(b"anchors/13.tsr", b"anchors\\13.tsr")),
    "a drive": ("zip.name", rename(b"anchors/13.tsr", b"C:chors/13.tsr")),
    "a zero": ("zip.name", rename(b"anchors/13.tsr", b"anchors/13\0tsr")),
    "a newline": ("zip.name", rename(b"anchors/13.tsr", b"anchors/13.ts\n")),
    "not ASCII": ("zip.name", rename(b"anchors/13.tsr", b"anchors/13.ts\xff")),
    "dots inside": ("zip.name", rename(b"anchors/13.tsr", b"anchors/../tsr")),
    "a double slash": ("zip.name", rename(b"anchors/13.tsr", b"anchors//3.tsr")),
    "an end of a slash": ("zip.name", rename(b"anchors/13.tsr", b"anchors/13.ts/")),
    "one name twice by case": ("zip.duplicate", rename(b"anchors/13.tsr", b"readme.txt.tsr")),
    "out of order": ("zip.structure", rename(b"anchors/13.tsr", b"zzchors/13.tsr")),
    "a bomb by its word": ("zip.ratio", both(24, 22, "<I", 0x7FFFFFFF)),
    "a size that is not so": ("period.digest", both(24, 22, "<I", 7)),
    "a checksum that is not so": ("zip.content", both(16, 14, "<I", 7)),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_archive_is_refused(archive: Path, tmp_path: Path, name: str) -> None:
    code, spoil = LIES[name]
    data = bytearray(archive.read_bytes())
    if name == "one name twice by case":
        data = bytearray(rezipped(archive, tmp_path / "two.zip", {"readme.TXT": b""}).read_bytes())
    else:
        spoil(data)
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(AffiantError) as refused:
        read_all(tmp_path / "x.zip")
    assert refused.value.code == code


def test_a_member_of_another_size_than_its_headers_say_is_refused(archive: Path, tmp_path: Path) -> None:
    for size in (7, 1, 100_000):
        data = bytearray(archive.read_bytes())
        both(24, 22, "<I", size)(data)
        (tmp_path / "x.zip").write_bytes(data)
        with Archive(tmp_path / "x.zip") as opened, pytest.raises(ZipContentMismatch):
            opened.read("README.txt")


def test_every_bit_of_every_last_byte_counts(tmp_path: Path) -> None:
    """Of a published archive, in each of its files: whether the bit belongs to the content or comes after its end."""
    path = rezipped(PUBLISHED, tmp_path / "x.zip", {}, deflated=lambda data: coded(data).packed)
    read_all(path)
    whole = path.read_bytes()
    for name, at in last_bytes(path).items():
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            path.write_bytes(data)
            with pytest.raises(ZipContentMismatch):
                read_all(path)
            with Archive(path) as opened, pytest.raises(ZipContentMismatch, match=name):
                opened.read(name)


def test_one_name_twice_is_refused(archive: Path, tmp_path: Path) -> None:
    made = rezipped(archive, tmp_path / "x.zip", {"anchors/14.tsr": b"a token"})
    made.write_bytes(made.read_bytes().replace(b"anchors/14.tsr", b"anchors/13.tsr"))
    with pytest.raises(AffiantError) as refused:
        read_all(made)
    assert refused.value.code == "zip.duplicate"


def test_a_file_below_a_file_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(AffiantError) as refused:
        read_all(rezipped(archive, tmp_path / "x.zip", {"README.txt/x": b""}))
    assert refused.value.code == "zip.duplicate"


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    inner = Member("a", 0, 4, 4, zlib.crc32(b"abcd"))
    outer = Member("b", 10, 4, 4, 0)
    body = inner.local_header() + b"\x03\x00\x00\x00" + outer.local_header() + bytes(4)
    directory = inner.central_header() + outer.central_header()
    data = body + directory + end_records(2, len(body), len(directory))
    with pytest.raises(AffiantError) as refused:
        read_directory(lambda size, at: data[at : at + size], len(data), ZipBounds())
    assert refused.value.code == "zip.structure"


def test_a_real_bomb_is_refused_unopened(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(AffiantError) as refused:
        read_all(rezipped(archive, tmp_path / "x.zip", {"anchors/14.tsr": bytes(10_000_000)}))
    assert refused.value.code == "zip.ratio"


def test_the_bounds_of_the_caller_hold(archive: Path) -> None:
    for bounds in (ZipBounds(members=3), ZipBounds(total=1000)):
        with pytest.raises(AffiantError) as refused:
            PeriodBundle(archive, bounds=bounds)
        assert refused.value.code == "zip.too_large"


def test_a_large_offset_has_exactly_one_form() -> None:
    member = Member("a", FULL32 + 5, 2, 0, 0)
    directory = member.central_header()
    assert len(directory) == 46 + 1 + 12
    wide = end_records(1, FULL32 + 100, len(directory))
    assert len(wide) == 56 + 20 + 22
    base = FULL32 + 100

    def read(size: int, at: int) -> bytes:
        return (directory + wide)[at - base : at - base + size]

    with pytest.raises(AffiantError) as refused:  # its form is right; there is a hole before it
        read_directory(read, base + len(directory) + len(wide), ZipBounds())
    assert refused.value.code == "zip.structure"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnreadable):
        PeriodBundle(tmp_path / "none.zip")
    (tmp_path / "empty.zip").write_bytes(b"")
    with pytest.raises(AffiantError) as refused:
        PeriodBundle(tmp_path / "empty.zip")
    assert refused.value.code == "zip.structure"


def test_any_cut_is_refused(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    for at in {*range(0, len(data), 997), len(data) - 1, len(data) - 22}:
        (tmp_path / "x.zip").write_bytes(data[:at])
        with pytest.raises(AffiantError):
            read_all(tmp_path / "x.zip")


@thorough(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_done_to_an_archive_only_refusals_come_out(
    data: st.DataObject, archive: Path, tmp_path: Path
) -> None:
    raw = bytearray(archive.read_bytes())
    structural = [*central_entries(raw), len(raw) - 22, 0]
    for _ in range(data.draw(st.integers(1, 4))):
        base = data.draw(st.sampled_from([*structural, None]))
        if base is None:
            at = data.draw(st.integers(0, len(raw) - 1))
        else:
            at = min(len(raw) - 1, base + data.draw(st.integers(0, 60)))
        action = data.draw(st.sampled_from(["set", "wide", "cut", "insert", "repeat"]))
        if action == "set":
            raw[at] = data.draw(st.integers(0, 255))
        elif action == "wide":
            value = data.draw(st.sampled_from([0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, FULL32]))
            raw[at : at + 4] = struct.pack("<I", value)
        elif action == "cut":
            del raw[at : at + data.draw(st.integers(1, 64))]
        elif action == "insert":
            raw[at:at] = data.draw(st.binary(max_size=64))
        else:
            raw[at:at] = raw[at : at + 200]
    path = tmp_path / "fuzz.zip"
    path.write_bytes(raw)
    tracemalloc.start()
    begun = time.monotonic()
    try:
        read_all(path)
    except AffiantError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.monotonic() - begun < 2
    assert peak < 32 << 20
