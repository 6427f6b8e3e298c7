"""Whoever can connect cannot make the server collect without bound."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import suppress
from typing import Any

import anyio
import pytest
import uvicorn
from anyio.abc import SocketStream
from tests.gateway.conftest import Running
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.wire.test_bodies import resident

from affiant.gateway.wire.bounded_http import BoundedHTTP
from affiant.gateway.wire.http_request import Receive, Scope, Send

CHUNK = b"x" * (16 << 10)
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: g\r\n\r\n"
FLOODS = {
    "a target": (b"GET /", CHUNK),
    "a header's value": (b"GET / HTTP/1.1\r\nX: ", CHUNK),
    "many headers": (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 2000),
    "a trailer": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", CHUNK),
    "many trailers": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 2000),
    "a chunk's extension": (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", CHUNK),
}


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[ssl.SSLSocket]:
    client = gateway.connect()
    client.connect()
    yield client.sock
    client.close()


def flood(running: Running, connection: ssl.SSLSocket, begin: bytes, more: bytes) -> int:
    """Bytes by which the server has grown after many MiB of ``more``."""
    before, sent = resident(running), 0
    with suppress(OSError, ssl.SSLError):
        connection.settimeout(2)
        connection.sendall(begin)
        while sent < 98 << 20:
            connection.sendall(more)
            sent += len(more)
    return resident(running) - before


@pytest.mark.parametrize("name", FLOODS)
def test_what_is_no_body_and_never_ends_is_not_collected(
    connection: ssl.SSLSocket, running: Running, name: str
) -> None:
    assert flood(running, connection, *FLOODS[name]) < 8 << 20
    assert running.gateway.ask("GET", "/healthz").status == 200


def test_a_head_beyond_its_bound_is_told_so_and_the_connection_closed(connection: ssl.SSLSocket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (80 << 10))
    connection.settimeout(5)
    answered = b""
    while part := connection.recv(65536):
        answered += part
    assert answered.startswith(b"HTTP/1.1 431 ")


def test_requests_sent_ahead_are_bounded(connection: ssl.SSLSocket, running: Running) -> None:
    connection.sendall(REQUEST * 5000)
    answered = b""
    with suppress(OSError, ssl.SSLError):
        connection.settimeout(5)
        while part := connection.recv(65536):
            answered += part
    assert answered.count(b"HTTP/1.1 200") < 100 and answered.count(b"HTTP/1.1 400") == 1
    assert running.gateway.ask("GET", "/healthz").status == 200


def test_a_few_requests_sent_ahead_are_answered_in_order(connection: ssl.SSLSocket) -> None:
    connection.sendall(REQUEST * 3)
    data = b""
    while data.count(b"HTTP/1.1 200") < 3:
        part = connection.recv(65536)
        assert part
        data += part


def test_a_large_head_that_ends_is_taken(session: SessionClient) -> None:
    assert session.ask("GET", "/v1/models", headers={"X": "y" * (32 << 10)}).status == 200


# -- how long a head may take, on a server whose bound is short ------------------------------------------------------


class Hasty(BoundedHTTP):
    head_s = 0.3


async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers ``/slow`` after longer than a head may take; reads no body."""
    await anyio.sleep(1.0 if scope["path"] == "/slow" else 0)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def hasty() -> AsyncIterator[int]:
    config = uvicorn.Config(slowly, http=Hasty, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server._serve, [listener])
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True


async def answered(stream: SocketStream, *, within: float = 2.0) -> bytes:
    """All that comes until the server closes."""
    data = b""
    with anyio.fail_after(within):
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                data += await stream.receive()
    return data


async def drip(stream: SocketStream, begin: bytes, more: bytes) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.send(begin)
        while True:
            await anyio.sleep(0.05)
            await stream.send(more)


SLOW = {
    "nothing at all": (b"", b""),
    "a request line": (b"GE", b""),
    "a head, byte by byte": (b"GET / HTTP/1.1\r\nX: ", b"x"),
    "blank lines": (b"", b"\r\n"),
    "a second head": (REQUEST + b"GET / HT", b""),
    "a second head, byte by byte": (REQUEST + b"GET / HTTP/1.1\r\nX: ", b"x"),
    "blank lines after a request": (REQUEST, b"\r\n"),
    "a body that nobody waits for": (b"GET / HTTP/1.1\r\nHost: g\r\nContent-Length: 99999\r\n\r\n", b"x"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", SLOW)
async def test_a_head_that_does_not_end_in_time_ends_its_connection(hasty: int, name: str) -> None:
    async with await anyio.connect_tcp("127.0.0.1", hasty) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(drip, stream, *SLOW[name])
        data = await answered(stream)
        tasks.cancel_scope.cancel()
    assert data.count(b"HTTP/1.1 200") == (REQUEST in SLOW[name][0] or "body" in name)
    assert (b"HTTP/1.1 408" in data) == ("body" not in name)


@pytest.mark.anyio
async def test_a_kept_connection_and_a_long_answer_are_not_ended(hasty: int) -> None:
    """The bound is on a head under way, not on silence between requests or on the wait for an answer."""
    async with await anyio.connect_tcp("127.0.0.1", hasty) as stream:
        for pause, path in ((0.6, b"/"), (0.0, b"/slow"), (0.6, b"/"), (0.0, b"/")):
            await stream.send(REQUEST.replace(b"/healthz", path))
            data = b""
            with anyio.fail_after(3):
                while not data.endswith(b"\r\n\r\nok"):
                    data += await stream.receive()
            assert data.startswith(b"HTTP/1.1 200")
            await anyio.sleep(pause)


@pytest.mark.anyio
async def test_an_answer_under_way_is_not_cut_by_a_head_behind_it(hasty: int) -> None:
    async with await anyio.connect_tcp("127.0.0.1", hasty) as stream:
        await stream.send(REQUEST.replace(b"/healthz", b"/slow") + b"GET / HT")
        data = await answered(stream, within=4)
    assert data.startswith(b"HTTP/1.1 200") and b"\r\n\r\nok" in data


WHOLE = b"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\nbody"


@pytest.mark.parametrize(
    ("sent", "bodies"),
    [(WHOLE, [b"body"]), (WHOLE[:-1], []), (WHOLE.replace(b"4\r\n\r\nbody", b"0\r\n\r\n"), [b""])],
)
def test_a_body_that_came_whole_is_handed_over_although_its_client_left_at_once(
    sent: bytes, bodies: list[bytes]
) -> None:
    received: list[MutableMapping[str, Any]] = []

    async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
        while not received or received[-1]["type"] != "http.disconnect":
            received.append(await receive())

    async def scenario() -> None:
        config = uvicorn.Config(application, http=BoundedHTTP, ws="none", lifespan="off", log_config=None)
        config.load()
        state = uvicorn.Server(config).server_state
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await asyncio.get_running_loop().create_connection(
                lambda: BoundedHTTP(config, state, {}), sock=ours
            )
            protocol.data_received(sent)  # and in the same step:
            protocol.connection_lost(None)
            await asyncio.gather(*state.tasks)
            transport.abort()

    asyncio.run(scenario())
    assert [each["body"] for each in received[:-1]] == bodies
    assert received[-1] == {"type": "http.disconnect"}
