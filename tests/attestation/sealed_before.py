"""Sealed disclosures of version 1, which are read and no longer written."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from affiant.attestation.encoding.binary_text import b64u, from_b64u

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def seal_before(disclosures: Sequence[str], *, to: str, rh: str) -> str:
    """One receipt's disclosures, sealed as sessions of version 1 did."""
    plaintext = "~".join(disclosures).encode() + b"\x80"
    return seal_bytes(plaintext + bytes(-len(plaintext) % 1024), to=to, rh=rh)


def seal_bytes(plaintext: bytes, *, to: str, rh: str) -> str:
    """The same of any plaintext."""
    key = X25519PublicKey.from_public_bytes(from_b64u(to, size=32))
    return b64u(SUITE.encrypt(plaintext, key, info=b"affiant/openings/1" + rh.encode()))
