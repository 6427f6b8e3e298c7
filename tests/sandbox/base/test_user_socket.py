"""A socket of one user's goes on taking connections."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.sandbox.base import user_socket
from affiant.sandbox.base.user_socket import Connections, connect_user_socket, listening_user_socket


def test_an_error_of_one_connection_ends_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_socket, "_PAUSE_S", 0.01)

    async def serve(connection: socket.socket, busy: bool) -> None:
        with connection:
            connection.send(b"served" if not busy else b"busy")

    async def scenario() -> bytes:
        loop = asyncio.get_running_loop()
        accept, errors = loop.sock_accept, [OSError(24, "Too many open files")]

        async def sometimes(listener: socket.socket) -> Any:
            if errors:
                raise errors.pop()
            return await accept(listener)

        monkeypatch.setattr(loop, "sock_accept", sometimes)
        connections = Connections(serve, most=2)
        with listening_user_socket(tmp_path / "s") as listener:
            assert listener is not None
            accepting = asyncio.create_task(connections.accept(listener))
            with await connect_user_socket(tmp_path / "s") as connection:
                found = await asyncio.wait_for(loop.sock_recv(connection, 6), 10)
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        await connections.close(within_s=1)
        return found

    assert asyncio.run(scenario()) == b"served"


def full(path: Path) -> list[socket.socket]:
    """A listener whose backlog has no room, and the clients that fill it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    listener.setblocking(False)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for client in clients:
        client.connect(str(path))
    return [listener, *clients]


def test_a_client_waits_for_room_while_everything_else_goes_on(tmp_path: Path) -> None:
    sockets = full(tmp_path / "s")

    async def scenario() -> None:
        connecting = asyncio.create_task(connect_user_socket(tmp_path / "s"))
        for _ in range(5):  # the loop turns meanwhile
            await asyncio.sleep(0.02)
        assert not connecting.done()
        sockets.append(sockets[0].accept()[0])
        async with asyncio.timeout(20):
            sockets.append(await connecting)

    asyncio.run(scenario())
    for each in sockets:
        each.close()


def test_a_client_that_finds_no_room_in_time_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_socket, "_CONNECTS_WITHIN_S", 0.05)
    sockets = full(tmp_path / "s")
    with raises_code("session.busy") as raised:
        asyncio.run(connect_user_socket(tmp_path / "s"))
    assert raised.value.retryable is True
    for each in sockets:
        each.close()
    with raises_code("session.not_open"):
        asyncio.run(connect_user_socket(tmp_path / "s"))


def test_clients_beyond_all_places_wait_until_one_is_free(tmp_path: Path) -> None:
    async def scenario() -> list[bytes]:
        loop, leave = asyncio.get_running_loop(), asyncio.Event()

        async def serve(connection: socket.socket, busy: bool) -> None:
            with connection:
                await leave.wait()
                connection.send(b"busy" if busy else b"served")

        connections = Connections(serve, most=2)
        with listening_user_socket(tmp_path / "s") as listener:
            assert listener is not None
            accepting = asyncio.create_task(connections.accept(listener))
            clients = [await connect_user_socket(tmp_path / "s") for _ in range(30)]
            loop.call_later(0.05, leave.set)
            async with asyncio.timeout(20):
                found = [await loop.sock_recv(client, 6) for client in clients]
            for client in clients:
                client.close()
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        await connections.close(within_s=1)
        return found

    found = asyncio.run(scenario())
    assert found[:2] == [b"served"] * 2
    assert found[2:10] == [b"busy"] * 8
    assert len(found) == 30 and all(found)
