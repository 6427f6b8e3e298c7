"""What can be said of an upstream before anything connects to it: its address, its certificate."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.statements.gateway_config import DEV_ECHO
from affiant.errors import ConfigurationError

__all__ = ["PATHLESS", "lacks_path", "parse_timeouts", "read_root", "require_encrypted"]

PATHLESS: Final = "warning: --upstream names a host alone. Most model servers serve their API below /v1"


_TIMEOUTS: Final = re.compile("[0-9]{1,5}(,[0-9]{1,5}){0,2}")
_DAY_S: Final = 86_400


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


def parse_timeouts(text: str, *, code: str) -> Mapping[str, int]:
    """Seconds to wait for an upstream, as ``HEAD[,IDLE[,TOTAL]]`` says them, by their names in a configuration.

    >>> parse_timeouts("900", code="x"), parse_timeouts("900,60,7200", code="x")
    ({'head_s': 900}, {'head_s': 900, 'idle_s': 60, 'total_s': 7200})

    Args:
        code: of the error.

    Raises:
        ConfigurationError: the text says something else.
    """
    if _TIMEOUTS.fullmatch(text) is None or not all(1 <= int(each) <= _DAY_S for each in text.split(",")):
        raise ConfigurationError(
            "not an upstream's timeouts",
            where="--upstream-timeout",
            expected=f"HEAD[,IDLE[,TOTAL]], each 1 to {_DAY_S} seconds",
            found=text[:40],
            code=code,
        )
    return dict(zip(("head_s", "idle_s", "total_s"), map(int, text.split(",")), strict=False))


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
