"""The private key that signs profiles: one PEM file, which only its owner may read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from affiant.attestation.encoding.key_file import read_key_content
from affiant.attestation.signatures.profiles.errors import SigningKeyInvalid
from affiant.attestation.signatures.profiles.signing_keys import CURVES, KINDS, MAX_KEY_FILE, ProfileKey

__all__ = ["SigningKey", "read_signing_key"]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; never shown."""

    _key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey = field(repr=False, compare=False)
    public: ProfileKey

    def sign(self, message: bytes) -> bytes:
        """The signature over ``message``: the same bytes for the same message."""
        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(message)
        digest = CURVES[self.public.kind][1]
        return self._key.sign(message, ec.ECDSA(digest, deterministic_signing=True))

    def __reduce__(self) -> str:
        raise TypeError("a signing key is not copied or pickled")


def read_signing_key(path: Path) -> SigningKey:
    """The private key in the PEM file at ``path``, which only its owner may read.

    Raises:
        SigningKeyInvalid: a link, a file that others can reach, an encrypted key, or no key of a kind used here.
    """
    content = read_key_content(path, limit=MAX_KEY_FILE, error=SigningKeyInvalid)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise SigningKeyInvalid(
            "the key is encrypted, and no passphrase is asked for here", where=str(path)
        ) from None
    except (ValueError, UnsupportedAlgorithm):  # their texts may quote the key
        raise SigningKeyInvalid("not a private key in PEM form", where=str(path), expected=KINDS) from None
    if not isinstance(key, (ec.EllipticCurvePrivateKey, Ed25519PrivateKey)):
        raise SigningKeyInvalid("a key of another kind", where=str(path), expected=KINDS)
    return SigningKey(key, ProfileKey.of(key.public_key()))
