"""Describes a simulated TDX platform as one value: its identity, its collateral, its revocations.

Pure: time and randomness are arguments, and the same value gives the same bytes. Everything that a verifier can
refuse is a field, so a platform with one fault is :func:`dataclasses.replace` with that field changed: a lower
SVN, another status, a revoked certificate, a document signed in the wrong role, a list dated next week.

>>> from datetime import UTC, datetime
>>> platform = SimulatedPlatform.create(now=datetime(2026, 5, 1, tzinfo=UTC), random_bytes=bytes)
>>> len(platform.root_spki())
91
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Self

from cryptography import x509

from affiant.attestation.release.boot import Image, boot_registers
from affiant.attestation.release.platform_identity import (
    TD_ATTRIBUTES,
    XFAM,
    MachineIdentity,
    ModuleIdentity,
    QuotingEnclave,
)
from affiant.attestation.simulated.platform.crls import CRLForm, issue_crl
from affiant.attestation.simulated.platform.keys import SEED_SIZE, Role, derive_key, public_spki
from affiant.attestation.simulated.platform.pki import (
    CertificateRole,
    Certificates,
    issue_certificates,
    pem_chain,
)
from affiant.attestation.simulated.platform.quote_format import (
    QuoteFrame,
    QuoteLayout,
    QuoteParts,
    QuoteSigner,
    quote_parts,
)
from affiant.attestation.simulated.platform.registers import (
    encode_td10_body,
    encode_td15_body,
    launch_registers,
)
from affiant.attestation.simulated.platform.tcb_documents import (
    QEIdentity,
    TCBInfo,
    default_qe_identity,
    default_tcb_info,
    sign_document,
)
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.tcb.collateral import Collateral

__all__ = [
    "COLLATERAL_LIFETIME",
    "RENEW_BEFORE",
    "CollateralPart",
    "IssuedCollateral",
    "SimulatedPlatform",
    "current_collateral",
]

COLLATERAL_LIFETIME: Final = timedelta(days=30)
"""From issue to nextUpdate, as Intel's TCB Info, QE Identity and PCK CRL."""

RENEW_BEFORE: Final = timedelta(days=7)
"""Collateral is issued anew when less than this is left of it."""

_BACKDATED: Final = timedelta(minutes=5)
"""Collateral is dated a little before its issue: clocks of one machine may step back."""


