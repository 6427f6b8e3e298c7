"""The encodings of a certificate revocation list: DER, hexadecimal (as a PCCS sends it), PEM. Nothing is verified."""

from __future__ import annotations

import binascii
import re
from typing import Final

__all__ = ["decode_revocation_list"]

_DER_SEQUENCE: Final = b"\x30"
_HEX: Final = re.compile(rb"[ \t\r\n]*((?:[0-9A-Fa-f]{2})+)[ \t\r\n]*\Z")
_PEM: Final = re.compile(
    rb"[ \t\r\n]*-----BEGIN X509 CRL-----[ \t]*\r?\n([A-Za-z0-9+/=\r\n]+)-----END X509 CRL-----[ \t\r\n\0]*\Z"
)


def decode_revocation_list(content: bytes) -> bytes | None:
    """The DER in ``content``, which is DER, PEM or hexadecimal; None for anything else."""
    if content.startswith(_DER_SEQUENCE):  # hexadecimal of DER begins with the digit 3
        return content
    if (digits := _HEX.match(content)) is not None:
        return bytes.fromhex(digits.group(1).decode("ascii"))
    if (pem := _PEM.match(content)) is not None:
        try:
            return binascii.a2b_base64(pem.group(1).translate(None, b"\r\n"), strict_mode=True)
        except binascii.Error:
            return None
    return None
