"""The socket at which a session is asked to narrow: one user's, bounded, and deciding nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import AffiantError
from affiant.sandbox.base import user_socket
from affiant.sandbox.session.restriction_socket import (
    InForce,
    RestrictionServer,
    connected,
    restriction_members,
)
from affiant.sandbox.session.supervisor_link import SupervisorLink
from affiant.sandbox.session_state.session_folder import RESTRICTION_SOCKET
from affiant.sandbox.supervisor.launch.control import ControlChannel, Messages

IN_FORCE = InForce("dev", b"{}", 0)
FILE = "sha256:" + "0" * 64


class Link:
    """The launcher's side of a supervisor that answers with what it is given."""

    def __init__(self, answer: Mapping[str, object] | None = None) -> None:
        self.answer = answer
        self.asked: list[Mapping[str, object]] = []
        self._waiting: list[asyncio.Future[Any]] = []

    async def ask(self, members: Mapping[str, object]) -> Mapping[str, object]:
        self.asked.append(members)
        if self.answer is not None:
            return self.answer
        self._waiting.append(asyncio.get_running_loop().create_future())
        return await self._waiting[-1]

    def abandon(self, reason: AffiantError) -> None:
        for each in self._waiting:
            each.set_exception(reason)


@asynccontextmanager
async def served(folder: Path, link: Link, told: list[str] | None = None):
    def progress(step: str, detail: Mapping[str, object]) -> None:
        (told if told is not None else []).append(f"{step} {detail['epoch']}")

    server = RestrictionServer(link, IN_FORCE, progress)  # type: ignore[arg-type]
    async with server.listening(folder / RESTRICTION_SOCKET):
        yield folder / RESTRICTION_SOCKET


async def asked(channel: ControlChannel, message: Mapping[str, object]) -> Mapping[str, Any]:
    await channel.send(message)
    received = await channel.receive()
    assert received is not None
    return received.members


def run(scenario) -> Any:
    async def whole() -> object:
        async with asyncio.timeout(10):
            return await scenario

    return asyncio.run(whole())


