"""One HTTP request over a Unix socket, and its response."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Final, NamedTuple

from affiant.socket_address import reachable_address

__all__ = ["OPERATOR_SOCKET", "ResponseTooLarge", "UnixResponse", "request"]

OPERATOR_SOCKET: Final = "control.sock"
"""The socket in a gateway's folder on which the gateway answers its operator."""


class ResponseTooLarge(ConnectionError):
    """The response's body has more bytes than the caller accepts."""


class UnixResponse(NamedTuple):
    """A response's status, and its whole body."""

    status: int
    body: bytes


def request(
    path: Path, method: str, target: str, body: bytes | None = None, *, limit: int, timeout_s: float
) -> UnixResponse:
    """Send one request to the server that listens at ``path``; a body is JSON.

    Args:
        limit: bytes of the response's body.
        timeout_s: seconds without a byte after which the request fails.

    Raises:
        ResponseTooLarge: more than ``limit`` bytes.
        OSError: no server listens there, it sent no HTTP response in time, or it closed before the body was complete.
    """
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request(method, target, body, {} if body is None else {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            found = response.read(limit + 1)
            missing = response.length  # a bounded read does not report by itself that the rest never came
    except http.client.HTTPException as error:
        raise ConnectionError(f"not an HTTP response: {type(error).__name__}") from error
    finally:
        connection.close()
    if len(found) > limit:
        raise ResponseTooLarge(f"the response has more than {limit} bytes")
    if missing:
        raise ConnectionError("the server closed the connection before the response was complete")
    return UnixResponse(response.status, found)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket in place of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with reachable_address(self._path) as address:
            self.sock.connect(address)
