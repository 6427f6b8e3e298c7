"""Seals disclosures so that the operator can store them and only the person who started the session can read them.

HPKE single-shot (RFC 9180): DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. ``info`` is
``affiant/openings/1`` followed by the receipt hash, so that a sealed blob cannot be moved to another receipt.
The plaintext is the disclosures joined by ``~``, then the byte 0x80 and zeros up to a multiple of 1,024 bytes
(ISO/IEC 7816-4), so that the length shows a store neither a value's size nor which values there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import NotAuthenticError

__all__ = ["SealedDisclosureInvalid", "open_sealed", "recipient", "seal"]

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_INFO: Final = b"affiant/openings/1"
_BLOCK: Final = 1024


class SealedDisclosureInvalid(NotAuthenticError):
    """A sealed opening is for another key or another receipt, or was changed."""

    code = "sd.opening"


def recipient(key: X25519PrivateKey) -> str:
    """The public half as 43 characters: the ``openings`` member of an activation."""
    return b64u(key.public_key().public_bytes_raw())


def seal(disclosures: Sequence[str], *, to: str, rh: str) -> str:
    """Seal one receipt's disclosures; base64url."""
    key = X25519PublicKey.from_public_bytes(from_b64u(to, size=32))
    plaintext = "~".join(disclosures).encode("ascii") + b"\x80"
    plaintext += bytes(-len(plaintext) % _BLOCK)
    return b64u(_SUITE.encrypt(plaintext, key, info=_INFO + rh.encode("ascii")))


def open_sealed(sealed: str, *, key: X25519PrivateKey, rh: str) -> tuple[str, ...]:
    """The disclosures of the receipt with hash ``rh``.

    Raises:
        SealedDisclosureInvalid: another key or receipt, or changed bytes.
    """
    try:
        plaintext = _SUITE.decrypt(from_b64u(sealed), key, info=_INFO + rh.encode("ascii"))
    except (InvalidTag, ValueError) as error:
        raise SealedDisclosureInvalid("sealed to another key or receipt, or changed") from error
    content, mark, rest = plaintext.rpartition(b"\x80")
    if not mark or rest.strip(b"\0"):
        raise SealedDisclosureInvalid("padded in another way")
    text = content.decode("ascii")
    return tuple(text.split("~")) if text else ()
