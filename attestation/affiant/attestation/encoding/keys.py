"""Signs and verifies ES256 with P-256 keys: deterministic nonces, low ``s``, keys named by thumbprint.

A signature is 64 bytes, ``r || s``, big-endian (RFC 7518, section 3.4), with the nonce of RFC 6979 and
``s <= n/2``: one message under one key has one signature, so that a store holds no second encoding of a record.
A key is named by its RFC 7638 SHA-256 thumbprint (43 characters). One key has one use; what signs receipts
signs nothing else.

>>> key = ec.derive_private_key(7, ec.SECP256R1())
>>> signer = Signer(key)
>>> verify_es256(signer.public_key, b"message", signer.sign(b"message"))
>>> verify_es256(signer.public_key, b"massage", signer.sign(b"message"))
Traceback (most recent call last):
    ...
affiant.attestation.encoding.keys.SignatureInvalid: the signature does not hold under this key
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import MalformedError, NotAuthenticError

__all__ = [
    "KeyMalformed",
    "SignatureInvalid",
    "Signer",
    "public_jwk",
    "public_key_of",
    "thumbprint",
    "verify_es256",
]

_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order n of P-256's base point (SEC 2, section 2.4.2)."""

_ALGORITHM: Final = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
_VERIFY: Final = ec.ECDSA(hashes.SHA256())


class KeyMalformed(MalformedError):
    """A JWK is not a P-256 public key in the one accepted form."""

    code = "sig.key"


class SignatureInvalid(NotAuthenticError):
    """A signature is not 64 bytes with low ``s``, or does not hold."""

    code = "sig.invalid"


def public_jwk(key: ec.EllipticCurvePublicKey) -> Mapping[str, str]:
    """The key as a JWK with exactly ``crv``, ``kty``, ``x``, ``y`` (RFC 7518, section 6.2.1)."""
    numbers = key.public_numbers()
    return _jwk_of(numbers.x, numbers.y)


def _jwk_of(x: int, y: int) -> Mapping[str, str]:
    return {"crv": "P-256", "kty": "EC", "x": b64u(x.to_bytes(32, "big")), "y": b64u(y.to_bytes(32, "big"))}


def public_key_of(jwk: object) -> ec.EllipticCurvePublicKey:
    """The P-256 public key of a JWK.

    Raises:
        KeyMalformed: other members, another curve, or a point that is not on it.
    """
    if not isinstance(jwk, dict) or set(jwk) != {"crv", "kty", "x", "y"}:
        raise KeyMalformed("not a P-256 public JWK", expected="exactly crv, kty, x and y")
    if jwk["crv"] != "P-256" or jwk["kty"] != "EC" or not all(isinstance(jwk[c], str) for c in "xy"):
        raise KeyMalformed("not a P-256 public JWK", expected="kty EC, crv P-256")
    x, y = (int.from_bytes(from_b64u(jwk[c], size=32), "big") for c in "xy")
    try:
        return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    except ValueError as error:
        raise KeyMalformed("the point is not on P-256") from error


def thumbprint(key: ec.EllipticCurvePublicKey) -> str:
    """The key's RFC 7638 SHA-256 thumbprint: 43 characters."""
    numbers = key.public_numbers()
    return _thumbprint_of(numbers.x, numbers.y)


@lru_cache(maxsize=8192)
def _thumbprint_of(x: int, y: int) -> str:
    """Kept for the keys that were asked for last: a million records have few signers."""
    return b64u(hashlib.sha256(canonical(_jwk_of(x, y))).digest())


class Signer:
    """A private P-256 key that signs and is never shown; made in the process, never written out."""

    __slots__ = ("_key", "kid", "public_key")

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public_key: ec.EllipticCurvePublicKey = key.public_key()
        self.kid: str = thumbprint(self.public_key)

    @classmethod
    def generate(cls) -> Signer:
        """A fresh key from the operating system's generator."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    def sign(self, message: bytes) -> bytes:
        """64 bytes ``r || s`` over SHA-256 of ``message``; RFC 6979 nonce, low ``s``."""
        r, s = decode_dss_signature(self._key.sign(message, _ALGORITHM))
        s = min(s, _ORDER - s)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def __repr__(self) -> str:
        return f"<Signer {self.kid}>"

    def __reduce__(self) -> str:
        raise TypeError("a signing key is not copied or pickled")


def verify_es256(key: ec.EllipticCurvePublicKey, message: bytes, signature: bytes) -> None:
    """Return if ``signature`` holds over ``message``, else refuse.

    Raises:
        SignatureInvalid: not 64 bytes, ``r`` or ``s`` out of range, high ``s``, or it does not hold.
    """
    if len(signature) != 64:
        raise SignatureInvalid("not an ES256 signature", expected="64 bytes", found=f"{len(signature)} bytes")
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if not 0 < r < _ORDER or not 0 < s <= _ORDER // 2:
        raise SignatureInvalid("r or s is out of range, or s is in the upper half")
    try:
        key.verify(encode_dss_signature(r, s), message, _VERIFY)
    except InvalidSignature as error:
        raise SignatureInvalid("the signature does not hold under this key") from error
