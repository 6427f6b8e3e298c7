"""Verifies everything of collateral that does not depend on one quote: collateral -> :class:`VerifiedCollateral`
(points 11 to 22).

The order: parse all items; the root by its key; the chains; the root's revocation list; who is on it; the PCK
authority's list; the two signed documents over their exact bytes; every window at ``now``.

A verified collateral may be kept and used again: :meth:`VerifiedCollateral.check_time` judges every window at
the time of each use, without a signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from affiant.attestation.tdx.pki.certificates import Certificate
from affiant.attestation.tdx.pki.crl import RevocationList, parse_crl
from affiant.attestation.tdx.pki.pck import PCKCA, verify_intermediate
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots, evidence_class_of, verify_root
from affiant.attestation.tdx.pki.tcb_signer import parse_issuer_chain, verify_tcb_signer
from affiant.attestation.tdx.pki.times import Window, check_windows, earliest_expiry, utc
from affiant.attestation.tdx.quote.errors import UntrustedRoot
from affiant.attestation.tdx.tcb.collateral import ITEMS, Collateral
from affiant.attestation.tdx.tcb.qe_identity import QEIdentity, parse_qe_identity
from affiant.attestation.tdx.tcb.tcb_info import TCBInfo, parse_tcb_info

__all__ = ["VerifiedCollateral", "verify_collateral"]


@dataclass(frozen=True, slots=True)
class VerifiedCollateral:
    """Collateral whose signatures, issuers and revocations hold under one trusted root."""

    collateral: Collateral
    tcb_info: TCBInfo
    qe_identity: QEIdentity
    root_crl: RevocationList
    pck_crl: RevocationList
    pck_ca: PCKCA
    """Whose PCK certificates the PCK revocation list covers."""
    pck_authority: Certificate = field(repr=False)
    """That authority's certificate, verified up to ``root``."""
    root: Certificate = field(repr=False)
    evidence_class: EvidenceClass
    windows: tuple[Window, ...] = field(repr=False)
    digest: str
    """The collateral's digest, 43 characters."""
    item_digests: Mapping[str, bytes] = field(repr=False)
    """Item name -> SHA-256 of its exact bytes (point 45)."""

    @property
    def root_digest(self) -> bytes:
        """SHA-256 (32 bytes) of the root's DER SubjectPublicKeyInfo."""
        return hashlib.sha256(self.root.spki).digest()

    @property
    def evaluation_number(self) -> int:
        """21: the lower tcbEvaluationDataNumber of both documents."""
        return min(self.tcb_info.evaluation_number, self.qe_identity.evaluation_number)

    @property
    def expiry(self) -> datetime:
        """36: the last time at which every part holds."""
        return earliest_expiry(self.windows)

    def check_time(self, now: datetime) -> None:
        """Judge every window at ``now``.

        Raises:
            NotFreshError: the first part that is not valid yet, or not any more.
            ``tdx.naive_time``: ``now`` has no zone.
        """
        check_windows(self.windows, utc(now))


def verify_collateral(collateral: Collateral, *, now: datetime, trust: TrustRoots) -> VerifiedCollateral:
    """Verify everything in ``collateral`` that does not depend on one quote.

    Args:
        collateral: the items as received.
        now: the time of judgement, with its zone.
        trust: the accepted root keys.

    Raises:
        MalformedError: an item cannot be read.
        NotAuthenticError: a chain, a signature or an issuer does not hold, or a certificate is revoked.
        NotFreshError: an item is outside of its window.
        ``tdx.naive_time``: ``now`` has no zone.
    """
    now = utc(now)
    # 14: both lists are parsed here or refused; there is no collateral without them.
    root_crl = parse_crl(collateral.root_ca_crl, name="root CA CRL")
    pck_crl = parse_crl(collateral.pck_crl, name="PCK CRL")
    tcb_info = parse_tcb_info(collateral.tcb_info)
    qe_identity = parse_qe_identity(collateral.qe_identity)
    issuers = _read_issuers(collateral)
    root, authority = issuers.root, issuers.authority
    pck_ca = _verify_issuers(issuers, trust)
    # 11: the root's own list, and 13: everything that the root issued against it, the root included.
    root_crl.verify(root)
    for certificate in issuers.certificates:
        root_crl.refuse_revoked(certificate)
    # 12: the PCK authority's own list.
    pck_crl.verify(authority)
    # 15 and 17: over the exact bytes as received, each document under its own signer.
    tcb_info.signed.verify(issuers.tcb_signer)
    qe_identity.signed.verify(issuers.qe_signer)
    verified = VerifiedCollateral(
        collateral=collateral,
        tcb_info=tcb_info,
        qe_identity=qe_identity,
        root_crl=root_crl,
        pck_crl=pck_crl,
        pck_ca=pck_ca,
        pck_authority=authority,
        root=root,
        evidence_class=evidence_class_of(root.spki),
        windows=(
            root_crl.window,
            pck_crl.window,
            tcb_info.window,
            qe_identity.window,
            *(certificate.window for certificate in issuers.certificates),
        ),
        digest=collateral.digest,
        item_digests={name: hashlib.sha256(getattr(collateral, name)).digest() for name in ITEMS},
    )
    # 11, 12, 16, 19, 20: every window at this time.
    verified.check_time(now)
    return verified


@dataclass(frozen=True, slots=True)
class _Issuers:
    """The certificates of the three issuer chains."""

    root: Certificate
    roots: tuple[Certificate, ...]
    """Every root certificate that the chains carry, each once."""
    tcb_signer: Certificate
    qe_signer: Certificate
    authority: Certificate

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """All of them, each once."""
        return _distinct((*self.roots, self.authority, self.tcb_signer, self.qe_signer))


def _read_issuers(collateral: Collateral) -> _Issuers:
    tcb_signer, root = parse_issuer_chain(collateral.tcb_info_issuer_chain, "TCB Info")
    known = (tcb_signer, root)
    qe_signer, qe_root = parse_issuer_chain(collateral.qe_identity_issuer_chain, "QE Identity", known)
    authority, crl_root = parse_issuer_chain(collateral.pck_crl_issuer_chain, "PCK CRL", known)
    return _Issuers(root, _distinct((root, qe_root, crl_root)), tcb_signer, qe_signer, authority)


def _distinct(certificates: tuple[Certificate, ...]) -> tuple[Certificate, ...]:
    """Each certificate once, by its exact bytes, in order."""
    return tuple(dict.fromkeys(certificates))


def _verify_issuers(issuers: _Issuers, trust: TrustRoots) -> PCKCA:
    """One trusted root for all three chains, and each signer in its own role."""
    root = issuers.root
    for candidate in issuers.roots:
        verify_root(candidate, trust)
        if candidate.spki != root.spki or candidate.subject != root.subject:
            raise UntrustedRoot("the chains of one collateral end in different roots")
    for signer in _distinct((issuers.tcb_signer, issuers.qe_signer)):
        verify_tcb_signer(signer, root)
    # 12: the PCK revocation list's own issuer chain ends in the same root.
    return verify_intermediate(issuers.authority, root)
