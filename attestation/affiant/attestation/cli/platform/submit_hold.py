"""Hands a request to the gateway of a state folder, over the operator's socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from affiant.errors import StateError, UnreachableError
from affiant.unix_http import OPERATOR_SOCKET, request

__all__ = ["submit"]

_MAX_RESPONSE: Final = 1 << 24
_TIMEOUT_S: Final = 300.0
"""A large request erases many records before the gateway answers."""


def submit(home: Path, data: bytes) -> list[dict[str, Any]]:
    """What became of each order of the request ``data``.

    Raises:
        ``gateway.unreachable``: as named. ``erasure.refused``: an order was refused; those before it are carried out.
    """
    folder = home / "gateway"
    try:
        response = request(
            folder / OPERATOR_SOCKET, "POST", "/v1/orders", data, limit=_MAX_RESPONSE, timeout_s=_TIMEOUT_S
        )
        answer = json.loads(response.body)
    except (OSError, ValueError) as error:
        raise UnreachableError(
            "no gateway serves from this folder, or it went away",
            where=str(folder),
            hint="Start it with the authority's key: affiant gateway serve --erasure-authority FILE. "
            "The same request may be given again.",
            code="gateway.unreachable",
        ) from error
    if response.status != 200:
        refused = answer["error"]
        raise StateError(f"{refused['message']} [{refused['code']}]", code="erasure.refused")
    return list(answer["orders"])
