"""The Python interface to a session's files, over answers that a test makes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.sandbox.session_acts.private_places import PrivatePlaces
from affiant.sandbox.session_acts.sandbox_files import FileChange, SandboxFiles
from affiant.sandbox.workspace.tree import Entry, Kind
from affiant.sandbox.workspace.tree_stream import TreeWriter, summarise


class Answering:
    """Answers each act with the next of ``trees``: path -> content, text for a link, None for a folder."""

    def __init__(self, *trees: Mapping[str, bytes | str | None], kind: str = "d", size: int = 0) -> None:
        self.trees = list(trees)
        self.kind = kind
        self.size = size
        self.asked: list[Mapping[str, object]] = []
        self.given: list[tuple[Entry, ...]] = []

    async def __call__(
        self, message: Mapping[str, object], descriptors: Mapping[str, int]
    ) -> Mapping[str, object]:
        call = message["call"]
        self.asked.append(call)
        with open(os.dup(descriptors["content"]), "r+b") as file:
            if call["act"] == "put":
                self.given.append(summarise(file).entries)
            else:
                self.write(file, listing=call["act"] in {"list", "stat"})
        return {"digest": "sha256:x", "files": 1, "length": 1, "kind": self.kind, "skipped": [["p\x1b", "c"]]}

    def write(self, file, *, listing: bool) -> None:
        writer = TreeWriter(file)
        for path, content in self.trees.pop(0).items():
            kind = Kind.DIRECTORY if content is None else Kind.LINK if isinstance(content, str) else Kind.FILE
            target = content if isinstance(content, str) else ""
            facts = SimpleNamespace(st_size=len(content or ""), st_mtime_ns=0) if listing else None
            writer.entry(Entry(path, kind, executable=False, content=target), facts)
            if kind is Kind.FILE and not listing:
                writer.content([content])
        writer.end({})


def test_reading_returns_the_bytes_and_writing_sends_one_file() -> None:
    answering = Answering({"a": b"\xff\x00"}, kind="f")
    files = SandboxFiles(answering)
    assert asyncio.run(files.read("/workspace/a", at_most=10)) == b"\xff\x00"
    moved = asyncio.run(files.write("/workspace/run", "é", executable=True))
    assert [(entry.path, entry.executable) for entry in answering.given[0]] == [("run", True)]
    assert moved.left_out[0].path == "p\\x1b"
    assert [call["length"] for call in answering.asked] == [10, 2]


def test_a_download_replaces_no_folder_follows_no_link_and_takes_none_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/d").symlink_to("../elsewhere")
    tree = {"d": None, "d/a": b"a"}
    with raises_code("workspace.output"):
        asyncio.run(SandboxFiles(Answering(tree)).download("/workspace", tmp_path / "out"))
    assert os.listdir(tmp_path / "elsewhere") == []
    hostile = {"up": "../../etc/passwd", "root": "/etc/passwd", "good": "b", "b": b"b"}
    moved = asyncio.run(SandboxFiles(Answering(hostile)).download("/workspace", tmp_path / "new"))
    assert sorted(os.listdir(tmp_path / "new")) == ["b", "good"]
    assert [each.path for each in moved.left_out[1:]] == ["up", "root"]


def test_one_file_is_downloaded_under_the_name_that_the_caller_gives(tmp_path: Path) -> None:
    asyncio.run(
        SandboxFiles(Answering({"passwd": b"x"}, kind="f")).download("/workspace/passwd", tmp_path / "mine")
    )
    assert (tmp_path / "mine").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.parametrize("place", [".", "sub", "sub/", "up/..", "linked"])
def test_one_file_is_downloaded_into_a_folder_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "up").mkdir()
    (tmp_path / "linked").symlink_to("sub")
    monkeypatch.chdir(tmp_path)
    files = SandboxFiles(Answering({"anything": b"x"}, kind="f"))
    asyncio.run(files.download("/workspace/report.txt", place))
    assert (Path(place) / "report.txt").read_bytes() == b"x"


def test_one_file_replaces_no_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "report.txt").mkdir()
    (tmp_path / "report.txt" / "report.txt").mkdir()
    with raises_code("workspace.output"):
        files = SandboxFiles(Answering({"report.txt": b"x"}, kind="f"))
        asyncio.run(files.download("/workspace/report.txt", tmp_path / "report.txt"))


def test_affiants_own_files_are_not_uploaded(tmp_path: Path) -> None:
    (tmp_path / "up").mkdir()
    (tmp_path / "up/key").write_text("key")
    facts = (tmp_path / "up/key").stat()
    files = SandboxFiles(Answering(), only(PrivatePlaces(frozenset({(facts.st_dev, facts.st_ino)}))))
    for place in ("up", "up/key"):
        with raises_code("session.input_private"):
            asyncio.run(files.upload(tmp_path / place, "/workspace/x"))
    assert "st_ino" not in repr(files) and str(facts.st_ino) not in repr(files)


@pytest.mark.parametrize(
    "place", ["state", "state/key", "state/gateway/key", ".", "linked/gateway", "up/../state"]
)
def test_no_call_reads_or_writes_below_a_private_path(tmp_path: Path, place: str) -> None:
    (tmp_path / "state" / "gateway").mkdir(parents=True)
    (tmp_path / "up").mkdir()
    (tmp_path / "linked").symlink_to("state")
    (tmp_path / "state" / "gateway" / "key").write_text("secret")
    (tmp_path / "state" / "key").write_text("secret")
    private = only(PrivatePlaces(named=((tmp_path / "state", "affiant's own state folder"),)))
    with raises_code("session.input_private", match="state folder"):
        asyncio.run(SandboxFiles(Answering(), private).upload(tmp_path / place, "/workspace/x"))
    answering = Answering({"state/gateway/key": b"x", "key": b"x", "gateway/key": b"x"})
    with raises_code("session.input_private", match="state folder"):
        asyncio.run(SandboxFiles(answering, private).download("/workspace/x", tmp_path / place))
    assert {path.read_text() for path in tmp_path.rglob("key")} == {"secret"}
    asyncio.run(SandboxFiles(Answering(), private).upload(tmp_path / "up", "/workspace/x"))


def only(private: PrivatePlaces) -> Callable[[], Coroutine[Any, Any, PrivatePlaces]]:
    async def asked() -> PrivatePlaces:
        return private

    return asked


def test_private_places_come_through_a_host_as_they_are() -> None:
    private = PrivatePlaces(
        frozenset({(1, 2), (0, 2**64 - 1)}), ((Path(os.fsdecode(b"/st\xff")), "the state folder"),)
    )
    assert PrivatePlaces.from_json(private.to_json()) == private
    for other in (None, [], {"inodes": []}, {**private.to_json(), "more": 1}):
        with raises_code("session.control"):
            PrivatePlaces.from_json(other)


def test_a_local_file_that_is_not_there_or_too_large_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(10))
    os.mkfifo(tmp_path / "pipe")
    files = SandboxFiles(Answering())
    for name, code in (
        ("none", "workspace.unreadable"),
        ("large", "workspace.too_large"),
        ("pipe", "workspace.special_file"),
    ):
        with raises_code(code):
            asyncio.run(files.upload(tmp_path / name, "/workspace/x", at_most=9))


def test_watching_tells_the_differences_between_two_looks() -> None:
    async def changes() -> list[FileChange]:
        answering = Answering(
            {"a": b"1", "b": b"1"}, {"a": b"12", "c": b"1"}, {"a": b"12", "c": b"1"}, {"c": b"1"}
        )
        found = []
        async for change in SandboxFiles(answering).watch("/workspace", every_s=0):
            found.append(change)
            if len(found) == 4:
                break
        return found

    assert [(change.what, change.path) for change in asyncio.run(changes())] == [
        ("changed", "a"),
        ("removed", "b"),
        ("added", "c"),
        ("removed", "a"),
    ]
