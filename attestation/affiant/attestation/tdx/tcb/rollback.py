"""Rejects older collateral that is still valid but hides what was published since (point 22).

Collateral lives for 30 days, so that for a month an old TCB Info can stand in for one that lowers a platform's
status. Whoever verifies more than once keeps the newest mark that it has seen for each FMSPC, in its own memory,
and hands it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.tdx.quote.errors import CollateralRollback
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral

__all__ = ["CollateralMark", "mark_of"]


@dataclass(frozen=True, slots=True)
class CollateralMark:
    """How new a collateral is."""

    fmspc: bytes
    evaluation_number: int
    tcb_info_issued: datetime
    qe_identity_issued: datetime

    def refuse_step_back(self, seen: CollateralMark) -> None:
        """Refuse unless this mark is at least as new as ``seen`` in every part. Marks of different platforms
        are not comparable, and do not refuse each other.

        Raises:
            CollateralRollback: an older evaluation number or issue date.
        """
        if self.fmspc != seen.fmspc:
            return
        if self.evaluation_number < seen.evaluation_number:
            raise CollateralRollback(
                "collateral of an older TCB evaluation than was seen before",
                expected=f"at least {seen.evaluation_number}",
                found=self.evaluation_number,
            )
        if self.tcb_info_issued < seen.tcb_info_issued or self.qe_identity_issued < seen.qe_identity_issued:
            raise CollateralRollback(
                "collateral that was issued before the newest one seen",
                expected=f"from {max(seen.tcb_info_issued, seen.qe_identity_issued):%Y-%m-%dT%H:%M:%SZ} on",
                found=f"{min(self.tcb_info_issued, self.qe_identity_issued):%Y-%m-%dT%H:%M:%SZ}",
            )

    def advanced_by(self, other: CollateralMark) -> CollateralMark:
        """The newer of both in every part: what to keep after ``other`` was accepted."""
        return CollateralMark(
            fmspc=self.fmspc,
            evaluation_number=max(self.evaluation_number, other.evaluation_number),
            tcb_info_issued=max(self.tcb_info_issued, other.tcb_info_issued),
            qe_identity_issued=max(self.qe_identity_issued, other.qe_identity_issued),
        )


def mark_of(collateral: VerifiedCollateral) -> CollateralMark:
    """How new ``collateral`` is."""
    return CollateralMark(
        fmspc=collateral.tcb_info.fmspc,
        evaluation_number=collateral.evaluation_number,
        tcb_info_issued=collateral.tcb_info.issue_date,
        qe_identity_issued=collateral.qe_identity.issue_date,
    )
