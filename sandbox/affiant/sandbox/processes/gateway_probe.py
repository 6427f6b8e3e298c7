"""What a launcher asks of a gateway before a session: does it answer, and which configuration does it name?

None of this is trust. A gateway that was started from this state folder is recognised by the SPKI in its
``gateway.json``; any other by nothing at all, because its configuration is believed by its digest, and the
supervisor appraises its quote before it sends anything that matters.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.errors import ConfigurationError
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable

__all__ = [
    "RunningGateway",
    "fetch_config",
    "gateway_origin",
    "pinless_context",
    "read_gateway_file",
    "spki_of",
]

_LIMIT: Final = 64 * 1024
_TIMEOUT_S: Final = 5.0
_CONFIG: Final = "/.well-known/affiant/config"


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway as its ``gateway.json`` names it."""

    url: str
    config: str
    """``sha256:`` name of its configuration."""
    spki: str
    """SHA-256 of its TLS key, 43 characters."""


def gateway_origin(url: str) -> tuple[str, int]:
    """Host and port of ``https://HOST[:PORT]``.

    Raises:
        ``session.gateway_address``: another scheme, a path, a query, or a user in it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 443
    except ValueError as error:
        raise ConfigurationError(
            "not an address", found=repr(url[:120]), code="session.gateway_address"
        ) from error
    plain = parts.path in {"", "/"} and not (parts.query or parts.fragment or parts.username)
    if parts.scheme != "https" or host is None or not plain:
        raise ConfigurationError(
            "not a gateway's address",
            expected="https://HOST:PORT",
            found=repr(url[:120]),
            code="session.gateway_address",
        )
    return host, port


def read_gateway_file(path: Path) -> RunningGateway | None:
    """The gateway that last became ready in this state folder; None: no such file, or none of ours."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            value = json.loads(file.read(_LIMIT))
    except (OSError, ValueError):
        return None
    match value:
        case {"url": str() as url, "config": str() as config, "spki": str() as spki}:
            return RunningGateway(url, config, spki)
        case _:
            return None


def fetch_config(url: str, *, spki: str | None) -> GatewayConfig:
    """The configuration that the gateway at ``url`` shows. Blocks for at most some seconds.

    Args:
        spki: the only TLS key to talk to; None: any, because the caller compares the configuration's digest.

    Raises:
        GatewayUnreachable: no answer, or none that is HTTP. GatewayNotTheOne: another key.
    """
    host, port = gateway_origin(url)
    connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=pinless_context())
    try:
        connection.connect()
        if spki is not None and spki_of(connection.sock) != spki:
            raise GatewayNotTheOne("the gateway has another TLS key than its file names", where=url)
        connection.request("GET", _CONFIG)
        answer = connection.getresponse()
        body = answer.read(_LIMIT + 1)
        if answer.status != 200 or len(body) > _LIMIT:
            raise GatewayUnreachable(
                "the gateway does not show its configuration", where=url, found=f"HTTP status {answer.status}"
            )
        return parse_gateway_config(body)
    except (OSError, http.client.HTTPException) as error:
        raise GatewayUnreachable(
            "the gateway does not answer", where=url, found=getattr(error, "strerror", None)
        ) from error
    finally:
        connection.close()


def pinless_context() -> ssl.SSLContext:
    """TLS without a certificate authority: the key is pinned, or the content is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def spki_of(connection: socket.socket) -> str:
    """SHA-256 of the public key that the peer of a TLS connection showed: 43 characters."""
    assert isinstance(connection, ssl.SSLSocket)
    certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    key = x509.load_der_x509_certificate(certificate).public_key()
    return b64u(hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest())
