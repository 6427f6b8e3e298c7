"""One evidence of a signer, and what its quote was found to be worth.

A gateway has one for as long as it runs. A session has one when it is admitted, of epoch 0, and one more for each
narrowing of its profile: the same keys in the same TD, quoted again with one event more behind the barrier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from affiant.attestation.statements.evidence import Evidence
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.tdx.appraise.appraisal import Appraisal
    from affiant.attestation.tdx.tcb.rollback import CollateralMark
    from affiant.attestation.tdx.verify.verify import VerifiedQuote

__all__ = ["Quoted"]


@dataclass(slots=True)
class Quoted:
    """What one ``evd`` names."""

    evd: str
    """43 characters: SHA-256 of the evidence."""
    evidence: Evidence
    epoch: int = 0
    """How many narrowings the evidence has to show."""
    recorded: bool = True
    """Whether the signer's own records name it; not so where a supervisor did not come to record its last narrowing."""
    collateral: bytes | None = None
    """The endorsements collection that it was appraised with."""
    mark: CollateralMark | None = None
    """How new the collateral is that the quote was judged with."""
    verified: VerifiedQuote | None = None
    """The quote, also where what runs in the TD was then not accepted."""
    appraisal: Appraisal | None = None
    refusal: AffiantError | None = None
    """Why there is no appraisal, once one was asked for."""
