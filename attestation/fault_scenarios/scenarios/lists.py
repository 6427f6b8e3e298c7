"""Revocation: who is on a list, whose list it is, and lists that are none."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.release.platform_identity import PCKIssuer
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import CertificateForm, CertificateRole
from affiant.attestation.simulated.platform.platform import CollateralPart
from fault_scenarios.bench import Bench
from fault_scenarios.changes import (
    bench,
    crl_form,
    each,
    machine,
    platform,
    quoted_certificates,
    renewed_signer,
    signed_by,
)
from fault_scenarios.scenario import Accepted, Change, Refused, Scenario
from fault_scenarios.scenarios.pck_chain import UNKNOWN_CRITICAL

__all__ = ["SCENARIOS"]

_MALFORMED: Final = Refused("crl.malformed", Stage.COLLATERAL)
_ISSUER: Final = Refused("crl.issuer", Stage.COLLATERAL)
_SIGNATURE: Final = Refused("crl.signature", Stage.COLLATERAL)
_ROOT, _PCK = CollateralPart.ROOT_CRL, CollateralPart.PCK_CRL
_NAMES: Final = {_ROOT: ("root-crl", "root_ca_crl", (11,)), _PCK: ("pck-crl", "pck_crl", (12,))}
_TITLES: Final = {_ROOT: "The root's revocation list", _PCK: "The PCK revocation list"}


def _revoked(role: CertificateRole) -> Change:
    return platform(revoked=frozenset({role}))


def _item(name: str, content: bytes) -> Change:
    return bench(repack=lambda it: replace(it, **{name: content}))


def _cut(name: str) -> Change:
    return bench(repack=lambda it: replace(it, **{name: getattr(it, name)[:-1]}))


def _without(name: str) -> Change:
    """The file of the collateral lacks the list altogether."""
    return bench(refile=lambda file: file.replace(b'"%s"' % name.encode(), b'"not_%s"' % name.encode(), 1))


def _exchanged(it: Bench) -> Bench:
    return replace(it, repack=lambda made: replace(made, root_ca_crl=made.pck_crl, pck_crl=made.root_ca_crl))


def _of_the_other_authority(it: Bench) -> Bench:
    """List and chain of the other of both PCK authorities: complete, and about other machines."""
    processor = machine(issuer=PCKIssuer.PROCESSOR)(it).platform.collateral(it.now)
    return replace(
        it,
        repack=lambda made: replace(
            made, pck_crl=processor.pck_crl, pck_crl_issuer_chain=processor.pck_crl_issuer_chain
        ),
    )


def _entries(part: CollateralPart, role: CertificateRole, **form: Any) -> Change:
    """A list with an entry, in this form."""
    return each(_revoked(role), crl_form(part, **form))


def _also_revoked(it: Bench) -> Bench:
    return platform(also_revoked=(it.platform.sibling().certificates.pck,))(it)


def _renewed_authority_revoked(it: Bench) -> Bench:
    """The quote's intermediate is an older certificate of the same authority, which alone is on the root's list."""
    older = quoted_certificates(pck_issuer=CertificateForm(serial=0x51))(it)
    return _revoking(older, CertificateRole.PCK_ISSUER)


def _other_root_revoked(it: Bench) -> Bench:
    """The root in the quote is another certificate of the root key, which alone is on the root's list."""
    return _revoking(quoted_certificates(root=CertificateForm(serial=0x53))(it), CertificateRole.ROOT)


def _revoking(it: Bench, role: CertificateRole) -> Bench:
    """The certificate of ``role`` in the quote is on the root's list."""
    quoted = it.platform.quoted or it.platform.certificates
    return platform(also_revoked_by_root=(quoted.of(role),))(it)


def _renewed_signer_revoked(it: Bench) -> Bench:
    renewed = renewed_signer(it)
    certificate = renewed.platform.issuer_chains[CollateralPart.QE_IDENTITY][0]
    return platform(also_revoked_by_root=(certificate,))(renewed)


