"""A stream of files: what is written is read, and nothing else is."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.errors import AffiantError
from affiant.sandbox.workspace.tree import Entry, Kind, Skipped, tree_digest
from affiant.sandbox.workspace.tree_stream import TreeReader, TreeWriter, pack, summarise
from affiant.sandbox.workspace.walk import Limits, open_directory, read_tree


def packed(folder: Path, **more) -> io.BytesIO:
    file = io.BytesIO()
    writer = TreeWriter(file)
    with open_directory(folder) as root:
        pack(root, writer, **more)
    writer.end({})
    return file


def raw(*headers: object, result: object = None, contents: tuple[bytes, ...] = ()) -> io.BytesIO:
    """A stream of headers as they are; each file has ``contents`` as its pieces."""
    data = bytearray()
    for header in headers:
        bytes_ = header if isinstance(header, bytes) else canonical(header)
        data += struct.pack(">I", len(bytes_)) + bytes_
        if isinstance(header, dict) and header.get("k") == "f":
            for piece in contents:
                data += struct.pack(">I", len(piece)) + piece
            data += bytes(4)
    end = canonical({} if result is None else result)
    return io.BytesIO(bytes(data) + bytes(4) + struct.pack(">I", len(end)) + end)


def header(path: str, kind: str = "f", content: str = "", *, executable: object = False) -> dict:
    return {"p": path, "k": kind, "c": content, "x": executable}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "sub/empty").mkdir(parents=True)
    (folder / "a").write_bytes(b"A" * 3_000_000)
    (folder / "sub/run").write_bytes(b"#!")
    (folder / "sub/run").chmod(0o755)
    (folder / "link").symlink_to("a")
    return folder


def test_a_tree_has_the_digest_that_it_has_on_disk(tree: Path) -> None:
    summary = summarise(packed(tree))
    assert summary.digest == tree_digest(read_tree(tree))
    assert (summary.files, summary.length) == (3, 3_000_002)


def test_what_cannot_be_copied_is_left_out_and_named(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "new\nline").touch()
    summary = summarise(packed(tree, exclude=frozenset({"sub"})))
    assert [entry.path for entry in summary.entries] == ["a", "link"]
    assert summary.result["skipped"] == [["new\\nline", "workspace.name"], ["pipe", "workspace.special_file"]]
    assert summary.result["left_out"] == 2


def test_of_many_that_are_left_out_a_thousand_are_named(tmp_path: Path) -> None:
    for number in range(1005):
        os.mkfifo(tmp_path / f"{number}")
    result = summarise(packed(tmp_path)).result
    assert (len(result["skipped"]), result["left_out"]) == (1000, 1005)


def test_names_that_are_long_leave_room_in_one_message_and_all_are_counted() -> None:
    """A thousand paths of four-byte characters and backslashes, as an agent can make them."""
    file = io.BytesIO()
    writer = TreeWriter(file)
    writer.skipped += [Skipped(("\U0001f600\\" * 150), "workspace.special_file")] * 1000
    writer.end({})
    result = summarise(file).result
    assert 100 < len(result["skipped"]) < 1000
    assert len(canonical(result["skipped"])) <= 256 * 1024
    assert result["left_out"] == 1000


@pytest.mark.parametrize("size", [5, 1 << 40])
def test_more_bytes_than_the_limit_are_rejected_before_they_are_read(tmp_path: Path, size: int) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(size)
    with raises_code("workspace.too_large"):
        packed(tmp_path, limits=Limits(total_bytes=4))


@pytest.mark.parametrize(
    "headers",
    [
        [header("../a")], [header("/a")], [header("a//b")], [header("./a")], [header("a/.")], [header("")],
        [header("a/b")], [header("a"), header("a")], [header("d", "d"), header("d", "d")],
        [header("a"), header("a/b")], [header("l", "l", "/etc"), header("l/passwd")],
        [header("l", "l", "")], [header("l", "l", "x" * 4096)], [header("l", "l", "a\nb")],
        [header("new\nline")], [header("\u202e")], [header("x" * 256)], [header("é" * 128)],
        [header("a", "p")], [header("a", executable="yes")], [{"p": "a"}], [b"{}x"], [b'{"p": "a"}'], [b"[]"],
    ],
)  # fmt: skip
def test_an_entry_that_no_tree_has_is_rejected(headers: list) -> None:
    with raises_code("workspace.stream"):
        summarise(raw(*headers))


def test_a_stream_that_ends_early_or_late_is_rejected(tree: Path) -> None:
    data = packed(tree).getvalue()
    for cut in (0, 1, 3, 4, 100, len(data) // 2, len(data) - 1):
        with raises_code("workspace.stream"):
            summarise(io.BytesIO(data[:cut]))
    with raises_code("workspace.stream"):
        summarise(io.BytesIO(data + b"\0"))


def test_lengths_beyond_the_bound_are_rejected_before_anything_is_read() -> None:
    for size in (1 << 21, 0xFFFFFFFF):
        with raises_code("workspace.stream"):
            summarise(io.BytesIO(struct.pack(">I", size) + b"x"))


def test_more_entries_or_content_than_the_limits_are_rejected() -> None:
    with raises_code("workspace.too_large"):
        summarise(raw(*(header(str(number)) for number in range(4))), limits=Limits(files=3))
    with raises_code("workspace.too_large"):
        summarise(raw(header("a"), contents=(b"123", b"45")), limits=Limits(total_bytes=4))


def test_content_that_was_not_read_is_passed_over() -> None:
    reader = TreeReader(raw(header("a"), header("b"), contents=(b"123", b"45")))
    assert [entry.path for entry, _ in reader] == ["a", "b"]


def test_reading_stops_once_it_is_not_wanted_any_more() -> None:
    class Unwanted(Exception):
        pass

    def proceed() -> None:
        raise Unwanted

    with pytest.raises(Unwanted):
        summarise(raw(header("a")), limits=Limits(proceed=proceed))


@thorough(200)
@given(st.binary(max_size=200), st.data())
def test_bytes_that_a_hostile_writer_made_are_a_stream_or_an_error(data: bytes, draw) -> None:
    valid = raw(header("d", "d"), header("d/a"), contents=(b"123",)).getvalue()
    at = draw.draw(st.integers(0, len(valid)))
    for hostile in (data, valid[:at] + data, valid[:at] + data + valid[at:]):
        try:
            summarise(io.BytesIO(hostile))
        except AffiantError as error:
            assert error.code in {"workspace.stream", "workspace.too_large"}


def test_a_listing_has_sizes_and_any_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    file = io.BytesIO()
    writer = TreeWriter(file)
    os.utime(tmp_path / "a", ns=(0, -(1 << 60)))
    writer.entry(Entry("a", Kind.FILE, executable=False, content=""), (tmp_path / "a").stat())
    writer.end({})
    file.seek(0)
    reader = TreeReader(file, contents=False)
    assert [(entry.path, reader.size, reader.facts["m"]) for entry, _ in reader] == [
        ("a", 5, -(1 << 60) // 1000)
    ]


def test_a_listing_without_sizes_is_rejected() -> None:
    for size in (None, -1, "1"):
        sized = header("a", "d") | ({} if size is None else {"n": size})
        reader = TreeReader(raw(sized), contents=False)
        with raises_code("workspace.stream"):
            [reader.size for _ in reader]


def test_an_error_amid_a_file_takes_the_place_of_what_was_written() -> None:
    file = io.BytesIO()
    writer = TreeWriter(file)

    def broken():
        yield b"half"
        raise OSError

    writer.entry(Entry("a", Kind.FILE, executable=False, content=""))
    with pytest.raises(OSError):  # noqa: PT011 - our own
        writer.content(broken())
    writer.start_again()
    writer.end({"error": "why"})
    summary = summarise(file)
    assert (summary.entries, summary.result["error"]) == ((), "why")
