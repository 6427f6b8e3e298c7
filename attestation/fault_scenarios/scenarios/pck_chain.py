"""The PCK chain that the quote carries: members, order, names, roles and signatures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import CertificateForm, CertificateRole, pem_chain
from fault_scenarios.bench import Bench
from fault_scenarios.changes import (
    another_root,
    parts,
    quoted_certificates,
)
from fault_scenarios.scenario import Change, Refused, Scenario

__all__ = ["SCENARIOS", "UNKNOWN_CRITICAL"]

_CHAIN: Final = Refused("pck.chain", Stage.VERIFICATION)
_MALFORMED: Final = Refused("cert.malformed", Stage.VERIFICATION)
_UNTRUSTED: Final = Refused("root.untrusted", Stage.VERIFICATION)
UNKNOWN_CRITICAL: Final = (
    x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"),
    True,
)
"""An extension that no verifier knows, and that says it must be known."""
_P384: Final = ec.derive_private_key(1, ec.SECP384R1()).public_key()
_LEAF, _AUTHORITY, _ROOT = CertificateRole.PCK, CertificateRole.PCK_ISSUER, CertificateRole.ROOT
_SIGNER: Final = CertificateRole.TCB_SIGNING


def _text(edit: Any) -> Change:
    """The chain's PEM text, edited."""

    def change(it: Bench) -> Bench:
        return parts(certification_data=edit(it.platform.quote_signer().pck_chain))(it)

    return change


def _members(*roles: CertificateRole) -> Change:
    return lambda it: parts(
        certification_data=pem_chain(tuple(it.platform.certificates.of(role) for role in roles))
    )(it)


def _root_of_another(it: Bench) -> Bench:
    own, other = it.platform.certificates, another_root(it).certificates
    return parts(certification_data=pem_chain((own.pck, own.pck_issuer, other.root)))(it)


def _chain_of_another(it: Bench) -> Bench:
    """Quote and chain of a second tree with the same names; the collateral and the trusted root are the first's."""
    return replace(it, platform=another_root(it), authority=it.platform)


def _leaf_under_another_tree(it: Bench) -> Bench:
    """The leaf is another tree's, the certificates above it are good: one link is missing."""
    own, other = it.platform.certificates, another_root(it).certificates
    return parts(certification_data=pem_chain((other.pck, own.pck_issuer, own.root)))(it)


def _quoted(role: str, **form: Any) -> Change:
    return quoted_certificates(**{role: CertificateForm(**form)})


def _with_first_block(pem: bytes, content: bytes) -> bytes:
    """The chain with other base64 in the place of its leaf."""
    end = b"-----END CERTIFICATE-----"
    return b"-----BEGIN CERTIFICATE-----\n" + content + b"\n" + pem[pem.index(end) :]


_FORM: Final = (
    Scenario("chain-empty", "The chain is empty.", (4, 9), _MALFORMED, _text(lambda _: b"")),
    Scenario(
        "chain-of-garbage",
        "The chain is no text at all.",
        (4, 9),
        _MALFORMED,
        _text(lambda pem: bytes(len(pem))),
    ),
    Scenario(
        "chain-with-text",
        "Between two certificates stands a sentence.",
        (4,),
        _MALFORMED,
        _text(lambda pem: pem.replace(b"-----\n-----BEGIN", b"-----\nsubject: trust me\n-----BEGIN", 1)),
    ),
    Scenario(
        "chain-with-another-label",
        "A block of the chain is labelled as something else.",
        (4,),
        _MALFORMED,
        _text(lambda pem: pem.replace(b"CERTIFICATE", b"TRUSTED CERTIFICATE", 2)),
    ),
    Scenario(
        "chain-not-base64",
        "A block of the chain holds no base64.",
        (4,),
        _MALFORMED,
        _text(lambda pem: _with_first_block(pem, b"A")),
    ),
    Scenario(
        "chain-not-a-certificate",
        "The first block of the chain holds no certificate.",
        (4,),
        _MALFORMED,
        _text(lambda pem: _with_first_block(pem, b"MAMCAQE=")),
    ),
    Scenario(
        "chain-of-four",
        "The chain has a fourth certificate.",
        (4, 9),
        _MALFORMED,
        _members(_LEAF, _AUTHORITY, _ROOT, _ROOT),
    ),
    Scenario("chain-of-one", "The chain is the leaf alone.", (4, 9), _CHAIN, _members(_LEAF)),
    Scenario(
        "chain-without-intermediate",
        "The chain lacks the intermediate.",
        (7, 9),
        _CHAIN,
        _members(_LEAF, _ROOT),
    ),
    Scenario(
        "chain-in-another-order",
        "The chain begins with the intermediate: there is no path search.",
        (9,),
        _CHAIN,
        _members(_AUTHORITY, _LEAF, _ROOT),
    ),
    Scenario(
        "leaf-as-its-own-issuer",
        "The leaf stands in the place of the authority above it.",
        (8, 9),
        _CHAIN,
        _members(_LEAF, _LEAF, _ROOT),
    ),
    Scenario(
        "tcb-signer-as-intermediate",
        "The TCB Signing certificate stands in the place of the PCK authority.",
        (7,),
        _CHAIN,
        _members(_LEAF, _SIGNER, _ROOT),
    ),
    Scenario(
        "tcb-signer-as-leaf",
        "The TCB Signing certificate stands in the place of the PCK certificate.",
        (8,),
        _CHAIN,
        _members(_SIGNER, _AUTHORITY, _ROOT),
    ),
    Scenario(
        "intermediate-as-root",
        "The chain ends in the intermediate again instead of the root.",
        (6, 9),
        _UNTRUSTED,
        _members(_LEAF, _AUTHORITY, _AUTHORITY),
    ),
)

