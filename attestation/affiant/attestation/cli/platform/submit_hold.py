"""Hands a request to the gateway of a state folder, over the operator's socket."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from affiant.attestation.simulated.served.socket_path import reachable_address
from affiant.errors import StateError, UnreachableError

__all__ = ["submit"]


class GatewayUnreachable(UnreachableError):
    """No gateway serves from this folder."""

    code = "gateway.unreachable"


class RequestRefused(StateError):
    """The gateway refused an order; the text is its own."""

    code = "erasure.refused"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=300)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with reachable_address(self._path) as address:
            self.sock.connect(address)


def submit(home: Path, data: bytes) -> list[dict[str, Any]]:
    """What became of each order of the request ``data``.

    Raises:
        GatewayUnreachable: as named. RequestRefused: an order was refused; those before it are carried out.
    """
    folder = home / "gateway"
    connection = _UnixConnection(folder / "control.sock")
    try:
        connection.request("POST", "/v1/orders", data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise GatewayUnreachable(
            "no gateway serves from this folder, or it went away",
            where=str(folder),
            hint="Start it with the authority's key: affiant gateway serve --erasure-authority FILE. "
            "The same request may be given again.",
        ) from error
    finally:
        connection.close()
    if response.status != 200:
        refusal = answer["error"]
        raise RequestRefused(f"{refusal['message']} [{refusal['code']}]")
    return list(answer["orders"])