class CollateralPart(enum.Enum):
    """The four dated parts of collateral."""

    TCB_INFO = "tcb-info"
    QE_IDENTITY = "qe-identity"
    ROOT_CRL = "root-crl"
    PCK_CRL = "pck-crl"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPlatform:
    """One platform. ``seed`` is its only secret; the rest is public.

    Args:
        seed: 32 bytes, from which all five keys come.
        created: when its certificates begin (an hour earlier, in fact).
        tcb_info, qe_identity: what the collateral says.
        revoked: which certificates stand on the CRLs: ``PCK`` on the PCK CRL, the others on the root's.
        tcb_info_signer, qe_identity_signer: whose key and chain sign the two documents.
        shifts: how far a part's dates lie from where they should.
        pck_role: the key that certifies quotes: this machine's, or its sibling's.
        also_revoked: other machines' PCK certificates on the PCK CRL.
        also_revoked_by_root: other certificates on the root's CRL.
        quoted: what the quotes carry in place of ``certificates``, from which the collateral's chains are.
        issuer_chains: chains of the collateral in place of its own.
        crl_forms, crl_issuers, crl_keys: how a list departs from its own form, issuer and key.
    """

    seed: bytes = field(repr=False)
    created: datetime
    machine: MachineIdentity
    module: ModuleIdentity
    enclave: QuotingEnclave
    tcb_info: TCBInfo
    qe_identity: QEIdentity
    revoked: frozenset[CertificateRole] = frozenset()
    tcb_info_signer: CertificateRole = CertificateRole.TCB_SIGNING
    qe_identity_signer: CertificateRole = CertificateRole.TCB_SIGNING
    shifts: Mapping[CollateralPart, timedelta] = field(default_factory=lambda: MappingProxyType({}))
    pck_role: Role = Role.PCK
    also_revoked: tuple[x509.Certificate, ...] = ()
    also_revoked_by_root: tuple[x509.Certificate, ...] = ()
    certificates: Certificates = field(repr=False)
    quoted: Certificates | None = field(default=None, repr=False)
    issuer_chains: Mapping[CollateralPart, tuple[x509.Certificate, ...]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    crl_forms: Mapping[CollateralPart, CRLForm] = field(default_factory=lambda: MappingProxyType({}))
    crl_issuers: Mapping[CollateralPart, CertificateRole] = field(
        default_factory=lambda: MappingProxyType({})
    )
    crl_keys: Mapping[CollateralPart, Role] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def create(
        cls,
        *,
        now: datetime,
        random_bytes: Callable[[int], bytes],
        machine: MachineIdentity | None = None,
        module: ModuleIdentity | None = None,
        enclave: QuotingEnclave | None = None,
    ) -> Self:
        """A new platform, up to date under its own collateral."""
        return cls.from_seed(
            random_bytes(SEED_SIZE), created=now, machine=machine, module=module, enclave=enclave
        )

    @classmethod
    def from_seed(
        cls,
        seed: bytes,
        *,
        created: datetime,
        machine: MachineIdentity | None = None,
        module: ModuleIdentity | None = None,
        enclave: QuotingEnclave | None = None,
    ) -> Self:
        """The platform that ``seed`` (32 bytes) and ``created`` name; always the same one."""
        machine = machine or MachineIdentity()
        module = module or ModuleIdentity()
        enclave = enclave or QuotingEnclave()
        return cls(
            seed=seed,
            created=created,
            machine=machine,
            module=module,
            enclave=enclave,
            tcb_info=default_tcb_info(machine, module),
            qe_identity=default_qe_identity(enclave),
            certificates=issue_certificates(seed, created=created, machine=machine),
        )

    def sibling(self) -> Self:
        """A second machine of the same kind: another PCK under the same authorities, the same collateral."""
        certificates = issue_certificates(
            self.seed, created=self.created, machine=self.machine, pck=Role.SIBLING_PCK
        )
        return replace(self, pck_role=Role.SIBLING_PCK, certificates=certificates, quoted=None)

    def root_spki(self) -> bytes:
        """The root's public key, DER SubjectPublicKeyInfo: what a verifier pins."""
        return public_spki(derive_key(self.seed, Role.ROOT))

    def launch(
        self,
        image: Image,
        *,
        mrconfigid: bytes,
        mrtd: bytes,
        td_id: bytes,
        td_attributes: bytes = TD_ATTRIBUTES,
        xfam: bytes = XFAM,
    ) -> TDRegisters:
        """The registers of a TD that booted ``image`` and has done nothing of its own yet.

        Args:
            mrconfigid, mrtd: 48 bytes each. td_id: 32 bytes, unique.
            td_attributes, xfam: 8 bytes each.
        """
        return launch_registers(
            mrtd=mrtd,
            mrconfigid=mrconfigid,
            rtmrs=boot_registers(image),
            td_id=td_id,
            td_attributes=td_attributes,
            xfam=xfam,
        )

    def quote(
        self,
        registers: TDRegisters,
        report_data: bytes,
        *,
        layout: QuoteLayout = QuoteLayout.V4,
        current_tee_tcb_svn: bytes | None = None,
        mrservicetd: bytes = bytes(48),
    ) -> bytes:
        """A quote of a TD with these registers over exactly 64 bytes of ``report_data``.

        Args:
            current_tee_tcb_svn: 16 bytes, body 1.5 only: the module's SVN now, by default that of launch.
            mrservicetd: 48 bytes, body 1.5 only.

        Raises:
            RegisterError: a value of another size.
        """
        body = self.report_body(
            registers,
            report_data,
            layout=layout,
            current_tee_tcb_svn=current_tee_tcb_svn,
            mrservicetd=mrservicetd,
        )
        return self.quote_parts(body, layout).to_bytes()

    def report_body(
        self,
        registers: TDRegisters,
        report_data: bytes,
        *,
        layout: QuoteLayout = QuoteLayout.V4,
        current_tee_tcb_svn: bytes | None = None,
        mrservicetd: bytes = bytes(48),
    ) -> bytes:
        """The TD report body of :meth:`quote`, which has the same arguments."""
        if layout is not QuoteLayout.V5_TD15:
            return encode_td10_body(registers, self.module, report_data)
        return encode_td15_body(
            registers,
            self.module,
            report_data,
            current_tee_tcb_svn=current_tee_tcb_svn or self.module.tee_tcb_svn,
            mrservicetd=mrservicetd,
        )

    def quote_parts(self, body: bytes, layout: QuoteLayout, frame: QuoteFrame | None = None) -> QuoteParts:
        """The quote over ``body`` before its bytes are joined."""
        return quote_parts(body, layout, self.quote_signer(), frame)

    def quote_signer(self) -> QuoteSigner:
        """The attestation key, certified by the PCK key."""
        return QuoteSigner(
            enclave=self.enclave,
            attestation_key=derive_key(self.seed, Role.ATTESTATION),
            pck_key=derive_key(self.seed, self.pck_role),
            pck_chain=pem_chain((self.quoted or self.certificates).chain(CertificateRole.PCK)),
        )

    def collateral(self, now: datetime) -> Collateral:
        """All six items as issued at ``now``, each valid for 30 days (before ``shifts``)."""
        root_revoked = tuple(
            self.certificates.of(role)
            for role in CertificateRole
            if role in self.revoked and role is not CertificateRole.PCK
        )
        root_revoked += self.also_revoked_by_root
        own = (self.certificates.pck,) if CertificateRole.PCK in self.revoked else ()
        pck_revoked = own + self.also_revoked
        return Collateral(
            tcb_info=self._document(
                "tcbInfo", self.tcb_info, CollateralPart.TCB_INFO, self.tcb_info_signer, now
            ),
            tcb_info_issuer_chain=self._chain(CollateralPart.TCB_INFO, self.tcb_info_signer),
            qe_identity=self._document(
                "enclaveIdentity", self.qe_identity, CollateralPart.QE_IDENTITY, self.qe_identity_signer, now
            ),
            qe_identity_issuer_chain=self._chain(CollateralPart.QE_IDENTITY, self.qe_identity_signer),
            root_ca_crl=self._crl(CertificateRole.ROOT, root_revoked, CollateralPart.ROOT_CRL, now),
            pck_crl=self._crl(CertificateRole.PCK_ISSUER, pck_revoked, CollateralPart.PCK_CRL, now),
            pck_crl_issuer_chain=self._chain(CollateralPart.PCK_CRL, CertificateRole.PCK_ISSUER),
        )

    def _document(
        self,
        member: str,
        content: TCBInfo | QEIdentity,
        part: CollateralPart,
        signer: CertificateRole,
        now: datetime,
    ) -> bytes:
        issued, next_update = self._window(part, now)
        text = content.to_bytes(issued=issued, next_update=next_update)
        return sign_document(member, text, derive_key(self.seed, Role(signer.value)))

    def _crl(
        self,
        issuer: CertificateRole,
        revoked: tuple[x509.Certificate, ...],
        part: CollateralPart,
        now: datetime,
    ) -> bytes:
        this_update, next_update = self._window(part, now)
        issuer = self.crl_issuers.get(part, issuer)
        return issue_crl(
            self.certificates.of(issuer),
            derive_key(self.seed, self.crl_keys.get(part, Role(issuer.value))),
            revoked=revoked,
            this_update=this_update,
            next_update=next_update,
            form=self.crl_forms.get(part),
        )

    def _window(self, part: CollateralPart, now: datetime) -> tuple[datetime, datetime]:
        issued = now - _BACKDATED + self.shifts.get(part, timedelta())
        return issued, issued + COLLATERAL_LIFETIME

    def _chain(self, part: CollateralPart, role: CertificateRole) -> bytes:
        return pem_chain(self.issuer_chains.get(part) or self.certificates.chain(role))


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCollateral:
    """Collateral, and when it was issued."""

    collateral: Collateral
    issued: datetime


def current_collateral(
    platform: SimulatedPlatform, held: IssuedCollateral | None, *, now: datetime
) -> IssuedCollateral:
    """``held``, or fresh collateral where there is none, a week or less is left of it, or the clock went back."""
    if (
        held is not None
        and held.issued <= now < held.issued - _BACKDATED + COLLATERAL_LIFETIME - RENEW_BEFORE
    ):
        return held
    return IssuedCollateral(collateral=platform.collateral(now), issued=now)
