"""A session's bundle from the gateway's operator socket: for a session whose supervisor is gone.

The gateway gives it without proof of possession there, because only the owner of the state folder can open the
socket, and because what a session hides is sealed to its starter all the same.
"""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Final

from affiant.attestation.bundle.bundle import MAX_BUNDLE
from affiant.attestation.simulated.served.socket_path import reachable_address
from affiant.sandbox.base.errors import GatewayUnreachable

__all__ = ["fetch_session_bundle", "operator_socket"]

_TIMEOUT_S: Final = 10.0


def operator_socket(gateway_folder: Path) -> Path:
    """Where the gateway that keeps its store in ``gateway_folder`` listens for its operator."""
    return gateway_folder / "control.sock"


def fetch_session_bundle(path: Path, session: str) -> bytes:
    """The answer to ``GET /v1/sessions/{id}/bundle``. Blocks for at most some seconds.

    Raises:
        GatewayUnreachable: no gateway is there, or it does not know the session.
    """
    connection = _UnixConnection(path)
    try:
        connection.request("GET", f"/v1/sessions/{session}/bundle")
        answer = connection.getresponse()
        body = answer.read(2 * MAX_BUNDLE + 1)
    except (OSError, http.client.HTTPException) as error:
        raise GatewayUnreachable("the gateway's operator socket does not answer") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise GatewayUnreachable(
            "the gateway has no bundle of this session", found=f"HTTP status {answer.status}"
        )
    return body


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket in place of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_S)
        with reachable_address(self._path) as address:
            self.sock.connect(address)
