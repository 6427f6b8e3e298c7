"""What can be said of an upstream before anything connects to it: its address, its certificate."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.statements.gateway_config import DEV_ECHO
from affiant.errors import ConfigurationError

__all__ = ["PATHLESS", "lacks_path", "read_root", "require_encrypted"]

PATHLESS: Final = "warning: --upstream names a host alone. Most model servers serve their API below /v1"


def lacks_path(url: str) -> bool:
    """Whether ``url`` names a host alone.

    >>> lacks_path("http://127.0.0.1:8000/"), lacks_path("http://127.0.0.1:8000/v1")
    (True, False)
    """
    return urlsplit(url).path in ("", "/")


def require_encrypted(url: str, *, code: str) -> None:
    """Return if prompts for the upstream ``url`` stay on this machine, or leave it over TLS.

    Args:
        code: of the error.

    Raises:
        ConfigurationError: they would leave it over plain http.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or url == DEV_ECHO.url or _is_loopback(parts.hostname or ""):
        return
    raise ConfigurationError(
        "prompts would leave this machine over plain http",
        where="--upstream",
        expected="an https address, or one of this machine",
        found=f"http://{parts.hostname}",
        hint="Use https, or allow it with --upstream-plain-http",
        code=code,
    )


def read_root(path: Path, *, code: str) -> bytes:
    """The certificate, DER, in a PEM file.

    Args:
        code: of the error.

    Raises:
        ConfigurationError: it holds none, or cannot be read.
    """
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).public_bytes(Encoding.DER)
    except (OSError, ValueError) as error:
        raise ConfigurationError("not a certificate in PEM form", where=str(path), code=code) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
