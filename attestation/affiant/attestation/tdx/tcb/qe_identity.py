"""Reads QE Identity v2 for the TD quoting enclave: which enclave may sign TDX quotes (points 20, 25, 26).

Source: Intel PCS API v4, "Get TD QE Identity". Skipping this document lets any enclave that a PCK key has
signed for act as the quoting enclave (CVE-2026-22696).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from affiant.attestation.tdx.pki.signed_json import SignedJSON, cut_signed_json
from affiant.attestation.tdx.pki.times import Window
from affiant.attestation.tdx.quote.errors import CollateralExpired, CollateralNotYetValid, QEIdentityMalformed
from affiant.attestation.tdx.quote.quote import QEReport
from affiant.attestation.tdx.tcb.tcb_info import ModuleLevel, match_isv_level, parse_isv_levels
from affiant.errors import NotAuthenticError

__all__ = ["QEIdentity", "parse_qe_identity"]

_DEBUG: Final = 0x02
"""SGX ATTRIBUTES, byte 0, bit 1 (Intel SDM, volume 3D, ATTRIBUTES)."""


@dataclass(frozen=True, slots=True)
class QEIdentity:
    """QE Identity as read; authentic only inside of verified collateral."""

    signed: SignedJSON = field(repr=False)
    evaluation_number: int
    issue_date: datetime
    next_update: datetime
    misc_select: bytes
    misc_select_mask: bytes
    attributes: bytes
    attributes_mask: bytes
    mrsigner: bytes
    isv_prod_id: int
    levels: tuple[ModuleLevel, ...]
    """Highest SVN first."""

    @property
    def window(self) -> Window:
        """From issueDate to nextUpdate."""
        return Window(
            "QE Identity", self.issue_date, self.next_update, CollateralNotYetValid, CollateralExpired
        )

    def verify(self, report: QEReport) -> None:
        """25: ``report`` is of the enclave that this document describes, and not of a debug enclave.

        Raises:
            ``qe.identity``: it is not.
        """
        if _masked(report.misc_select, self.misc_select_mask) != self.misc_select:
            raise _mismatch("MISCSELECT", self.misc_select, report.misc_select)
        if _masked(report.attributes, self.attributes_mask) != self.attributes:
            raise _mismatch("ATTRIBUTES", self.attributes, report.attributes)
        if report.mrsigner != self.mrsigner:
            raise _mismatch("MRSIGNER", self.mrsigner, report.mrsigner)
        if report.isv_prod_id != self.isv_prod_id:
            raise NotAuthenticError(
                "the quoting enclave has another ISVPRODID",
                expected=self.isv_prod_id,
                found=report.isv_prod_id,
                code="qe.identity",
            )
        # Whatever the mask leaves out (Intel's own omits this bit): a debug enclave's key is not secret.
        if report.attributes[0] & _DEBUG:
            raise NotAuthenticError("the quoting enclave is in debug mode", code="qe.identity")

    def match_level(self, report: QEReport) -> ModuleLevel:
        """26: the highest level with an SVN up to the report's.

        Raises:
            TCBUnsupported: below every level.
        """
        return match_isv_level(self.levels, report.isv_svn, "the quoting enclave")


def _masked(value: bytes, mask: bytes) -> bytes:
    return bytes(a & b for a, b in zip(value, mask, strict=True))


def _mismatch(name: str, expected: bytes, found: bytes) -> NotAuthenticError:
    return NotAuthenticError(
        f"the quoting enclave has another {name}",
        expected=expected.hex(),
        found=found.hex(),
        code="qe.identity",
    )


def parse_qe_identity(body: bytes) -> QEIdentity:
    """The QE Identity in a PCS response body.

    Raises:
        QEIdentityMalformed: it is not a QE Identity v2 in which every member has its form.
        ``qe.identity``: the identity of another enclave (the SGX QE, for example).
    """
    signed = cut_signed_json(body, member="enclaveIdentity", refusal=QEIdentityMalformed)
    members = signed.members
    # 20: id TD_QE, version 2.
    if (identifier := members.text("id")) != "TD_QE":
        raise NotAuthenticError(
            "identity of another enclave", expected="id TD_QE", found=identifier[:16], code="qe.identity"
        )
    if members.integer("version", maximum=255) != 2:
        raise QEIdentityMalformed("QE Identity of another version", expected="version 2")
    return QEIdentity(
        signed=signed,
        evaluation_number=members.integer("tcbEvaluationDataNumber", maximum=0xFFFFFFFF),
        issue_date=members.instant("issueDate"),
        next_update=members.instant("nextUpdate"),
        misc_select=members.hexadecimal("miscselect", size=4),
        misc_select_mask=members.hexadecimal("miscselectMask", size=4),
        attributes=members.hexadecimal("attributes", size=16),
        attributes_mask=members.hexadecimal("attributesMask", size=16),
        mrsigner=members.hexadecimal("mrsigner", size=32),
        isv_prod_id=members.integer("isvprodid", maximum=0xFFFF),
        levels=parse_isv_levels(members, maximum_svn=0xFFFF),
    )
