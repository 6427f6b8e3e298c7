"""Keys and bytes that follow from labels, so that the same label gives the same vector for ever. They are nobody's.

Signatures are deterministic: ECDSA with the nonce of RFC 6979, and Ed25519.
"""

from __future__ import annotations

import hashlib
from functools import cache

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from vectors.making.encoding import b64u, canonical

__all__ = [
    "ORDER",
    "ed25519_key",
    "jwk",
    "p256_key",
    "point",
    "raw_signature",
    "seeded",
    "sign_der",
    "sign_es256",
    "thumbprint",
]

_SEED = b"affiant receipt vectors, 1: "
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of P-256's base point (SEC 2, section 2.4.2)."""


def seeded(label: str, size: int) -> bytes:
    """``size`` bytes of SHA-256 in counter mode over the label."""
    out = b""
    while len(out) < size:
        out += hashlib.sha256(_SEED + label.encode() + len(out).to_bytes(4, "big")).digest()
    return out[:size]


@cache
def p256_key(label: str) -> ec.EllipticCurvePrivateKey:
    """A P-256 key."""
    return ec.derive_private_key(int.from_bytes(seeded("p256 " + label, 31), "big") + 1, ec.SECP256R1())


@cache
def ed25519_key(label: str) -> Ed25519PrivateKey:
    """An Ed25519 key."""
    return Ed25519PrivateKey.from_private_bytes(seeded("ed25519 " + label, 32))


def point(key: ec.EllipticCurvePrivateKey) -> bytes:
    """64 bytes, x || y, of the public key."""
    numbers = key.public_key().public_numbers()
    return numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def jwk(key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    """The public key (RFC 7518, section 6.2.1)."""
    xy = point(key)
    return {"crv": "P-256", "kty": "EC", "x": b64u(xy[:32]), "y": b64u(xy[32:])}


def thumbprint(key: ec.EllipticCurvePrivateKey) -> str:
    """RFC 7638 with SHA-256: 43 characters."""
    return b64u(hashlib.sha256(canonical(jwk(key))).digest())


def sign_der(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """DER Ecdsa-Sig-Value over SHA-256 of ``message``, nonce of RFC 6979."""
    return key.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


def raw_signature(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """64 bytes r || s, ``s`` as it comes: of quotes and signed documents of the platform."""
    r, s = decode_dss_signature(sign_der(key, message))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def sign_es256(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """64 bytes r || s with low ``s``: of receipts and results."""
    raw = raw_signature(key, message)
    s = int.from_bytes(raw[32:], "big")
    return raw[:32] + min(s, ORDER - s).to_bytes(32, "big")
