"""Calls on files in whole sessions: what is recorded before the bytes cross, and what an act that failed leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.supervisor.launcher import Launcher, Link, Refused

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.supervisor.launch.control import sent_error
from affiant.sandbox.workspace.tree import Entry, Kind, tree_digest

PROFILE = """
filesystem_access: [read-write:/workspace, none:/workspace/.git, read-only:/logs]
network_egress: denied
"""


class Asking:
    """Acts over a test's link to the supervisor, one after the other."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.number = 0

    async def __call__(
        self, message: Mapping[str, object], descriptors: Mapping[str, int]
    ) -> Mapping[str, object]:
        self.number += 1
        await self.link.channel.send({**message, "id": self.number}, descriptors)
        while True:
            received = await self.link.channel.receive()
            assert received is not None, self.link.service.last_words
            members = received.members
            if members.get("event") == "refused":
                raise Refused(str(members["code"]), str(members["message"]))
            if members.get("id") == self.number:
                if members.get("event") == "rejected":
                    raise sent_error(members)
                return members


def run(scenario) -> object:
    async def whole() -> object:
        async with asyncio.timeout(60):
            return await scenario

    return asyncio.run(whole())


def moved(record) -> tuple:
    shown = record.disclosed
    return (
        record.member("mov", "dir"),
        record.member("ph"),
        shown.text("mov.path"),
        shown.get("mov.n"),
        shown.get("mov.len"),
    )


def test_each_call_that_moves_files_has_one_record_and_listing_has_none(
    launcher: Launcher, tmp_path: Path
) -> None:
    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            files = SandboxFiles(Asking(link))
            written = await files.write("/workspace/in/a.txt", "hello")
            output = await link.run(["sh", "-c", "cat /workspace/in/a.txt; echo made > /workspace/out.txt"])
            assert output.stdout == b"hello"
            assert await files.read_text("/workspace/out.txt") == "made\n"
            assert [found.path for found in await files.list("/workspace", recursive=True)] == [
                "in",
                "in/a.txt",
                "out.txt",
            ]
            facts = await files.stat("/workspace/out.txt")
            assert (facts.path, facts.kind, facts.size) == ("/workspace/out.txt", "file", 5)
            (tmp_path / "up/sub").mkdir(parents=True)
            (tmp_path / "up/sub/x").write_bytes(b"x" * 10)
            (tmp_path / "up/y").write_bytes(b"y")
            uploaded = await files.upload(tmp_path / "up", "/workspace/tree")
            downloaded = await files.download("/workspace/tree", tmp_path / "down")
            assert uploaded == downloaded
            assert (tmp_path / "down/sub/x").read_bytes() == b"x" * 10
            removed = await files.remove("/workspace/tree")
            assert (removed.files, removed.length, removed.digest) == (2, 11, uploaded.digest)
            return written, uploaded, await link.finish()

    written, uploaded, story = run(scenario())
    records = [record for record in story.own if record.kind == "file"]
    assert [moved(record) for record in records] == [
        ("in", None, "/workspace/in/a.txt", 1, 5),
        ("out", None, "/workspace/out.txt", 1, 5),
        ("in", None, "/workspace/tree", 2, 11),
        ("out", None, "/workspace/tree", 2, 11),
        ("removed", None, "/workspace/tree", 2, 11),
    ]
    content = Entry("a.txt", Kind.FILE, executable=False, content=sha256_name(b"hello"))
    assert written.digest == records[0].disclosed.text("mov.dig") == tree_digest([content])
    assert {record.disclosed.text("mov.dig") for record in records[2:]} == {uploaded.digest}


def test_what_the_profile_does_not_give_is_rejected_without_a_record(
    launcher: Launcher,
) -> None:
    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            files = SandboxFiles(Asking(link))
            for path in ("/etc/passwd", "/workspace/.git/config", "/workspace2/a", "/tmp/a"):
                with raises_code("files.path"):
                    await files.read(path)
            for path in ("/logs/a", "/logs"):
                with raises_code("files.read_only"):
                    await files.write(path, b"x")
            with raises_code("files.missing"):
                await files.read("/workspace/nothing")
            with raises_code("files.kind"):
                await files.read("/workspace")
            with raises_code("workspace.too_large"):
                await files.write("/workspace/a", b"12345")
                await files.read("/workspace/a", at_most=4)
            return await link.finish()

    story = run(scenario())
    assert [moved(record)[2] for record in story.own if record.kind == "file"] == ["/workspace/a"]


