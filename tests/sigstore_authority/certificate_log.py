"""A certificate transparency log, as far as a certificate shows it: the signed timestamp in it (RFC 6962, 3.2)."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.attestation.simulated.platform.der import octet_string

OID = "1.3.6.1.4.1.11129.2.4.2"
"""The extension that holds the list of signed certificate timestamps."""


def spki(key: object) -> bytes:
    """A public key as DER SubjectPublicKeyInfo."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]


@dataclass
class CertificateLog:
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def log_id(self) -> bytes:
        return hashlib.sha256(spki(self.key.public_key())).digest()

    def extension(self, tbs: bytes, *, issuer_key: bytes, at: datetime) -> bytes:
        """The extension's value for a certificate whose bytes to be signed, without it, are ``tbs``."""
        milliseconds = int(at.timestamp() * 1000)
        entry = hashlib.sha256(issuer_key).digest() + len(tbs).to_bytes(3, "big") + tbs
        signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + struct.pack("!H", 0)
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        timestamp = (
            struct.pack("!B32sQHBBH", 0, self.log_id, milliseconds, 0, 4, 3, len(signature)) + signature
        )
        listed = struct.pack("!H", len(timestamp)) + timestamp
        return octet_string(struct.pack("!H", len(listed)) + listed)
