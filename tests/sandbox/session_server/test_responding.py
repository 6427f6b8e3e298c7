"""Server-sent events: a stream that breaks says so, and one whose client leaves ends its source before it returns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from affiant.sandbox.session_server import responding
from affiant.sandbox.session_server.responding import Events, OpenFile

Message = MutableMapping[str, Any]


async def never() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def test_a_stream_that_breaks_ends_with_an_error_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[bool] = []

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            yield b"event: stdout\ndata: {}\n\n"
            raise RuntimeError("a value that must not be shown")
        finally:
            ended.append(True)

    async def scenario() -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await Events(source())({}, never, send)
        return sent

    start, first, error, last = asyncio.run(scenario())
    assert start["type"] == "http.response.start" and first["body"].startswith(b"event: stdout")
    name, data, *_ = error["body"].decode().split("\n")
    assert name == "event: error"
    document = json.loads(data.removeprefix("data: "))["error"]
    assert (document["code"], document["who"]) == ("session.server_failed", "server")
    assert last == {"type": "http.response.body", "body": b"", "more_body": False}
    assert ended == [True]
    assert "shown" not in data + caplog.text
    (line,) = caplog.messages
    assert line.startswith("internal error of the server: RuntimeError at test_responding.py:")


@pytest.mark.parametrize("blocked", [False, True])
def test_the_source_has_ended_when_its_client_has_left(
    monkeypatch: pytest.MonkeyPatch, *, blocked: bool
) -> None:
    monkeypatch.setattr(responding, "_ALIVE_S", 0.01)
    ended: list[bool] = []

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await never()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def scenario() -> None:
        alive, left = asyncio.Event(), asyncio.Event()

        async def send(message: Message) -> None:
            if b"alive" in message.get("body", b""):
                alive.set()
                if blocked:
                    await never()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        sending = asyncio.create_task(Events(source())({}, receive, send))
        await alive.wait()
        left.set()
        await sending
        assert ended == [True]

    asyncio.run(scenario())


@pytest.mark.parametrize("leaves", [False, True])
def test_an_open_file_is_closed_once_it_is_sent_or_its_client_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, leaves: bool
) -> None:
    monkeypatch.setattr(responding, "_PIECE", 4)
    (tmp_path / "file").write_bytes(b"0123456789")
    content = (tmp_path / "file").open("rb")

    async def scenario() -> list[Message]:
        sent: list[Message] = []
        left = asyncio.Event()

        async def send(message: Message) -> None:
            sent.append(message)
            if leaves and message.get("body"):
                left.set()
                await never()

        async def receive() -> Message:
            await left.wait()
            return {"type": "http.disconnect"}

        await OpenFile(content, "application/x-tar")({}, receive, send)
        return sent

    start, *pieces = asyncio.run(scenario())
    assert content.closed
    assert (b"content-length", b"10") in start["headers"]
    assert [each["body"] for each in pieces] == ([b"0123"] if leaves else [b"0123", b"4567", b"89", b""])
