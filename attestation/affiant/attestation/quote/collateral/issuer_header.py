"""Decodes the issuer chain in a response header: URL-encoded PEM -> PEM.

Intel sends ``-----BEGIN%20CERTIFICATE-----%0A...``. Caches and proxies in between re-encode it: digits in lower
case, a space as ``+`` (form encoding), a carriage return, or blanks around it. Those are read. What decodes in
two ways, twice, or to anything but certificates is refused: this text is the one thing that is decoded before
its signature can be checked.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from affiant.attestation.quote.collateral.errors import ResponseRefused
from affiant.attestation.tdx.pki.certificates import parse_chain
from affiant.attestation.tdx.quote.errors import CertificateMalformed

__all__ = ["MAX_HEADER_CHAIN", "decode_issuer_chain"]

MAX_HEADER_CHAIN: Final = 16 * 1024
"""Characters; Intel's are about 2,000."""

_ENCODED: Final = re.compile(r"(?:[A-Za-z0-9+/=\-_.~ ]|%[0-9A-Fa-f]{2})+\Z")
"""URL characters, and the blank that a careless proxy leaves; every ``%`` begins a pair of digits."""
_FORM_MARK: Final = "BEGIN+CERTIFICATE"
"""A space became ``+``, so that a plus sign of the base64 text must stand as ``%2B``."""
_TWICE: Final = b"%20CERTIFICATE"


def decode_issuer_chain(value: str, *, name: str) -> bytes:
    """The PEM text in header ``name``; its certificates are parsed, and nothing of them is verified.

    Raises:
        ResponseRefused: too long, not URL-encoded, encoded twice, or not certificates alone.
    """
    if len(value) > MAX_HEADER_CHAIN:
        raise ResponseRefused(
            "the issuer chain is too long",
            where=name,
            expected=f"at most {MAX_HEADER_CHAIN} characters",
            found=len(value),
        )
    text = value.strip(" \t")
    if _ENCODED.match(text) is None:
        raise ResponseRefused("the issuer chain is not URL-encoded", where=name, found=repr(text[:40]))
    pem = unquote_to_bytes(text.replace("+", " ") if _FORM_MARK in text else text)
    if _TWICE in pem:
        raise ResponseRefused(
            "the issuer chain is URL-encoded twice",
            where=name,
            hint="A cache or proxy between the service and this machine encodes it again.",
        )
    try:
        parse_chain(pem)
    except CertificateMalformed as error:
        raise ResponseRefused(f"the issuer chain cannot be read: {error}", where=name) from error
    return pem