_ROLES: Final = (
    Scenario(
        "own-root-with-the-same-names",
        "The whole chain is somebody's own, with the vendor's names and another root.",
        (6,),
        _UNTRUSTED,
        _chain_of_another,
    ),
    Scenario(
        "another-root-in-the-chain",
        "The chain is good up to a root with another key.",
        (6,),
        _UNTRUSTED,
        _root_of_another,
    ),
    Scenario(
        "leaf-of-another-tree",
        "The leaf was issued by an authority of the same name and another key.",
        (8,),
        _CHAIN,
        _leaf_under_another_tree,
    ),
    Scenario(
        "leaf-signed-by-itself",
        "The leaf names the authority as its issuer and is signed by its own key.",
        (8,),
        _CHAIN,
        _quoted("pck", signer=Role.PCK),
    ),
    Scenario(
        "leaf-of-another-name",
        "The leaf has another common name, and is signed by the authority.",
        (8,),
        _CHAIN,
        _quoted("pck", common_name="affiant SIMULATED, no PCK"),
    ),
    Scenario(
        "leaf-names-another-issuer",
        "The leaf is signed by the authority and names another issuer.",
        (8,),
        _CHAIN,
        _quoted("pck", issuer_common_name="Intel SGX PCK Processor CA"),
    ),
    Scenario(
        "leaf-is-an-authority",
        "The leaf says that it is a certificate authority.",
        (8,),
        _CHAIN,
        _quoted("pck", is_authority=True),
    ),
    Scenario(
        "leaf-may-sign-certificates",
        "The leaf's key usage lets it sign certificates.",
        (8,),
        _CHAIN,
        _quoted("pck", signs_certificates=True),
    ),
    Scenario(
        "leaf-with-unknown-critical-extension",
        "The leaf has a critical extension that nobody knows.",
        (8,),
        _MALFORMED,
        _quoted("pck", extensions=(UNKNOWN_CRITICAL,)),
    ),
    Scenario(
        "leaf-key-p384",
        "The leaf's key is a P-384 key.",
        (5, 8),
        _MALFORMED,
        _quoted("pck", public_key=_P384),
    ),
    Scenario(
        "leaf-signed-with-sha384",
        "The leaf is signed with ECDSA and SHA-384.",
        (8,),
        _MALFORMED,
        _quoted("pck", hash_algorithm=hashes.SHA384()),
    ),
    Scenario(
        "intermediate-of-another-name",
        "The intermediate has neither of the two names of a PCK authority.",
        (7,),
        _CHAIN,
        _quoted("pck_issuer", common_name="Intel SGX PCK Other CA"),
    ),
    Scenario(
        "intermediate-is-no-authority",
        "The intermediate's basic constraints say that it is none.",
        (7,),
        _CHAIN,
        _quoted("pck_issuer", is_authority=False),
    ),
    Scenario(
        "intermediate-may-not-sign",
        "The intermediate's key usage does not let it sign certificates and lists.",
        (7,),
        _CHAIN,
        _quoted("pck_issuer", signs_certificates=False),
    ),
    Scenario(
        "intermediate-signed-by-itself",
        "The intermediate names the root as its issuer and is signed by its own key.",
        (7,),
        _CHAIN,
        _quoted("pck_issuer", signer=Role.PCK_ISSUER),
    ),
    Scenario(
        "intermediate-names-another-issuer",
        "The intermediate is signed by the root and names another issuer.",
        (7,),
        _CHAIN,
        _quoted("pck_issuer", issuer_common_name="Intel SGX TCB Signing"),
    ),
    Scenario(
        "root-hint-signed-by-another-key",
        "The root in the chain has the trusted key and is signed by another one.",
        (6,),
        _CHAIN,
        _quoted("root", signer=Role.TCB_SIGNING),
    ),
    Scenario(
        "root-hint-is-no-authority",
        "The root in the chain has the trusted key and says that it is no authority.",
        (6,),
        _CHAIN,
        _quoted("root", is_authority=False),
    ),
)

SCENARIOS: Final = (*_FORM, *_ROLES)
