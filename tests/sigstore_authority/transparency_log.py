"""Transparency logs of both generations: Rekor v1 promises and then proves, Rekor v2 proves."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.sigstore_authority.certificate_log import spki
from tests.sigstore_authority.merkle_tree import audit_path, tree_root

EARLIER = 1_000_000
"""Entries that a v1 log held in earlier trees: its own numbers begin after them."""
TREE_ID = 1193050959916656506


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def compact(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Signed:
    """One signed statement, as a log is told of it."""

    statement: bytes
    signature: bytes
    pae: bytes
    certificate: x509.Certificate
    envelope: bytes = b"{}"

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


@dataclass
class Rekor:
    """Version 1. ``leaves`` may hold anything before the first entry, and after it."""

    origin: str = f"log.tests - {TREE_ID}"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    leaves: list[bytes] = field(default_factory=lambda: [b'{"other":%d}' % i for i in range(4)])
    version: int = 1

    @property
    def log_id(self) -> bytes:
        return hashlib.sha256(spki(self.key.public_key())).digest()

    @property
    def details(self) -> str:
        return "PKIX_ECDSA_P256_SHA_256"

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))

    def checkpoint(self, *, size: int | None = None, root: bytes | None = None) -> str:
        """The signed note about the tree as it is, or about any other."""
        size = len(self.leaves) if size is None else size
        root = tree_root(self.leaves) if root is None else root
        text = f"{self.origin}\n{size}\n{base64_of(root)}\n"
        signature = base64_of(self.log_id[:4] + self.sign(text.encode()))
        return f"{text}\n\u2014 {self.origin.split(' ')[0]} {signature}\n"

    def proof(self, index: int) -> dict[str, object]:
        """The inclusion proof of a leaf in the tree as it is, as a bundle holds it."""
        return {
            "logIndex": str(index),
            "rootHash": base64_of(tree_root(self.leaves)),
            "treeSize": str(len(self.leaves)),
            "hashes": [base64_of(item) for item in audit_path(self.leaves, index)],
            "checkpoint": {"envelope": self.checkpoint()},
        }

    def body(self, signed: Signed) -> bytes:
        """A ``dsse`` 0.0.1 entry."""
        pem = signed.certificate.public_bytes(Encoding.PEM)
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(signed.envelope).hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(signed.statement).hexdigest()},
            "signatures": [{"signature": base64_of(signed.signature), "verifier": base64_of(pem)}],
        }
        return compact({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})

    def promise(self, body: bytes, *, index: int, at: datetime) -> bytes:
        """The signed entry timestamp: to log this, at this instant."""
        return self.sign(
            compact(
                {
                    "body": base64_of(body),
                    "integratedTime": int(at.timestamp()),
                    "logID": self.log_id.hex(),
                    "logIndex": index,
                }
            )
        )

    def add(self, signed: Signed, *, at: datetime) -> dict[str, object]:
        """Log ``signed``, and return the entry as a bundle holds it."""
        body = self.body(signed)
        place = len(self.leaves)
        self.leaves.append(body)
        index = EARLIER + place
        return {
            "logIndex": str(index),
            "logId": {"keyId": base64_of(self.log_id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(int(at.timestamp())),
            "inclusionPromise": {"signedEntryTimestamp": base64_of(self.promise(body, index=index, at=at))},
            "inclusionProof": self.proof(place),
            "canonicalizedBody": base64_of(body),
        }

    def instance(self, *, valid_for: Mapping[str, str]) -> dict[str, object]:
        """The log in a trusted root."""
        return {
            "baseUrl": f"https://{self.origin.split(' ')[0]}",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": base64_of(spki(self.key.public_key())),
                "keyDetails": self.details,
                "validFor": dict(valid_for),
            },
            "logId": {"keyId": base64_of(self.log_id)},
        }


@dataclass
class RekorTiles(Rekor):
    """Version 2: an Ed25519 key, entries of kind ``hashedrekord`` 0.0.2, no promise and no time."""

    origin: str = "tiles.tests"
    key: ed25519.Ed25519PrivateKey = field(default_factory=ed25519.Ed25519PrivateKey.generate)  # type: ignore[assignment]
    version: int = 2

    @property
    def log_id(self) -> bytes:
        """C2SP signed-note: SHA-256 of name, newline, the byte 1, and the raw key."""
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return hashlib.sha256(self.origin.encode() + b"\n\x01" + raw).digest()

    @property
    def details(self) -> str:
        return "PKIX_ED25519"

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data)  # type: ignore[call-arg]

    def body(self, signed: Signed) -> bytes:
        return self.body_of(hashlib.sha256(signed.pae).digest(), signed.signature, signed.certificate)

    def body_of(self, digest: bytes, signature: bytes, certificate: x509.Certificate) -> bytes:
        """A ``hashedrekord`` 0.0.2 entry: of a signed statement the digest is that of what the signature is over."""
        verifier = {
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "x509Certificate": {"rawBytes": base64_of(certificate.public_bytes(Encoding.DER))},
        }
        entry = {
            "data": {"algorithm": "SHA2_256", "digest": base64_of(digest)},
            "signature": {"content": base64_of(signature), "verifier": verifier},
        }
        return compact({"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": {"hashedRekordV002": entry}})

    def add(self, signed: Signed, *, at: datetime) -> dict[str, object]:
        return self._append(self.body(signed))

    def add_digest(self, digest: bytes, signature: bytes, certificate: x509.Certificate) -> dict[str, object]:
        """Log a signature over something of which only the digest is told."""
        return self._append(self.body_of(digest, signature, certificate))

    def _append(self, body: bytes) -> dict[str, object]:
        place = len(self.leaves)
        self.leaves.append(body)
        return {
            "logIndex": str(place),
            "logId": {"keyId": base64_of(self.log_id)},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
            "inclusionProof": self.proof(place),
            "canonicalizedBody": base64_of(body),
        }
