"""Names trusted roots by public key, never by certificate, name or file.

A root certificate arrives in chains as a hint; what makes it a root is that its public key is one of these.
**Hardware** means that the chain ends in the one key that is compiled in here. Any other root, whatever a
file calls it, is simulated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from affiant.attestation.tdx.pki.certificates import Certificate, parse_certificate
from affiant.attestation.tdx.pki.ecdsa import P256_SPKI_PREFIX
from affiant.attestation.tdx.quote.errors import UntrustedRoot
from affiant.errors import ConfigurationError, NotAuthenticError

__all__ = [
    "INTEL_SGX_ROOT_CA_SPKI",
    "ROOT_COMMON_NAME",
    "EvidenceClass",
    "TrustRoots",
    "evidence_class_of",
    "verify_root",
]

ROOT_COMMON_NAME: Final = "Intel SGX Root CA"

INTEL_SGX_ROOT_CA_SPKI: Final = P256_SPKI_PREFIX + bytes.fromhex(
    "0ba9c4c0c0c86193a3fe23d6b02cda10a8bbd4e88e48b4458561a36e705525f5"
    "67918e2edc88e40d860bd0cc4ee26aacc988e505a953558c453f6b0904ae7394"
)
"""DER SubjectPublicKeyInfo of the Intel SGX Root CA (production; valid 2018-05-21 to 2049-12-31, serial
22650cd65a9d3489f383b49552bf501b392706ac), as Intel publishes it for the Provisioning Certification Service."""

_INTEL_DIGEST: Final = hashlib.sha256(INTEL_SGX_ROOT_CA_SPKI).digest()


class EvidenceClass(StrEnum):
    """Whether genuine hardware stands behind a quote."""

    HARDWARE = "hardware"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class TrustRoots:
    """The accepted root keys, each as SHA-256 (32 bytes) of its DER SubjectPublicKeyInfo.

    Raises:
        ``roots.empty``: an empty set, or a member of another length.
    """

    spki_sha256: frozenset[bytes]

    def __post_init__(self) -> None:
        if not self.spki_sha256 or any(len(digest) != 32 for digest in self.spki_sha256):
            raise ConfigurationError(
                "no trusted root", expected="at least one SHA-256 digest (32 bytes)", code="roots.empty"
            )

    @classmethod
    def intel(cls) -> TrustRoots:
        """The compiled-in Intel SGX Root CA alone."""
        return cls(frozenset((_INTEL_DIGEST,)))

    @classmethod
    def named(cls, names: Iterable[str]) -> TrustRoots:
        """The roots that a trust file names: ``intel``, or ``sha256:`` and 64 hexadecimal digits of the digest.

        Raises:
            ``roots.empty``: none named.
        """
        return cls(
            frozenset(
                _INTEL_DIGEST if name == "intel" else bytes.fromhex(name.removeprefix("sha256:"))
                for name in names
            )
        )

    @classmethod
    def pinned(cls, roots: Iterable[bytes]) -> TrustRoots:
        """The given roots, each a DER SubjectPublicKeyInfo of a P-256 key or a DER certificate with one.

        Pinning never makes a root a hardware root: only the compiled-in key is one.

        Raises:
            ``roots.empty``: none given.
            CertificateMalformed: neither form.
        """
        return cls(frozenset(hashlib.sha256(_spki_of(root)).digest() for root in roots))

    def __contains__(self, spki: bytes) -> bool:
        return hashlib.sha256(spki).digest() in self.spki_sha256


def _spki_of(der: bytes) -> bytes:
    if der.startswith(P256_SPKI_PREFIX) and len(der) == len(P256_SPKI_PREFIX) + 64:
        return der
    return parse_certificate(der).spki


def evidence_class_of(spki: bytes) -> EvidenceClass:
    """HARDWARE exactly when ``spki`` is the compiled-in key."""
    return EvidenceClass.HARDWARE if spki == INTEL_SGX_ROOT_CA_SPKI else EvidenceClass.SIMULATED


def verify_root(root: Certificate, trust: TrustRoots) -> None:
    """6: ``root`` is a hint that must have a trusted key and look like the root it claims to be.

    Raises:
        UntrustedRoot: its key is not trusted.
        ``pck.chain``: another name, not self-signed, or not a certificate authority.
    """
    if root.spki not in trust:
        raise UntrustedRoot(
            "the chain ends in a root that is not trusted",
            expected="a trusted public key",
            found=f"sha256:{hashlib.sha256(root.spki).hexdigest()}",
        )
    if root.common_name != ROOT_COMMON_NAME or not root.is_authority() or not root.is_issued_by(root):
        raise NotAuthenticError(
            "the root certificate is not a self-signed authority named as expected", code="pck.chain"
        )
