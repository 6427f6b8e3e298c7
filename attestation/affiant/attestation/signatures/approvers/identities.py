"""Names approvers by identity instead of key: an identity, its issuer, and the trusted root that certifies it.

All three are one approver. Whoever runs the certificate authority of a trusted root can certify anybody, so that the
root is in the profile, and so in its digest, beside those whom it is believed about: nothing outside of the profile
adds one. The name of such an approver (``kid`` in records) is the SHA-256 of all three::

    {"issuer": "https://accounts.example.com", "subject": "ann@example.com", "trusted_root": "sha256:<64 hex>"}

canonical (RFC 8785), in base64url: 43 characters, as the thumbprint of a key has. Issuer and subject are compared
exactly: another case, a longer name, a blank more is somebody else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.signatures.approvers.errors import ApproverExtraMissing

__all__ = [
    "BUNDLE_TYPE",
    "MAX_SIGNED",
    "NO_IDENTITIES",
    "ApproverIdentity",
    "NamedIdentities",
    "is_bundle",
    "require_verifiable",
]

BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
MAX_SIGNED: Final = 32 << 10
"""Bytes of a bundle: the statement has some 400, what proves it 4,000 to 12,000."""


@dataclass(frozen=True, slots=True, order=True)
class ApproverIdentity:
    """Who: the issuer of their token, and the e-mail address or URI that it certifies."""

    issuer: str
    subject: str

    def __str__(self) -> str:
        return f"{self.subject} (issuer {self.issuer})"


@dataclass(frozen=True, slots=True)
class NamedIdentities:
    """Who may approve by identity.

    Args:
        who: the identities.
        trusted_root: a sigstore trusted root (``trusted_root.json``, protobuf-specs), canonical; empty without ``who``.
    """

    who: frozenset[ApproverIdentity]
    trusted_root: bytes = field(repr=False)

    @property
    def names(self) -> frozenset[str]:
        """Their names as approvers."""
        return frozenset(map(self.name_of, self.who))

    def name_of(self, identity: ApproverIdentity) -> str:
        """The name of ``identity`` under this trusted root: 43 characters."""
        return _name(identity, self.trusted_root)


NO_IDENTITIES: Final = NamedIdentities(frozenset(), b"")


def require_verifiable(identities: NamedIdentities) -> None:
    """Refuse, at the start of whoever will judge their statements, identities whose statements nobody could verify.

    What verifies them is loaded here and no earlier (half a second, some 30 MiB), so that no statement waits for it.

    Raises:
        ApproverExtraMissing: the sigstore library is not installed. TrustedRootUnusable: the trusted root is none.
    """
    if not identities.who:
        return
    try:
        from affiant.attestation.signatures.approvers import signed_by_identity  # noqa: F401, PLC0415 - slow to load
        from affiant.attestation.signatures.sigstore import sigstore_verifier  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise ApproverExtraMissing from error
    sigstore_verifier.require_usable(identities.trusted_root)


def is_bundle(text: str) -> bool:
    """Whether a statement is an identity's bundle, or else a key's: that one is a JWS, which begins with no brace."""
    return text.startswith("{")


@lru_cache(maxsize=256)
def _name(identity: ApproverIdentity, trusted_root: bytes) -> str:
    members = {
        "issuer": identity.issuer,
        "subject": identity.subject,
        "trusted_root": sha256_name(trusted_root),
    }
    return b64u(hashlib.sha256(canonical(members)).digest())
