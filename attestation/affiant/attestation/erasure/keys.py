"""Names the key file of an erasure authority. Gateways and trust files hold its public half, a JWK."""

from __future__ import annotations

from typing import Final

from affiant.attestation.encoding.key_file import KeyFileKind
from affiant.attestation.erasure.errors import AuthorityKeyMalformed

__all__ = ["AUTHORITY_KEY"]

AUTHORITY_KEY: Final = KeyFileKind(
    "affiant-erasure-key/1", "an erasure authority", "affiant erase keygen", AuthorityKeyMalformed
)
