"""A session's bundle from the gateway's operator socket: for a session whose supervisor is gone.

The gateway gives it without proof of possession there, because only the owner of the state folder can open the
socket, and because what a session hides is sealed to its starter all the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from affiant.attestation.bundle.bundle import MAX_BUNDLE
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.unix_http import OPERATOR_SOCKET, request

__all__ = ["fetch_session_bundle", "operator_socket"]

_TIMEOUT_S: Final = 10.0


def operator_socket(gateway_folder: Path) -> Path:
    """Where the gateway that keeps its store in ``gateway_folder`` listens for its operator."""
    return gateway_folder / OPERATOR_SOCKET


def fetch_session_bundle(path: Path, session: str) -> bytes:
    """The answer to ``GET /v1/sessions/{id}/bundle``. Blocks for at most some seconds.

    Raises:
        GatewayUnreachable: no gateway is there, or it does not know the session.
    """
    target = f"/v1/sessions/{session}/bundle"
    try:
        answer = request(path, "GET", target, limit=2 * MAX_BUNDLE, timeout_s=_TIMEOUT_S)
    except OSError as error:
        raise GatewayUnreachable("the gateway's operator socket does not answer") from error
    if answer.status != 200:
        raise GatewayUnreachable(
            "the gateway has no bundle of this session", found=f"HTTP status {answer.status}"
        )
    return answer.body
