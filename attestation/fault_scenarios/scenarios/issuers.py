"""Who signed the collateral: the signers of both documents, the authority of the PCK list, and the root."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import CertificateForm, CertificateRole
from affiant.attestation.simulated.platform.platform import CollateralPart
from fault_scenarios.bench import Bench
from fault_scenarios.changes import another_root, bench, certificates, platform
from fault_scenarios.scenario import Change, Refused, Scenario
from fault_scenarios.scenarios.pck_chain import UNKNOWN_CRITICAL

__all__ = ["SCENARIOS"]

_ISSUER: Final = Refused("collateral.issuer", Stage.COLLATERAL)
_CHAIN: Final = Refused("pck.chain", Stage.COLLATERAL)
_UNTRUSTED: Final = Refused("root.untrusted", Stage.COLLATERAL)
_BOTH: Final = (CollateralPart.TCB_INFO, CollateralPart.QE_IDENTITY)


def _certificate(role: str, **form: Any) -> Change:
    return certificates(**{role: CertificateForm(**form)})


def _chain(part: CollateralPart, *roles: CertificateRole) -> Change:
    """The part's chain holds these certificates."""

    def change(it: Bench) -> Bench:
        chain = tuple(it.platform.certificates.of(role) for role in roles)
        return platform(issuer_chains=MappingProxyType({part: chain}))(it)

    return change


def _signed_in_the_role(role: CertificateRole, *parts: CollateralPart) -> Change:
    """``parts`` are signed by ``role``'s own key, with its certificate and the root as their chain."""

    def change(it: Bench) -> Bench:
        chain = (it.platform.certificates.of(role), it.platform.certificates.root)
        signers = {
            CollateralPart.TCB_INFO: {"tcb_info_signer": role},
            CollateralPart.QE_IDENTITY: {"qe_identity_signer": role},
        }
        fields: dict[str, Any] = {"issuer_chains": MappingProxyType(dict.fromkeys(parts, chain))}
        for part in parts:
            fields |= signers[part]
        return platform(**fields)(it)

    return change


def _trust_another(it: Bench) -> Bench:
    return replace(it, trusted=another_root(it))


def _one_chain_of_another_root(it: Bench) -> Bench:
    other = another_root(it).certificates
    chain = (other.tcb_signing, other.root)
    return platform(issuer_chains=MappingProxyType({CollateralPart.QE_IDENTITY: chain}))(it)


def _signer_of_another_tree(it: Bench) -> Bench:
    chain = (another_root(it).certificates.tcb_signing, it.platform.certificates.root)
    return platform(issuer_chains=MappingProxyType(dict.fromkeys(_BOTH, chain)))(it)


_SIGNER, _ROOT = CertificateRole.TCB_SIGNING, CertificateRole.ROOT
_PCK, _AUTHORITY = CertificateRole.PCK, CertificateRole.PCK_ISSUER

