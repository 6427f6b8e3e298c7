"""Encodes a request to a timestamp authority in DER (RFC 3161, section 2.4.1).

::

    TimeStampReq ::= SEQUENCE { version 1, messageImprint { SHA-256 or SHA-512, digest }, nonce, certReq TRUE }
"""

from __future__ import annotations

from typing import Final

from affiant.attestation.signatures.timestamps.der_writing import (
    boolean,
    integer,
    object_identifier,
    octets,
    sequence,
)
from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid
from affiant.attestation.signatures.timestamps.imprint import Digest

__all__ = ["NONCE_SIZE", "timestamp_request"]

NONCE_SIZE: Final = 16
"""Bytes of randomness that keep an old answer from being taken for the new one."""


def timestamp_request(data: bytes, *, digest: Digest, nonce: bytes) -> bytes:
    """The request to stamp ``data``; it travels as its digest alone.

    Args:
        nonce: :data:`NONCE_SIZE` fresh random bytes.

    Raises:
        AnchorSettingsInvalid: a nonce of another size.
    """
    if len(nonce) != NONCE_SIZE:
        raise AnchorSettingsInvalid("a nonce of another size", expected=f"{NONCE_SIZE} bytes")
    algorithm = sequence(object_identifier(digest.oid), b"\x05\x00")
    return sequence(
        integer(1),
        sequence(algorithm, octets(digest.of(data))),
        integer(int.from_bytes(nonce, "big")),
        boolean(value=True),
    )
