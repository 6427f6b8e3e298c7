"""Derives the platform's six P-256 keys from one 32-byte seed, each for one role.

One secret to keep, and a platform that is the same after every restart: the scalars come from HKDF-SHA256
(RFC 5869) with the role in ``info``, and every signature is deterministic (RFC 6979), so the same seed gives the
same certificates byte for byte.
"""

from __future__ import annotations

import enum
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

__all__ = ["ORDER", "SEED_SIZE", "Role", "derive_key", "public_point", "public_spki", "sign_raw"]

SEED_SIZE: Final = 32
"""Bytes of the seed."""

ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of P-256 (SEC 2, section 2.4.2)."""


class Role(enum.Enum):
    """What a key is for. All but the last have a certificate; the last one signs quotes."""

    ROOT = "root"
    PCK_ISSUER = "pck-issuer"
    PCK = "pck"
    SIBLING_PCK = "sibling-pck"
    TCB_SIGNING = "tcb-signing"
    ATTESTATION = "attestation"


def derive_key(seed: bytes, role: Role) -> ec.EllipticCurvePrivateKey:
    """The private key of ``role`` under ``seed`` (32 bytes).

    48 bytes of output are reduced modulo n - 1, so the bias is below 2**-128 (FIPS 186-5, appendix A.2.1).
    """
    info = b"affiant-simulated-platform/1 " + role.value.encode("ascii")
    wide = HKDF(algorithm=hashes.SHA256(), length=48, salt=None, info=info).derive(seed)
    return ec.derive_private_key(int.from_bytes(wide, "big") % (ORDER - 1) + 1, ec.SECP256R1())


def sign_raw(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    """ECDSA P-256 with SHA-256 over ``data``: 64 bytes, r || s, big-endian."""
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def public_point(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key as 64 bytes, x || y, as quotes carry it."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]


def public_spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key as DER SubjectPublicKeyInfo (RFC 5480)."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