def _per_list(part: CollateralPart) -> tuple[Scenario, ...]:
    slug, item, points = _NAMES[part]
    title = _TITLES[part]
    other = Role.TCB_SIGNING
    role = CertificateRole.TCB_SIGNING if part is _ROOT else CertificateRole.PCK
    foreign = CertificateRole.PCK_ISSUER if part is _ROOT else CertificateRole.ROOT
    return (
        Scenario(
            f"{slug}-missing",
            f"{title} is missing.",
            (14,),
            Refused("collateral.malformed", Stage.COLLATERAL),
            _without(item),
        ),
        Scenario(f"{slug}-empty", f"{title} is there, without a byte.", (14,), _MALFORMED, _item(item, b"")),
        Scenario(f"{slug}-cut", f"{title} lacks its last byte.", points, _MALFORMED, _cut(item)),
        Scenario(
            f"{slug}-too-large",
            f"{title} has more than 256 KiB.",
            (1, *points),
            _MALFORMED,
            bench(repack=lambda it: replace(it, **{item: getattr(it, item).ljust((1 << 18) + 1, b"\0")})),
        ),
        Scenario(
            f"{slug}-of-another-issuer",
            f"{title} is another authority's, signed by that authority.",
            points,
            _ISSUER,
            platform(crl_issuers=MappingProxyType({part: foreign})),
        ),
        Scenario(
            f"{slug}-forged",
            f"{title} names the right issuer and is signed by somebody else.",
            points,
            _SIGNATURE,
            signed_by(part, other),
        ),
        Scenario(
            f"{slug}-signed-with-sha384",
            f"{title} is signed with ECDSA and SHA-384.",
            points,
            _MALFORMED,
            crl_form(part, hash_algorithm=hashes.SHA384()),
        ),
        Scenario(
            f"{slug}-is-a-delta",
            f"{title} is a delta: what it does not name may be revoked all the same.",
            points,
            _MALFORMED,
            crl_form(part, extensions=((x509.DeltaCRLIndicator(1), True),)),
        ),
        Scenario(
            f"{slug}-is-an-uncritical-delta",
            f"{title} is a delta that does not say that this is critical.",
            points,
            _MALFORMED,
            crl_form(part, extensions=((x509.DeltaCRLIndicator(1), False),)),
        ),
        Scenario(
            f"{slug}-is-indirect",
            f"{title} is an indirect one: its entries may be of other issuers.",
            points,
            _MALFORMED,
            crl_form(part, extensions=((_distribution_point(indirect=True), True),)),
        ),
        Scenario(
            f"{slug}-is-partial",
            f"{title} holds authorities only.",
            points,
            _MALFORMED,
            crl_form(part, extensions=((_distribution_point(authorities=True), True),)),
        ),
        Scenario(
            f"{slug}-with-unknown-critical-extension",
            f"{title} has a critical extension that nobody knows.",
            points,
            _MALFORMED,
            crl_form(part, extensions=(UNKNOWN_CRITICAL,)),
        ),
        Scenario(
            f"{slug}-entry-removed",
            f"An entry of a complete list says removeFromCRL ({slug}).",
            (13,),
            _MALFORMED,
            _entries(part, role, reason=x509.ReasonFlags.remove_from_crl),
        ),
        Scenario(
            f"{slug}-entry-of-another-issuer",
            f"An entry names another issuer than the list's ({slug}).",
            (13,),
            _MALFORMED,
            _entries(part, role, entry_extensions=((_another_issuer(), False),)),
        ),
        Scenario(
            f"{slug}-entry-with-unknown-critical-extension",
            f"An entry has a critical extension that nobody knows ({slug}).",
            (13,),
            _MALFORMED,
            _entries(part, role, entry_extensions=(UNKNOWN_CRITICAL,)),
        ),
    )


def _distribution_point(
    *, indirect: bool = False, authorities: bool = False
) -> x509.IssuingDistributionPoint:
    return x509.IssuingDistributionPoint(
        full_name=None,
        relative_name=None,
        only_contains_user_certs=False,
        only_contains_ca_certs=authorities,
        only_some_reasons=None,
        indirect_crl=indirect,
        only_contains_attribute_certs=False,
    )


def _another_issuer() -> x509.CertificateIssuer:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "affiant SIMULATED, another issuer")])
    return x509.CertificateIssuer([x509.DirectoryName(name)])


SCENARIOS: Final = (
    Scenario(
        "pck-revoked",
        "The PCK certificate is on its issuer's list.",
        (13,),
        Refused("cert.revoked", Stage.VERIFICATION),
        _revoked(CertificateRole.PCK),
    ),
    Scenario(
        "pck-revoked-under-the-processor-ca",
        "The PCK certificate is on the list of the Processor CA, which issued it.",
        (12, 13),
        Refused("cert.revoked", Stage.VERIFICATION),
        each(machine(issuer=PCKIssuer.PROCESSOR), _revoked(CertificateRole.PCK)),
    ),
    Scenario(
        "pck-authority-revoked",
        "The PCK authority is on the root's list.",
        (13,),
        Refused("cert.revoked", Stage.COLLATERAL),
        _revoked(CertificateRole.PCK_ISSUER),
    ),
    Scenario(
        "quoted-authority-revoked",
        "The quote's intermediate is an older certificate of the same authority, which alone is revoked.",
        (13,),
        Refused("cert.revoked", Stage.VERIFICATION),
        _renewed_authority_revoked,
    ),
    Scenario(
        "quoted-root-revoked",
        "The root in the quote is another certificate of the same root key, which alone is revoked.",
        (13,),
        Refused("cert.revoked", Stage.VERIFICATION),
        _other_root_revoked,
    ),
    Scenario(
        "tcb-signer-revoked",
        "The signer of TCB Info and QE Identity is on the root's list.",
        (13, 16),
        Refused("cert.revoked", Stage.COLLATERAL),
        _revoked(CertificateRole.TCB_SIGNING),
    ),
    Scenario(
        "renewed-tcb-signer-revoked",
        "QE Identity comes with a renewed certificate of the signer, and that certificate alone is revoked.",
        (13, 17),
        Refused("cert.revoked", Stage.COLLATERAL),
        _renewed_signer_revoked,
    ),
    Scenario(
        "root-revoked",
        "The root is on its own list.",
        (13,),
        Refused("cert.revoked", Stage.COLLATERAL),
        _revoked(CertificateRole.ROOT),
    ),
    Scenario(
        "pck-crl-covers-another-machine",
        "The PCK revocation list names another machine, which is no fault of this one.",
        (13,),
        Accepted(),
        _also_revoked,
    ),
    Scenario(
        "pck-crl-of-the-other-authority",
        "The PCK revocation list is complete, and the other PCK authority's.",
        (12,),
        Refused("crl.issuer", Stage.VERIFICATION),
        _of_the_other_authority,
    ),
    Scenario(
        "lists-exchanged", "Both revocation lists stand in each other's place.", (11, 12), _ISSUER, _exchanged
    ),
    *_per_list(_ROOT),
    *_per_list(_PCK),
)
