"""The certificates that programs in the sandbox trust: the session's own authority, and the system's roots.

The session's comes first: every inspected host is met with it. The system's are there for hosts that the profile
passes through unread, and the extra roots of the manifest for the same on private hosts.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["pem_of", "sandbox_bundle", "system_roots"]

_PLACES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_LIMIT: Final = 3 << 20


def system_roots() -> bytes:
    """The system's roots as PEM; empty where none are installed."""
    for place in _PLACES:
        path = Path(place)
        if path.is_file() and path.stat().st_size <= _LIMIT:
            return path.read_bytes()
    return b""


def pem_of(der: bytes) -> str:
    """One certificate as PEM."""
    return ssl.DER_cert_to_PEM_cert(der)


def sandbox_bundle(authority: bytes, roots: Sequence[bytes], system: bytes) -> bytes:
    """The bundle: the session's authority (PEM), extra ``roots`` (DER), the system's (PEM)."""
    return authority + "".join(pem_of(root) for root in roots).encode("ascii") + system
