"""Whoever can connect cannot make the server collect without bound."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.gateway.conftest import Running
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.test_bodies import resident

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
        while sent < 48 << 20:
            connection.sendall(more)
            sent += len(more)
    return resident(running) - before


@pytest.mark.parametrize("name", FLOODS)
def test_what_is_no_body_and_never_ends_is_not_collected(
    connection: ssl.SSLSocket, running: Running, name: str
) -> None:
    assert flood(running, connection, *FLOODS[name]) < 8 << 20
    assert running.gateway.ask("GET", "/healthz").status == 200


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
