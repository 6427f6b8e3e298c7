"""Routes of files: where they do their work, what they keep, and what a client that leaves ends."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from tests.sandbox.session_server.test_tar_archives import archive, member

from affiant.sandbox.session_acts.sandbox_files import Moved
from affiant.sandbox.session_server import file_routes
from affiant.sandbox.session_server.app import session_app
from affiant.sandbox.session_server.callers import TokenCallers
from affiant.sandbox.session_server.guard import Guard, Places
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.workspace.tree import Entry, Kind
from affiant.sandbox.workspace.tree_stream import TreeWriter

TOKEN = "t" * 40
PATH = f"/v1/sessions/{'a' * 22}"


class Files:
    """The files of a session that has none."""

    def __init__(self) -> None:
        self.uploaded: list[str] = []
        self.free = asyncio.Event()
        self.free.set()
        self.listings = 0

    async def read_into(self, path: str, file: IO[bytes], **_: object) -> None:
        file.write(path.encode() * 3)

    async def list_into(self, path: str, content: IO[bytes], **_: object) -> None:
        self.listings += 1
        await self.free.wait()
        writer = TreeWriter(content)
        writer.entry(Entry("f", Kind.FILE, executable=False, content=""), Path(__file__).stat())
        writer.end({})

    async def upload(self, local: Path, path: str, **_: object) -> Moved:
        self.uploaded += sorted(each.name for each in local.rglob("*"))
        return Moved("sha256:0", len(self.uploaded), 0)

    async def download(self, path: str, local: Path, **_: object) -> Moved:
        local.mkdir()
        (local / "file").write_bytes(b"content")
        return Moved("sha256:0", 1, 7)


class Sessions:
    """Sessions of any name, for every caller."""

    def __init__(self) -> None:
        self.files = Files()
        self.of_name: dict[str, Sessions] = {}

    async def opened(self, owner: str, name: str) -> Sessions:
        return self.of_name.get(name, self)


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return Sessions()


def asked(sessions: Any, work: Callable[[httpx.AsyncClient], Any]) -> Any:
    async def scenario() -> Any:
        guard = Guard(
            session_app(sessions, HeldPorts()),
            TokenCallers(TOKEN.encode()),
            requests=Places(9, 9),
            trees=Places(9, 9),
        )
        headers = {"authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=headers) as client:
            return await work(client)

    return asyncio.run(scenario())


def test_folders_are_removed_beside_the_event_loop(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    real = shutil.rmtree

    def removed(*args: object) -> None:
        threads.append(threading.current_thread())
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "rmtree", removed)
    params = {"path": "/workspace/t"}
    content = archive(member("a/f", b"x")).getvalue()
    put = asked(sessions, lambda client: client.put(f"{PATH}/tree", params=params, content=content))
    assert (put.status_code, sessions.files.uploaded) == (200, ["a", "f"])
    got = asked(sessions, lambda client: client.get(f"{PATH}/tree", params=params))
    assert got.status_code == 200 and b"content" in got.content
    assert len(threads) == 2 and threading.main_thread() not in threads
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_leaves_while_its_archive_is_unpacked_ends_that(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(archive: object, folder: Path, *, limits: Any) -> None:
        (folder / "file").touch()
        begun.set()
        try:
            while True:
                limits.proceed()
        finally:
            ended.set()

    monkeypatch.setattr(file_routes, "unpack_archive", endless)

    async def body() -> AsyncIterator[bytes]:
        yield b"x"

    async def leaving(client: httpx.AsyncClient) -> None:
        left = asyncio.Event()
        app = client._transport.app  # type: ignore[attr-defined]

        async def leaves(scope: Any, receive: Any, send: Any) -> None:
            sent = False

            async def received() -> dict[str, object]:
                nonlocal sent
                if not sent:
                    sent = True
                    return {"type": "http.request", "body": b"x", "more_body": False}
                await asyncio.to_thread(begun.wait, 20)
                return {"type": "http.disconnect"}

            await app(scope, received, send)
            left.set()

        client._transport.app = leaves  # type: ignore[attr-defined]
        await client.put(f"{PATH}/tree", params={"path": "/workspace/t"}, content=body())
        assert left.is_set()

    asked(sessions, leaving)
    assert ended.is_set()
    assert list(tmp_path.iterdir()) == []


def test_a_listing_that_waits_for_its_session_keeps_no_other_one_waiting(sessions: Sessions) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        busy = sessions.of_name["busy"] = Sessions()
        busy.files.free.clear()
        params = {"path": "/workspace"}
        waiting = [
            asyncio.create_task(client.get("/v1/sessions/busy/files", params=params)) for _ in range(8)
        ]
        while busy.files.listings < 8:
            await asyncio.sleep(0)
        listed = await client.get(f"{PATH}/files", params=params)
        (entry,) = listed.json()["entries"]
        assert (entry["path"], entry["size"]) == ("f", Path(__file__).stat().st_size)
        busy.files.free.set()
        assert {answer.text for answer in await asyncio.gather(*waiting)} == {listed.text}

    asked(sessions, work)


def test_a_file_is_sent_from_a_disk(sessions: Sessions, tmp_path: Path) -> None:
    got = asked(sessions, lambda client: client.get(f"{PATH}/file", params={"path": "/workspace/f"}))
    assert (got.status_code, got.content) == (200, b"/workspace/f" * 3)
    assert got.headers["content-length"] == str(len(got.content))