def test_a_tree_with_a_path_in_a_carve_out_is_rejected_whole(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "up/.git").mkdir(parents=True)
    (tmp_path / "up/.git/config").write_text("[core]")
    (tmp_path / "up/a").write_text("a")

    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            files = SandboxFiles(Asking(link))
            with raises_code("files.path"):
                await files.upload(tmp_path / "up", "/workspace")
            assert len(await files.list("/workspace")) == 0
            return await link.finish()

    assert "file" not in {record.kind for record in run(scenario()).own}


def test_a_call_that_fails_after_its_record_has_a_second_one_that_says_how_much(
    launcher: Launcher, tmp_path: Path
) -> None:
    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            asking = Asking(link)
            files = SandboxFiles(asking)
            await link.run(["mkdir", "-p", "/workspace/t/b"])
            with raises_code("workspace.output"):
                await files.write("/workspace/t/b", b"a folder is there")
            await files.write("/workspace/a", b"0123456789")
            call = {
                "act": "get",
                "path": "/workspace/a",
                "single": True,
                "recursive": False,
                "cut": False,
                "length": 100,
            }
            (tmp_path / "given").touch()
            for path, code in (
                (tmp_path / "given", "workspace.unwritable"),
                ("/dev/null", "session.control"),
            ):
                read_only = os.open(
                    path, os.O_RDONLY
                )  # nothing can be written to it, and the second is no file
                with raises_code(code):
                    await asking({"op": "files", "call": call}, {"content": read_only})
                os.close(read_only)
            return await link.finish()

    records = [record for record in run(scenario()).own if record.kind == "file"]
    assert [moved(record) for record in records] == [
        ("in", None, "/workspace/t/b", 1, 17),
        ("in", "failed", "/workspace/t/b", 0, 0),
        ("in", None, "/workspace/a", 1, 10),
        ("out", None, "/workspace/a", 1, 10),
        ("out", "failed", "/workspace/a", None, None),  # how much was moved is not known
    ]
    assert records[1].member("par") == [records[0].jti]
    assert records[4].member("par") == [records[3].jti]


def test_a_stream_that_is_larger_than_its_call_is_rejected_before_it_is_read(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            call = {
                "act": "put",
                "path": "/workspace/a",
                "single": True,
                "recursive": False,
                "cut": False,
                "length": 10,
            }
            with tempfile.TemporaryFile() as content, raises_code("workspace.too_large"):
                content.truncate(11 + (256 << 20))
                await Asking(link)({"op": "files", "call": call}, {"content": content.fileno()})
            return await link.finish()

    assert "file" not in {record.kind for record in run(scenario()).own}


def test_no_byte_crosses_when_the_record_is_not_acknowledged(launcher: Launcher, running) -> None:
    """The gateway stands still: a session waits for it before a file leaves."""

    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            asking = Asking(link)
            await link.run(["sh", "-c", "echo secret > /workspace/a"])
            os.kill(running.ready["pid"], signal.SIGSTOP)
            try:
                with tempfile.TemporaryFile() as content:
                    call = {
                        "act": "get",
                        "path": "/workspace/a",
                        "single": True,
                        "recursive": False,
                        "cut": False,
                        "length": 100,
                    }
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(2):
                            await asking({"op": "files", "call": call}, {"content": content.fileno()})
                    assert os.fstat(content.fileno()).st_size == 0
            finally:
                os.kill(running.ready["pid"], signal.SIGCONT)
            return await link.finish()

    run(scenario())


def test_what_is_no_call_is_rejected_and_the_session_goes_on(launcher: Launcher) -> None:
    calls = [
        None,
        {
            "act": "digest",
            "path": "/workspace/a",
            "single": False,
            "recursive": False,
            "cut": False,
            "length": 1,
        },
        {
            "act": "chmod",
            "path": "/workspace/a",
            "single": False,
            "recursive": False,
            "cut": False,
            "length": 1,
        },
        {
            "act": "get",
            "path": "/workspace/a",
            "single": False,
            "recursive": False,
            "cut": False,
            "length": -1,
        },
        {"act": "get", "path": 7, "single": False, "recursive": False, "cut": False, "length": 1},
        {"act": "get", "path": "/workspace/a"},
    ]

    async def scenario():
        async with launcher.session(PROFILE) as link:
            await link.expect("ready")
            asking = Asking(link)
            for call in calls:
                with tempfile.TemporaryFile() as content, raises_code("session.control"):
                    await asking({"op": "files", "call": call}, {"content": content.fileno()})
            await link.finish()

    run(scenario())
