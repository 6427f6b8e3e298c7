"""The operator's socket of a gateway, from outside of it."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Final

from affiant.attestation.simulated.served.socket_path import reachable_address

__all__ = ["operator_connection"]

_ANSWER_S: Final = 30.0


def operator_connection(folder: Path) -> http.client.HTTPConnection:
    """A connection to the gateway that serves from ``folder``; made at its first request."""
    return _UnixConnection(folder / "control.sock")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with reachable_address(self._path) as address:
            self.sock.connect(address)
