"""Issues the throw-away certificate authority: the four certificates that a DCAP verifier walks.

Common names are Intel's, because verifiers tell roles apart by them; organisation and unit say SIMULATED in every
subject. What makes the platform simulated is not its names but its root key, which is not Intel's.

Source of the shape: Intel SGX PCK Certificate and CRL Profile Specification 1.5, section 1.3; and Intel's own
certificates: serial number and key identifier are SHA-1 of the public key's point, and each names the list on which
it would stand if it were revoked. No host has the name in those addresses (RFC 2606): a verifier that fetches lists
gets them from its caller; Intel has none of a simulated platform.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, assert_never

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from affiant.attestation.release.platform_identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.sgx_extension import SGX_EXTENSION_OID, encode_sgx_extension

__all__ = [
    "ORGANIZATION",
    "UNIT",
    "CertificateForm",
    "CertificateRole",
    "Certificates",
    "issue_certificates",
    "pem_chain",
]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateForm:
    """How one certificate departs from what its role has. None: as the role has it.

    Args:
        common_name: of its subject, and so of the issuer of whatever it issued.
        issuer_common_name: whom it names as its issuer.
        signer: the key that signs it.
        public_key: the key in it.
        serial: its serial number.
        shift: how far its validity lies from where it should.
        is_authority: what its basic constraints say.
        signs_certificates: what its key usage says.
        extensions: further ones, each with whether it is critical.
        sgx_extension: the value of its SGX extension; empty: it has none.
        hash_algorithm: what is hashed with for its signature.
    """

    common_name: str | None = None
    issuer_common_name: str | None = None
    signer: Role | None = None
    public_key: ec.EllipticCurvePublicKey | None = None
    serial: int | None = None
    shift: timedelta = timedelta()
    is_authority: bool | None = None
    signs_certificates: bool | None = None
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = ()
    sgx_extension: bytes | None = None
    hash_algorithm: hashes.SHA256 | hashes.SHA384 | None = None


_AS_IT_SHOULD_BE: Final = CertificateForm()
_NO_FORMS: Final[Mapping[CertificateRole, CertificateForm]] = MappingProxyType({})
_COMMON_NAMES: Final = {
    CertificateRole.ROOT: "Intel SGX Root CA",
    CertificateRole.PCK: "Intel SGX PCK Certificate",
    CertificateRole.TCB_SIGNING: "Intel SGX TCB Signing",
}
_LISTS_AT: Final = "https://simulated-pcs.affiant.invalid"
_ISSUERS: Final = {
    CertificateRole.ROOT: CertificateRole.ROOT,
    CertificateRole.PCK_ISSUER: CertificateRole.ROOT,
    CertificateRole.PCK: CertificateRole.PCK_ISSUER,
    CertificateRole.TCB_SIGNING: CertificateRole.ROOT,
}
_AUTHORITIES: Final = {CertificateRole.ROOT: 1, CertificateRole.PCK_ISSUER: 0}
"""Authority -> how many authorities may stand below it."""
_YEARS: Final = {
    CertificateRole.ROOT: 31,
    CertificateRole.PCK_ISSUER: 15,
    CertificateRole.PCK: 7,
    CertificateRole.TCB_SIGNING: 7,
}


def issue_certificates(
    seed: bytes,
    *,
    created: datetime,
    machine: MachineIdentity,
    pck: Role = Role.PCK,
    forms: Mapping[CertificateRole, CertificateForm] = _NO_FORMS,
) -> Certificates:
    """The certificates of the platform with this ``seed`` (32 bytes), valid from an hour before ``created``.

    ``pck`` is the key of the machine: the platform's own, or that of its sibling under the same authorities.
    ``forms`` says which certificate departs from its role, and how.

    Lifetimes follow Intel's: root 31 years, issuing authority 15, PCK and TCB signing 7.
    """
    issuing = _Issuing(seed, created.replace(microsecond=0) - _BACKDATED, machine, pck, forms)
    return Certificates(
        root=issuing.certificate(CertificateRole.ROOT),
        pck_issuer=issuing.certificate(CertificateRole.PCK_ISSUER),
        pck=issuing.certificate(CertificateRole.PCK),
        tcb_signing=issuing.certificate(CertificateRole.TCB_SIGNING),
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


@dataclass(frozen=True, slots=True)
class _Issuing:
    """One issue of all certificates."""

    seed: bytes
    start: datetime
    machine: MachineIdentity
    pck: Role
    forms: Mapping[CertificateRole, CertificateForm]

    def certificate(self, role: CertificateRole) -> x509.Certificate:
        form = self.forms.get(role, _AS_IT_SHOULD_BE)
        issuer = _ISSUERS[role]
        named = form.issuer_common_name or self._common_name(issuer)
        signer = derive_key(self.seed, form.signer or self._key_of(issuer))
        public_key = form.public_key or derive_key(self.seed, self._key_of(role)).public_key()
        start = self.start + form.shift
        identifier = x509.SubjectKeyIdentifier.from_public_key(public_key)
        builder = x509.CertificateBuilder(
            issuer_name=_name(named),
            subject_name=_name(self._common_name(role)),
            public_key=public_key,
            serial_number=form.serial or _serial(identifier.digest),
            not_valid_before=start,
            not_valid_after=start + timedelta(days=365 * _YEARS[role]),
        )
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(authority, critical=False)
        builder = builder.add_extension(self._revocation_list(role), critical=False)
        builder = builder.add_extension(identifier, critical=False)
        for extension, critical in (*self._constraints(role, form), *form.extensions):
            builder = builder.add_extension(extension, critical=critical)
        if sgx_extension := self._sgx_extension(role, form):
            value = x509.UnrecognizedExtension(x509.ObjectIdentifier(SGX_EXTENSION_OID), sgx_extension)
            builder = builder.add_extension(value, critical=False)
        return builder.sign(signer, form.hash_algorithm or hashes.SHA256(), ecdsa_deterministic=True)

    def _common_name(self, role: CertificateRole) -> str:
        own = _COMMON_NAMES.get(role, self.machine.issuer.value)
        return self.forms.get(role, _AS_IT_SHOULD_BE).common_name or own

    def _key_of(self, role: CertificateRole) -> Role:
        return self.pck if role is CertificateRole.PCK else Role(role.value)

    def _constraints(
        self, role: CertificateRole, form: CertificateForm
    ) -> tuple[tuple[x509.ExtensionType, bool], ...]:
        is_authority = role in _AUTHORITIES if form.is_authority is None else form.is_authority
        signs = role in _AUTHORITIES if form.signs_certificates is None else form.signs_certificates
        depth = _AUTHORITIES.get(role) if is_authority else None
        basic = x509.BasicConstraints(ca=is_authority, path_length=depth)
        return (_key_usage(signs_certificates=signs), True), (basic, True)

    def _revocation_list(self, role: CertificateRole) -> x509.CRLDistributionPoints:
        """Where the list of its issuer is: the root's for authorities and signers, a PCK authority's for its leaves."""
        kind = "platform" if self.machine.issuer is PCKIssuer.PLATFORM else "processor"
        leaf = f"sgx/certification/v4/pckcrl?ca={kind}&encoding=der"
        path = leaf if role is CertificateRole.PCK else "IntelSGXRootCA.der"
        point = x509.DistributionPoint(
            [x509.UniformResourceIdentifier(f"{_LISTS_AT}/{path}")], None, None, None
        )
        return x509.CRLDistributionPoints([point])

    def _sgx_extension(self, role: CertificateRole, form: CertificateForm) -> bytes:
        if form.sgx_extension is not None:
            return form.sgx_extension
        return encode_sgx_extension(self.machine) if role is CertificateRole.PCK else b""


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
