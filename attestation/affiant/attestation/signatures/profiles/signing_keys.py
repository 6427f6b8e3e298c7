"""Reads the plain keys that verify profiles: P-256, P-384 and Ed25519, as PEM files and as JWKs.

A key is named by the SHA-256 of its DER SubjectPublicKeyInfo, so that anybody can compute the name::

    openssl pkey -pubin -in signer.pem -outform DER | sha256sum

Algorithms are fixed by the key: ECDSA over SHA-256 or SHA-384 (DER; made with the nonce of RFC 6979), or Ed25519.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from affiant.attestation.encoding.binary_text import b64u, from_b64u, sha256_name
from affiant.attestation.encoding.ed25519_points import is_nobodys_key
from affiant.attestation.signatures.profiles.errors import ProfileSignatureInvalid, SigningKeyInvalid
from affiant.errors import MalformedError

__all__ = [
    "CURVES",
    "KINDS",
    "MAX_KEY_FILE",
    "ProfileKey",
    "parse_key_jwk",
    "parse_public_pem",
]

MAX_KEY_FILE: Final = 16 << 10
KINDS: Final = "a P-256, P-384 or Ed25519 key"
CURVES: Final[Mapping[str, tuple[ec.EllipticCurve, hashes.HashAlgorithm, int]]] = {
    "P-256": (ec.SECP256R1(), hashes.SHA256(), 32),
    "P-384": (ec.SECP384R1(), hashes.SHA384(), 48),
}
"""JWK name -> curve, digest, bytes of a coordinate (RFC 7518, section 6.2.1)."""
_JWK_OF: Final = {"secp256r1": "P-256", "secp384r1": "P-384"}


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """A public key whose signatures over profiles may be believed."""

    key: ec.EllipticCurvePublicKey | Ed25519PublicKey = field(repr=False, compare=False)
    id: str
    """``sha256:`` name of its DER SubjectPublicKeyInfo."""

    @classmethod
    def of(cls, key: object) -> ProfileKey:
        """``key``, if it is of a kind that is used here.

        Raises:
            SigningKeyInvalid: it is not, or anybody could sign with it.
        """
        if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _JWK_OF:
            return cls(key, _name(key))
        if isinstance(key, Ed25519PublicKey):
            if is_nobodys_key(key.public_bytes_raw()):
                raise SigningKeyInvalid(
                    "a key that is nobody's: anybody can sign with it, or it is another's in a second encoding",
                    expected="a point of large order, in its canonical form (RFC 8032)",
                )
            return cls(key, _name(key))
        raise SigningKeyInvalid("a key of another kind", expected=KINDS)

    @property
    def kind(self) -> str:
        """``P-256``, ``P-384`` or ``Ed25519``."""
        return "Ed25519" if isinstance(self.key, Ed25519PublicKey) else _JWK_OF[self.key.curve.name]

    def verify(self, message: bytes, signature: bytes) -> None:
        """Return if ``signature`` holds over ``message``.

        Raises:
            ProfileSignatureInvalid: it does not.
        """
        try:
            if isinstance(self.key, Ed25519PublicKey):
                self.key.verify(signature, message)
            else:
                self.key.verify(signature, message, ec.ECDSA(CURVES[self.kind][1]))
        except InvalidSignature as error:
            raise ProfileSignatureInvalid(
                "the signature does not hold under this key", expected=f"a signature by the key {self.id}"
            ) from error

    def to_jwk(self) -> Mapping[str, str]:
        """The key as a JWK (RFC 7518, section 6.2.1; RFC 8037, section 2)."""
        if isinstance(self.key, Ed25519PublicKey):
            return {"crv": "Ed25519", "kty": "OKP", "x": b64u(self.key.public_bytes_raw())}
        numbers, size = self.key.public_numbers(), CURVES[self.kind][2]
        return {
            "crv": self.kind,
            "kty": "EC",
            "x": b64u(numbers.x.to_bytes(size, "big")),
            "y": b64u(numbers.y.to_bytes(size, "big")),
        }


def parse_public_pem(content: bytes) -> ProfileKey:
    """The public key in a PEM file.

    Raises:
        SigningKeyInvalid: a private key, or no key of a kind used here.
    """
    if b"PRIVATE KEY" in content:
        raise SigningKeyInvalid("that is a private key", expected="its public half, in PEM form")
    try:
        return ProfileKey.of(load_pem_public_key(content[: MAX_KEY_FILE + 1]))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SigningKeyInvalid("not a public key in PEM form", expected=KINDS) from error


def parse_key_jwk(jwk: object) -> ProfileKey:
    """The public key of a JWK with exactly the members of its kind.

    Raises:
        SigningKeyInvalid: other members, another kind, or a point that is not on the curve.
    """
    refused = SigningKeyInvalid("not a public key as a JWK", expected=KINDS)
    try:
        match jwk:
            case {"kty": "OKP", "crv": "Ed25519", "x": str() as x, **rest} if not rest:
                return ProfileKey.of(Ed25519PublicKey.from_public_bytes(from_b64u(x, size=32)))
            case {
                "kty": "EC",
                "crv": "P-256" | "P-384" as name,
                "x": str() as x,
                "y": str() as y,
                **rest,
            } if not rest:
                curve, _, size = CURVES[name]
                left, right = (int.from_bytes(from_b64u(each, size=size), "big") for each in (x, y))
                return ProfileKey.of(ec.EllipticCurvePublicNumbers(left, right, curve).public_key())
    except (ValueError, MalformedError) as error:
        raise refused from error
    raise refused


def _name(key: ec.EllipticCurvePublicKey | Ed25519PublicKey) -> str:
    return sha256_name(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
