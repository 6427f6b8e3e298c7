"""A socket of one user's goes on taking connections."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from affiant.sandbox.base import user_socket
from affiant.sandbox.base.user_socket import Connections, connect_user_socket, listening_user_socket


def test_an_error_of_one_connection_ends_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_socket, "_PAUSE_S", 0.01)

    async def serve(connection: socket.socket) -> None:
        with connection:
            connection.send(b"served")

    async def scenario() -> bytes:
        loop = asyncio.get_running_loop()
        accept, errors = loop.sock_accept, [OSError(24, "Too many open files")]

        async def sometimes(listener: socket.socket) -> Any:
            if errors:
                raise errors.pop()
            return await accept(listener)

        monkeypatch.setattr(loop, "sock_accept", sometimes)
        connections = Connections(serve, most=2)
        with listening_user_socket(tmp_path / "s", backlog=2) as listener:
            assert listener is not None
            accepting = asyncio.create_task(connections.accept(listener))
            with connect_user_socket(tmp_path / "s") as connection:
                found = await asyncio.wait_for(asyncio.to_thread(connection.recv, 6), 10)
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
        await connections.close(within_s=1)
        return found

    assert asyncio.run(scenario()) == b"served"
