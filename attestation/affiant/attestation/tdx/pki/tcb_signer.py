"""Verifies who signed what Intel publishes as JSON: a TCB Signing certificate of the root itself (points 16 and 17).

A PCK certificate or a PCK authority chains to the same root, and has no business here (known mistake: role
confusion). Intel has used one key in several certificates, so a certificate is judged by its role, never pinned.
"""

from __future__ import annotations

from typing import Final

from affiant.attestation.tdx.pki.certificates import Certificate, parse_chain
from affiant.attestation.tdx.quote.errors import CertificateMalformed
from affiant.errors import NotAuthenticError

__all__ = ["TCB_SIGNING_COMMON_NAME", "parse_issuer_chain", "verify_tcb_signer"]

TCB_SIGNING_COMMON_NAME: Final = "Intel SGX TCB Signing"


def parse_issuer_chain(
    pem: bytes, name: str, known: tuple[Certificate, ...] = ()
) -> tuple[Certificate, Certificate]:
    """Signer and root: exactly two certificates, as the provisioning service sends them.

    Args:
        name: the document that the chain belongs to, for the error.
        known: certificates that are parsed already.

    Raises:
        ``collateral.issuer``: it cannot be read, or has another length.
    """
    try:
        chain = parse_chain(pem, known=known)
    except CertificateMalformed as error:
        raise NotAuthenticError(
            f"the issuer chain of {name} cannot be read", code="collateral.issuer"
        ) from error
    if len(chain) != 2:
        raise NotAuthenticError(
            f"the issuer chain of {name} has another length",
            expected="signer and root",
            found=len(chain),
            code="collateral.issuer",
        )
    return chain[0], chain[1]


def verify_tcb_signer(signer: Certificate, root: Certificate) -> None:
    """16: ``signer`` is a TCB Signing certificate, no authority, issued directly by ``root``.

    Raises:
        ``collateral.issuer``: another role, or another issuer.
    """
    if signer.common_name != TCB_SIGNING_COMMON_NAME or not signer.is_end_entity():
        raise NotAuthenticError(
            "collateral is signed by a certificate of another role",
            expected=repr(TCB_SIGNING_COMMON_NAME),
            found=repr(signer.common_name[:64]),
            code="collateral.issuer",
        )
    if not signer.is_issued_by(root):
        raise NotAuthenticError(
            "the signer of the collateral is not issued by the root itself", code="collateral.issuer"
        )
