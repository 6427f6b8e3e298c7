"""What a stranger can hold of a server: no connection longer than its bounds, whatever it sends or does not read."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.attestation.log.witness.test_server import certificate
from tests.raising import raises_code

from affiant.attestation.log.witness.bounded_serving import Times, listening, serve_bounded, tls_context

T = TypeVar("T")
Address = tuple[str, int]
SHORT = Times(handshake=0.5, head=0.5, keep_alive=1, write=0.5)
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def served(
    work: Callable[[Address], T],
    *,
    times: Times = SHORT,
    connections: int = 2,
    body: bytes = b"ok\n",
    tls: ssl.SSLContext | None = None,
) -> T:
    """What ``work`` returns, which is called in a thread with the address of a server."""

    async def app(scope: object, receive: object, send: Callable[..., object]) -> None:
        length = str(len(body)).encode()
        await send(  # type: ignore[misc]
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
        )
        await send({"type": "http.response.body", "body": body})  # type: ignore[misc]

    async def scenario() -> T:
        started = asyncio.Event()
        with listening("127.0.0.1", 0, code="test") as listener:
            address: Address = listener.getsockname()
            serving = asyncio.create_task(
                serve_bounded(
                    app,
                    listener,
                    tls,
                    connections=connections,
                    announce=lambda _: started.set(),
                    times=times,
                )
            )
            await started.wait()
            try:
                return await asyncio.to_thread(work, address)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                await serving

    return asyncio.run(scenario())


def answer(address: Address, wrap: Callable[[socket.socket], socket.socket] = lambda each: each) -> bytes:
    """The first bytes of an answer; empty: the connection was closed."""
    with socket.create_connection(address, timeout=10) as connection:
        try:
            with wrap(connection) as wrapped:
                wrapped.sendall(REQUEST)
                return wrapped.recv(12)
        except (ConnectionError, ssl.SSLError):
            return b""


def answered_in_time(address: Address, wrap: Callable[[socket.socket], socket.socket] = lambda e: e) -> bool:
    deadline = time.monotonic() + 20
    while answer(address, wrap) != b"HTTP/1.1 200":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\n", b"GE"])
def test_a_head_that_never_ends_ends_its_connection(first: bytes) -> None:
    def held(address: Address) -> bytes:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(first)
            return connection.recv(1)

    assert served(held) == b""


def test_a_second_head_that_never_ends_ends_its_connection() -> None:
    def held(address: Address) -> bytes:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(REQUEST + b"GET")
            read = b""
            while piece := connection.recv(4096):
                read += piece
            return read

    assert served(held).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize("requests", [1, 400])
@pytest.mark.parametrize("secure", [False, True])
def test_an_answer_that_is_not_read_ends_its_connection(
    tmp_path: Path, requests: int, *, secure: bool
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate(cert, key)
    client = ssl.create_default_context(cafile=str(cert))

    def wrapped(connection: socket.socket) -> socket.socket:
        return client.wrap_socket(connection, server_hostname="127.0.0.1") if secure else connection

    def held(address: Address) -> bool:
        clients = []
        for _ in range(2):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(address)
            connection = wrapped(connection)
            connection.setblocking(False)  # noqa: FBT003
            connection.send(REQUEST * requests)
            clients.append(connection)
        try:
            return answered_in_time(address, wrapped)
        finally:
            for each in clients:
                each.close()

    tls = tls_context(cert, key, code="test") if secure else None
    assert served(held, body=b"x" * (8 << 20), tls=tls)


def test_an_answer_that_is_read_slowly_comes_whole() -> None:
    def slow(address: Address) -> int:
        with socket.create_connection(address, timeout=20) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            client.sendall(REQUEST)
            read = 0
            while read < size:
                time.sleep(0.001)
                read += len(client.recv(1 << 20))
            return read

    size = 4 << 20
    assert served(slow, body=b"x" * size, times=Times(write=20.0)) >= size


def test_a_connection_counts_before_its_tls_handshake_and_that_is_timed(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate(cert, key)
    client = ssl.create_default_context(cafile=str(cert))

    def wrapped(connection: socket.socket) -> socket.socket:
        return client.wrap_socket(connection, server_hostname="127.0.0.1")

    def held(address: Address) -> tuple[bytes, bool]:
        idle = [socket.create_connection(address, timeout=20) for _ in range(2)]
        more = socket.create_connection(address, timeout=5)
        try:
            closed = more.recv(1)
        except ConnectionResetError:
            closed = b""
        free = answered_in_time(address, wrapped)
        for each in (*idle, more):
            each.close()
        return closed, free

    times = Times(handshake=3.0)
    tls = tls_context(cert, key, code="test")
    assert served(held, tls=tls, times=times) == (b"", True)


def test_an_address_and_a_certificate_that_cannot_be_used_are_errors(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate(cert, key)
    with (
        listening("127.0.0.1", 0, code="test.one") as first,
        raises_code("test.two"),
        listening("127.0.0.1", first.getsockname()[1], code="test.two"),
    ):
        pytest.fail("two listen")
    assert tls_context(None, None, code="test.one") is None
    for pair in ((cert, None), (None, key), (key, cert), (cert, tmp_path / "none")):
        with raises_code("test.one"):
            tls_context(*pair, code="test.one")
