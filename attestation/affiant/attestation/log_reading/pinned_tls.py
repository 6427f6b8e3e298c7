"""Connects by TLS to a server that is known by its public key: a gateway signs a new certificate at every start.

Its keyset statement, which its quote binds, names the key (use ``tls-spki``). What a log says is believed by the log's
signature alone, however it came here; the pin says who is asked, and is the only way to ask a gateway without a proxy
before it. One handshake learns the certificate and holds its key against the pin; every connection after it is verified
by that certificate and nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log_reading.errors import LogSettingsInvalid, LogUnreachable, ServerNotAuthentic

__all__ = ["pinned_context"]


async def pinned_context(prefix: str, pins: Sequence[str], *, answer_s: float) -> ssl.SSLContext:
    """A context that accepts the certificate of the server at ``prefix``, whose key is one of ``pins``.

    Args:
        pins: SHA-256 of a SubjectPublicKeyInfo each, base64url, 43 characters. answer_s: for the handshake as a whole.

    Raises:
        LogSettingsInvalid: ``prefix`` is not https. LogUnreachable: no handshake.
        ServerNotAuthentic: the server has another key, or one that cannot be read.
    """
    if urlsplit(prefix).scheme != "https":
        raise LogSettingsInvalid("a TLS key is pinned and there is no TLS", expected="an https address")
    certificate = await _certificate(prefix, answer_s)
    found = _key_digest(certificate, prefix)
    if found not in pins:
        raise ServerNotAuthentic(
            "the server's TLS key is another",
            where=prefix,
            expected=" or ".join(pins),
            found=found,
            hint="A gateway has a new one at every start: its `affiant gateway status` and its keyset name it.",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the key is what names this server
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context


async def _certificate(prefix: str, answer_s: float) -> bytes:
    """The certificate that the server shows, DER; nothing is sent to it."""
    parts = urlsplit(prefix)
    looking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    looking.check_hostname = False
    looking.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(answer_s):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=looking)
    except (OSError, TimeoutError) as error:
        raise LogUnreachable(
            "no TLS connection", where=prefix, found=f"{type(error).__name__}: {str(error)[:200]}"
        ) from error
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return shown


def _key_digest(certificate: bytes, prefix: str) -> str:
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise ServerNotAuthentic("a certificate that cannot be read", where=prefix) from error
    info = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64u(hashlib.sha256(info).digest())
