"""Signatures over the file of profiles that the sessions ran under: DSSE envelopes by plain keys.

Made from the description in ``policy/FORMAT.md``, "Signatures"; what is signed is an in-toto statement.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from vectors.making.documents import POLICY, PROFILES_FILE, profile_digest
from vectors.making.encoding import b64u, canonical, sha256_name
from vectors.making.keys import ed25519_key, p256_key, seeded

__all__ = ["KEYS", "envelope", "public_jwk", "statement"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
Key = ec.EllipticCurvePrivateKey | Ed25519PrivateKey


@cache
def _p384_key(label: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(seeded("p384 " + label, 47), "big") + 1, ec.SECP384R1())


KEYS: dict[str, Key] = {
    "P-256": p256_key("reviewer"),
    "P-384": _p384_key("reviewer"),
    "Ed25519": ed25519_key("reviewer"),
    "another": p256_key("another reviewer"),
    "revoked": p256_key("revoked reviewer"),
}


def public_jwk(key: Key) -> dict[str, str]:
    """The public key (RFC 7518, section 6.2.1; RFC 8037, section 2)."""
    if isinstance(key, Ed25519PrivateKey):
        return {"crv": "Ed25519", "kty": "OKP", "x": b64u(key.public_key().public_bytes_raw())}
    numbers, size = key.public_key().public_numbers(), key.curve.key_size // 8
    names = {256: "P-256", 384: "P-384"}
    return {
        "crv": names[key.curve.key_size],
        "kty": "EC",
        "x": b64u(numbers.x.to_bytes(size, "big")),
        "y": b64u(numbers.y.to_bytes(size, "big")),
    }


def statement() -> dict[str, Any]:
    """What a reviewer of the file signs."""
    profile = profile_digest(POLICY)
    names = canonical({"profiles": {"agent": profile}, "semantics": "affiant.policy/1"})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "profiles", "digest": {"sha256": sha256_name(PROFILES_FILE)[7:]}}],
        "predicateType": "tag:affiant.dev,2026:policy-signature/1",
        "predicate": {
            "semantics": "affiant.policy/1",
            "digest": profile_digest(names),
            "floor": None,
            "profiles": [profile],
        },
    }


def envelope(
    name: str = "P-256",
    *,
    said: Callable[[dict[str, Any]], Any] = lambda members: members,
    signed: Callable[[bytes], bytes] = lambda message: message,
    written: Callable[[dict[str, Any]], Any] = lambda members: members,
) -> bytes:
    """The envelope's bytes.

    Args:
        said: changes the statement before it is signed.
        signed: changes what is signed, and not what is carried.
        written: changes the envelope afterwards.
    """
    key, payload = KEYS[name], canonical(said(statement()))
    message = signed(
        b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    )
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    document = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": sha256_name(spki), "sig": base64.b64encode(_sign(key, message)).decode()}],
    }
    return (json.dumps(written(document), indent=1) + "\n").encode()


def _sign(key: Key, message: bytes) -> bytes:
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(message)
    digest = hashes.SHA256() if key.curve.key_size == 256 else hashes.SHA384()
    return key.sign(message, ec.ECDSA(digest, deterministic_signing=True))
