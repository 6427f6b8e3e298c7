"""HTTP over a Unix socket: a whole response, or an OSError."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from affiant.socket_address import reachable_address
from affiant.unix_http import ResponseTooLarge, UnixResponse, request

_WHOLE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"


def _whole_request(connection: socket.socket) -> bytes:
    """A request to its end: a response before it would meet a client that still writes."""
    head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
    length = re.search(rb"\r\nContent-Length: (\d+)", head)
    while length is not None and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def server(path: Path, response: bytes) -> Iterator[list[bytes]]:
    """Send ``response`` to one connection, and show what it asked."""
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(_whole_request(connection))
            connection.sendall(response)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with reachable_address(path) as address:
            listener.bind(address)
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            thread.join()


def ask(path: Path, body: bytes | None = None) -> UnixResponse:
    return request(path, "GET", "/it", body, limit=4, timeout_s=20)


def test_a_response_has_its_status_and_its_whole_body(tmp_path: Path) -> None:
    with server(tmp_path / "s", _WHOLE) as asked:
        assert ask(tmp_path / "s") == UnixResponse(404, b"none")
    assert asked[0].startswith(b"GET /it HTTP/1.1\r\nHost: localhost\r\n")
    assert b"Content-" not in asked[0]


def test_a_body_is_sent_as_json(tmp_path: Path) -> None:
    with server(tmp_path / "s", _WHOLE) as asked:
        ask(tmp_path / "s", b"{}")
    assert b"\r\nContent-Type: application/json\r\n" in asked[0]


def test_a_path_longer_than_a_socket_address_is_reached(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "s"
    path.parent.mkdir()
    assert len(os.fsencode(path)) > 107
    with server(path, _WHOLE):
        assert ask(path).status == 404


@pytest.mark.parametrize(
    "response", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nno"]
)
def test_no_whole_response_is_an_os_error(tmp_path: Path, response: bytes) -> None:
    with server(tmp_path / "s", response), pytest.raises(ConnectionError):
        ask(tmp_path / "s")


@pytest.mark.parametrize("head", [b"Content-Length: 5\r\n", b"Connection: close\r\n"])
def test_a_body_over_the_limit_is_an_error_of_its_own(tmp_path: Path, head: bytes) -> None:
    with (
        server(tmp_path / "s", b"HTTP/1.1 200 OK\r\n" + head + b"\r\n12345"),
        pytest.raises(ResponseTooLarge),
    ):
        ask(tmp_path / "s")


def test_nothing_that_listens_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ask(tmp_path / "s")
