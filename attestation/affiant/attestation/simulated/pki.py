"""The throw-away certificate authority: the four certificates that a DCAP verifier walks.

Common names are Intel's, because verifiers tell roles apart by them; organisation and unit say SIMULATED in every
subject. What makes the platform simulated is not its names but its root key, which is not Intel's.

Source of the shape: Intel SGX PCK Certificate and CRL Profile Specification 1.5, section 1.3; and Intel's own
certificates: serial number and key identifier are SHA-1 of the public key's point.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from affiant.attestation.simulated.identity import MachineIdentity
from affiant.attestation.simulated.keys import Role, derive_key
from affiant.attestation.simulated.sgx_extension import SGX_EXTENSION_OID, encode_sgx_extension

__all__ = ["ORGANIZATION", "UNIT", "CertificateRole", "Certificates", "issue_certificates", "pem_chain"]

ORGANIZATION: Final = "affiant SIMULATED platform"
UNIT: Final = "SIMULATED, NOT INTEL HARDWARE"

_BACKDATED: Final = timedelta(hours=1)
"""Certificates begin a little before the platform does: clocks of one machine may step back."""


class CertificateRole(enum.Enum):
    """The four certificates."""

    ROOT = "root"
    PCK_ISSUER = "pck-issuer"
    PCK = "pck"
    TCB_SIGNING = "tcb-signing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The whole tree: ``root`` issued itself, ``pck_issuer`` and ``tcb_signing``; ``pck_issuer`` issued ``pck``."""

    root: x509.Certificate
    pck_issuer: x509.Certificate
    pck: x509.Certificate
    tcb_signing: x509.Certificate

    def of(self, role: CertificateRole) -> x509.Certificate:
        """The certificate of ``role``."""
        match role:
            case CertificateRole.ROOT:
                return self.root
            case CertificateRole.PCK_ISSUER:
                return self.pck_issuer
            case CertificateRole.PCK:
                return self.pck
            case CertificateRole.TCB_SIGNING:
                return self.tcb_signing
            case _:
                assert_never(role)

    def chain(self, role: CertificateRole) -> tuple[x509.Certificate, ...]:
        """The chain of ``role``: leaf first, root last."""
        match role:
            case CertificateRole.ROOT:
                return (self.root,)
            case CertificateRole.PCK_ISSUER | CertificateRole.TCB_SIGNING:
                return (self.of(role), self.root)
            case CertificateRole.PCK:
                return (self.pck, self.pck_issuer, self.root)
            case _:
                assert_never(role)


def issue_certificates(
    seed: bytes, *, created: datetime, machine: MachineIdentity, pck: Role = Role.PCK
) -> Certificates:
    """The certificates of the platform with this ``seed`` (32 bytes), valid from an hour before ``created``.

    ``pck`` is the key of the machine: the platform's own, or that of its sibling under the same authorities.

    Lifetimes follow Intel's: root 31 years, issuing authority 15, PCK and TCB signing 7.
    """
    keys = {role: derive_key(seed, role) for role in Role}
    start = created.replace(microsecond=0) - _BACKDATED
    root_name, issuer_name = _name("Intel SGX Root CA"), _name(machine.issuer.value)
    root_key, issuer_key = keys[Role.ROOT], keys[Role.PCK_ISSUER]
    return Certificates(
        root=_authority(
            root_name, root_key, issuer=root_name, signer=root_key, depth=1, start=start, years=31
        ),
        pck_issuer=_authority(
            issuer_name, issuer_key, issuer=root_name, signer=root_key, depth=0, start=start, years=15
        ),
        pck=_leaf(
            _name("Intel SGX PCK Certificate"),
            keys[pck],
            issuer=issuer_name,
            signer=issuer_key,
            start=start,
            sgx_extension=encode_sgx_extension(machine),
        ),
        tcb_signing=_leaf(
            _name("Intel SGX TCB Signing"),
            keys[Role.TCB_SIGNING],
            issuer=root_name,
            signer=root_key,
            start=start,
            sgx_extension=None,
        ),
    )


def pem_chain(certificates: tuple[x509.Certificate, ...]) -> bytes:
    """PEM, in the order given, each ending in a newline."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, UNIT),
        ]
    )


def _authority(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    depth: int,
    start: datetime,
    years: int,
) -> x509.Certificate:
    builder = _builder(subject, key, issuer=issuer, signer=signer, start=start, years=years)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=depth), critical=True)
    return builder.sign(signer, hashes.SHA256(), ecdsa_deterministic=True)


def _leaf(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    start: datetime,
    sgx_extension: bytes | None,
) -> x509.Certificate:
    builder = _builder(subject, key, issuer=issuer, signer=signer, start=start, years=7)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    if sgx_extension is not None:
        extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(SGX_EXTENSION_OID), sgx_extension)
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256(), ecdsa_deterministic=True)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    start: datetime,
    years: int,
) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=_serial(identifier.digest),
        not_valid_before=start,
        not_valid_after=start + timedelta(days=365 * years),
    )
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return builder.add_extension(authority, critical=False).add_extension(identifier, critical=False)


def _serial(key_identifier: bytes) -> int:
    """20 bytes as a positive number of at most 159 bits, never zero (RFC 5280, section 4.1.2.2)."""
    return (int.from_bytes(key_identifier, "big") >> 1) | 1


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=not signs_certificates,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