def test_what_is_in_force_is_shown_and_follows_what_was_narrowed(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = Link({"event": "narrowed", "id": 0, "epoch": 1, "digest": "sha384:x", "changed": True})
        told: list[str] = []
        async with served(tmp_path, link, told) as place, connected(place) as channel:
            assert InForce.from_json(await asked(channel, {"op": "show"})) == IN_FORCE
            request = restriction_members(b"[]", FILE, b"s")
            answer = await asked(channel, {"op": "narrow", **request})
            assert answer == {"narrowed": {"epoch": 1, "digest": "sha384:x", "changed": True}}
            assert link.asked == [
                {"op": "narrow", "policy": b64u(b"[]"), "file": FILE, "signature": b64u(b"s")}
            ]
            assert InForce.from_json(await asked(channel, {"op": "show"})) == InForce("dev", b"[]", 1)
        assert told == ["narrowed 1"]
        assert not place.exists()

    run(scenario())


def test_a_refusal_comes_back_under_its_own_code_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        refusal = {
            "event": "narrow-refused",
            "id": 0,
            "code": "policy.not_narrower",
            "message": "no",
            "hint": "h",
        }
        async with served(tmp_path, Link(refusal)) as place, connected(place) as channel:
            answer = await asked(channel, {"op": "narrow", **restriction_members(b"[]", FILE, None)})
            assert answer == {"refused": {"code": "policy.not_narrower", "message": "no", "hint": "h"}}
            assert InForce.from_json(await asked(channel, {"op": "show"})) == IN_FORCE

    run(scenario())


GOOD = {"op": "narrow", **restriction_members(b"[]", FILE, None)}


@pytest.mark.parametrize(
    "message",
    [
        {"op": "else"},
        {"op": "show", "more": 1},
        {**GOOD, "more": 1},
        {**GOOD, "policy": 1},
        {**GOOD, "policy": "A" * 700_004},
        {**GOOD, "policy": "!"},
        {**GOOD, "signature": "x" * 200_001},
        {**GOOD, "signature": 1},
        {**GOOD, "signature": "!"},
        {**GOOD, "policy": "A" * 700_000, "signature": "\u00e9" * 170_000},
        {**GOOD, "file": "x" * 101},
        {"op": "narrow"},
        {},
    ],
)
def test_what_would_not_be_a_request_never_reaches_the_supervisor(tmp_path: Path, message: dict) -> None:
    async def scenario() -> None:
        link = Link()
        async with served(tmp_path, link) as place, connected(place) as channel:
            assert "refused" in await asked(channel, message)
            assert link.asked == []
            assert "policy" in await asked(channel, {"op": "show"})  # and the next one is heard

    run(scenario())


def test_the_longest_request_is_a_message_that_the_supervisor_takes(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = Link({"event": "narrowed", "id": 0, "epoch": 1, "digest": "sha384:x", "changed": True})
        longest = {"policy": "A" * 700_000, "file": "\0" * 100, "signature": "A" * 200_000}
        async with served(tmp_path, link) as place, connected(place) as channel:
            assert "narrowed" in await asked(channel, {"op": "narrow", **longest})
        passed_on = canonical({"id": (1 << 31) - 1, **link.asked[0]})
        messages = Messages()
        messages.feed(struct.pack(">I", len(passed_on)) + passed_on, ())
        assert messages.next() is not None

    run(scenario())


def test_bytes_that_are_no_message_end_their_connection_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, Link()) as place, connected(place) as good:
            for data in (b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\1x"):
                with socket.socket(socket.AF_UNIX) as raw:
                    raw.connect(str(place))
                    raw.setblocking(False)
                    loop = asyncio.get_running_loop()
                    await loop.sock_sendall(raw, data)
                    assert await loop.sock_recv(raw, 10) == b""
            assert "policy" in await asked(good, {"op": "show"})

    run(scenario())


def test_connections_are_few(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, Link()) as place, AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(connected(place)) for _ in range(4)]
            for channel in channels:
                await asked(channel, {"op": "show"})
            one_more = await stack.enter_async_context(connected(place))
            refused = (await asked(one_more, {"op": "show"}))["refused"]
            assert isinstance(refused, Mapping)
            assert (refused["code"], refused["retryable"]) == ("session.busy", True)
            assert await one_more.receive() is None

    run(scenario())


def test_who_waits_when_the_session_ends_is_told(tmp_path: Path) -> None:
    async def scenario() -> Mapping[str, Any]:
        listening = AsyncExitStack()
        place = await listening.enter_async_context(served(tmp_path, Link()))
        async with connected(place) as channel:
            await channel.send(GOOD)
            await asyncio.sleep(0.05)
            await listening.aclose()
            received = await channel.receive()
            assert received is not None
            return received.members

    assert run(scenario())["refused"]["code"] == "session.not_open"


def test_where_nobody_listens_the_session_takes_no_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        with raises_code("session.not_open"):
            async with connected(tmp_path / RESTRICTION_SOCKET):
                pass

    run(scenario())


def test_a_session_runs_also_where_no_socket_can_be_made(tmp_path: Path) -> None:
    async def scenario() -> bool:
        async with served(tmp_path / "missing", Link()):
            return True

    assert run(scenario())


def test_the_socket_is_its_owners_alone_also_under_a_long_path(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()

    async def scenario() -> int:
        async with served(deep, Link()) as place, connected(place) as channel:
            await asked(channel, {"op": "show"})
            return os.stat(place).st_mode & 0o777

    assert run(scenario()) == 0o600


def test_neither_end_speaks_with_another_users_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode of the socket keeps others away; under root the folder is the supervisor's user's all the same."""

    async def scenario() -> None:
        link = Link()
        async with served(tmp_path, link) as place:
            monkeypatch.setattr(user_socket, "peer_process", lambda _: (os.getpid(), os.geteuid() + 1))
            with raises_code("session.not_open", match="another user"):
                async with connected(place):
                    pass
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(place))
                raw.setblocking(False)
                loop = asyncio.get_running_loop()
                content = canonical(GOOD)
                with contextlib.suppress(BrokenPipeError):
                    await loop.sock_sendall(raw, struct.pack(">I", len(content)) + content)
                with contextlib.suppress(ConnectionResetError):
                    assert await loop.sock_recv(raw, 10) == b""
        assert link.asked == []

    run(scenario())


def test_a_request_that_was_half_sent_when_the_session_is_closed_leaves_the_next_message_readable(
    tmp_path: Path,
) -> None:
    """A supervisor that is slow to read gets all of it, and then that the session is to be finished."""

    async def scenario() -> list[object]:
        left, right = socket.socketpair()
        link, supervisor = SupervisorLink(ControlChannel(left), None), ControlChannel(right)  # type: ignore[arg-type]
        async with served(tmp_path, link) as place, connected(place) as channel:  # type: ignore[arg-type]
            large = {"op": "narrow", **restriction_members(b"", FILE, None), "policy": "A" * 700_000}
            asking = asyncio.create_task(asked(channel, large))
            while not link._acts:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        finishing = asyncio.create_task(link.tell({"op": "finish", "why": "done"}))
        received = [await supervisor.receive() for _ in range(2)]
        await finishing
        for each in (left, right):
            each.close()
        return [message.members["op"] for message in received if message is not None]

    assert run(scenario()) == ["narrow", "finish"]