SCENARIOS: Final = (
    Scenario(
        "untrusted-root",
        "Everything holds under a root that the reader does not trust.",
        (6,),
        _UNTRUSTED,
        _trust_another,
    ),
    Scenario(
        "collateral-of-two-roots",
        "The chain of QE Identity ends in another root than the other two.",
        (6, 17),
        _UNTRUSTED,
        _one_chain_of_another_root,
    ),
    Scenario(
        "root-of-another-name",
        "The trusted key stands in a certificate of another name.",
        (6,),
        _CHAIN,
        _certificate("root", common_name="affiant SIMULATED Root"),
    ),
    Scenario(
        "root-is-no-authority",
        "The trusted key stands in a certificate that is no authority.",
        (6,),
        _CHAIN,
        _certificate("root", is_authority=False),
    ),
    Scenario(
        "root-not-self-signed",
        "The trusted key stands in a certificate that another key signed.",
        (6,),
        _CHAIN,
        _certificate("root", signer=Role.TCB_SIGNING),
    ),
    *(
        Scenario(
            f"{document}-signed-by-{who}",
            f"{title} is signed by {whom}, which chains to the root too and has no business signing it.",
            (16, 17),
            _ISSUER,
            _signed_in_the_role(role, part),
        )
        for document, title, part in (
            ("tcb-info", "TCB Info", CollateralPart.TCB_INFO),
            ("qe-identity", "QE Identity", CollateralPart.QE_IDENTITY),
        )
        for who, whom, role in (
            ("pck-key", "the PCK key", _PCK),
            ("pck-authority", "the PCK authority", _AUTHORITY),
            ("root", "the root itself", _ROOT),
        )
    ),
    Scenario(
        "tcb-info-with-a-pck-chain",
        "TCB Info is signed by the PCK key, with the PCK's own chain of three.",
        (16,),
        _ISSUER,
        platform(tcb_info_signer=_PCK),
    ),
    Scenario(
        "tcb-signer-of-another-name",
        "The signer of the documents has another common name.",
        (16,),
        _ISSUER,
        _certificate("tcb_signing", common_name="affiant SIMULATED, no TCB signer"),
    ),
    Scenario(
        "tcb-signer-is-an-authority",
        "The signer of the documents is a certificate authority.",
        (16,),
        _ISSUER,
        _certificate("tcb_signing", is_authority=True),
    ),
    Scenario(
        "tcb-signer-may-sign-certificates",
        "The key usage of the documents' signer lets it sign certificates.",
        (16,),
        _ISSUER,
        _certificate("tcb_signing", signs_certificates=True),
    ),
    Scenario(
        "tcb-signer-issued-by-the-pck-authority",
        "The signer of the documents is issued by the PCK authority instead of the root.",
        (16,),
        _ISSUER,
        _certificate("tcb_signing", signer=Role.PCK_ISSUER, issuer_common_name="Intel SGX PCK Platform CA"),
    ),
    Scenario(
        "tcb-signer-signed-by-itself",
        "The signer of the documents names the root as its issuer and is signed by its own key.",
        (16,),
        _ISSUER,
        _certificate("tcb_signing", signer=Role.TCB_SIGNING),
    ),
    Scenario(
        "tcb-signer-of-another-tree",
        "The signer of the documents is another tree's, under the trusted root's certificate.",
        (16,),
        _ISSUER,
        _signer_of_another_tree,
    ),
    Scenario(
        "tcb-signer-with-unknown-critical-extension",
        "The signer of the documents has a critical extension that nobody knows.",
        (16,),
        _ISSUER,
        _certificate("tcb_signing", extensions=(UNKNOWN_CRITICAL,)),
    ),
    Scenario(
        "tcb-info-chain-without-root",
        "The chain of TCB Info is its signer alone.",
        (16,),
        _ISSUER,
        _chain(CollateralPart.TCB_INFO, _SIGNER),
    ),
    Scenario(
        "tcb-info-chain-too-large",
        "The chain of TCB Info has more than 16 KiB of white space.",
        (1, 16),
        _ISSUER,
        bench(
            repack=lambda it: replace(it, tcb_info_issuer_chain=it.tcb_info_issuer_chain + b"\n" * (1 << 14))
        ),
    ),
    Scenario(
        "tcb-info-chain-in-another-order",
        "The chain of TCB Info begins with the root.",
        (6, 16),
        _UNTRUSTED,
        _chain(CollateralPart.TCB_INFO, _ROOT, _SIGNER),
    ),
    Scenario(
        "pck-crl-chain-of-the-tcb-signer",
        "The chain of the PCK revocation list is the TCB signer's.",
        (12,),
        _CHAIN,
        _chain(CollateralPart.PCK_CRL, _SIGNER, _ROOT),
    ),
    Scenario(
        "pck-authority-is-none-anywhere",
        "The PCK authority says in quote and collateral alike that it is none.",
        (7, 12),
        _CHAIN,
        _certificate("pck_issuer", is_authority=False),
    ),
    Scenario(
        "pck-authority-not-by-the-root",
        "The PCK authority is signed by another key than the root's, in quote and collateral alike.",
        (7, 12),
        _CHAIN,
        _certificate("pck_issuer", signer=Role.PCK_ISSUER),
    ),
)
