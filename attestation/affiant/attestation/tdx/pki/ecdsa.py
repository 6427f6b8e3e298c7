"""Verifies ECDSA P-256 with SHA-256 over raw ``r || s``, and reads P-256 keys from their 64 raw bytes (FIPS 186-5)."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["P256_SPKI_PREFIX", "public_key_of_point", "raw_signature_holds", "signature_holds"]

P256_SPKI_PREFIX: Final = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""DER SubjectPublicKeyInfo of a P-256 key up to x || y: named curve, uncompressed point (RFC 5480)."""

_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_ALGORITHM: Final = ECDSA(SHA256())
_CURVE: Final = SECP256R1()


def public_key_of_point(point: bytes) -> EllipticCurvePublicKey:
    """The key with the 64 bytes x || y (point 5: it must be on the curve).

    Raises:
        ValueError: not 64 bytes, or not a point of the curve.
    """
    if len(point) != 64:
        raise ValueError("not 64 bytes")
    return EllipticCurvePublicKey.from_encoded_point(_CURVE, b"\x04" + point)


def raw_signature_holds(key: EllipticCurvePublicKey, signature: bytes, message: bytes) -> bool:
    """Whether the 64 bytes r || s sign ``message``; r and s in 1..n-1 (point 5), a high s is valid."""
    if len(signature) != 64:
        return False
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if not (1 <= r < _ORDER and 1 <= s < _ORDER):
        return False
    return signature_holds(key, encode_dss_signature(r, s), message)


def signature_holds(key: EllipticCurvePublicKey, signature: bytes, message: bytes) -> bool:
    """Whether the DER ``signature`` signs ``message``. The one place where a signature is a truth value:
    every caller turns False into its own error."""
    try:
        key.verify(signature, message, _ALGORITHM)
    except InvalidSignature:
        return False
    return True
