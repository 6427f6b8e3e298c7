"""The verifiers of statements that others signed: quotes, approvals, signatures over profiles, timestamps.

The checks of a bundle decide what such a statement must be about, whose it must be and when it counts. Whether the
statement itself is authentic is decided by the verifier of its format, which the caller of the verification passes.
All of them are required, so that no check can be left out; ``standard_verifiers`` has those of this release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.signatures.approvers.named_approvers import NamedApprovers
    from affiant.attestation.signatures.approvers.statement import Statement
    from affiant.attestation.signatures.profiles.accepted_signers import AcceptedSigner
    from affiant.attestation.statements.manifest import Manifest
    from affiant.attestation.tdx.appraise.appraisal import Appraisal
    from affiant.attestation.tdx.appraise.reference import ImageRole, ReferenceValues
    from affiant.attestation.tdx.quote.quote import TDQuote
    from affiant.attestation.tdx.tcb.collateral import Collateral
    from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
    from affiant.attestation.tdx.tcb.rollback import CollateralMark
    from affiant.attestation.tdx.verify.verify import VerifiedQuote
    from affiant.attestation.verdict.accepted_values import TrustFile

__all__ = [
    "AnchorVerifier",
    "ApprovalVerifier",
    "NobodySigned",
    "NotNamed",
    "ProfileVerifier",
    "QuoteVerifier",
    "StatementVerifiers",
    "Word",
]


class NobodySigned(Exception):
    """No signature over a profile is by an accepted signer; the text says why the last one is not."""


class NotNamed(Exception):
    """An anchor is by nobody whom the trust file names; ``error`` says so, with its code."""

    def __init__(self, error: AffiantError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Word:
    """Seconds since 1970 by which a text existed, and who says so."""

    not_after: int
    who: str


class QuoteVerifier(Protocol):
    """Quotes of Intel TDX: verified under root keys, with collateral, and appraised against reference values."""

    def parse(self, quote: bytes) -> TDQuote:
        """The quote's parts. Nothing is verified."""
        ...

    def parse_collateral(self, data: bytes) -> Collateral:
        """Archived collateral. Nothing is verified."""
        ...

    def verify_collateral(
        self, collateral: Collateral, *, now: datetime, roots: Iterable[str]
    ) -> VerifiedCollateral:
        """``collateral``, verified at ``now`` under the root keys that a trust file names."""
        ...

    def mark_of(self, collateral: VerifiedCollateral) -> CollateralMark:
        """How new ``collateral`` is."""
        ...

    def verify(
        self,
        quote: TDQuote,
        collateral: VerifiedCollateral,
        *,
        now: datetime,
        seen: CollateralMark | None,
    ) -> VerifiedQuote:
        """``quote``, verified at ``now``; ``collateral`` may not be older than ``seen``."""
        ...

    def appraise(
        self,
        verified: VerifiedQuote,
        reference: ReferenceValues,
        *,
        image: ImageRole,
        mrconfigid: bytes,
        report_data: bytes,
        log: bytes,
        boot: Iterable[tuple[str, Mapping[str, object]]],
        later: Iterable[tuple[str, Mapping[str, object]]],
    ) -> Appraisal:
        """What runs in the TD, held against ``reference``.

        Args:
            mrconfigid: 48 bytes. report_data: 64 bytes. Both as the bundle's documents demand them.
            log: the event log, as archived.
            boot, later: name and payload of RTMR3's events up to the barrier, and after it.
        """
        ...


class ApprovalVerifier(Protocol):
    """Statements of approvers: by a key, or by an identity under a trusted root."""

    def approvers_of(self, normal_form: bytes) -> NamedApprovers:
        """Who may approve by the normal form of a profile."""
        ...

    def read(self, text: str, approvers: NamedApprovers) -> Statement:
        """The statement in ``text``, whose signature holds; whether its signer may approve is not judged.

        Raises:
            NotMade: the statement is by an identity, and cannot be verified here.
        """
        ...


class ProfileVerifier(Protocol):
    """Signatures over profiles: by plain keys, or through sigstore."""

    def require_signed(
        self,
        objects: Iterable[bytes],
        manifest: Manifest,
        signers: Sequence[AcceptedSigner],
        *,
        at: datetime,
    ) -> None:
        """Return if one of ``objects`` is a signature over the manifest's profile by one of ``signers``.

        Raises:
            NobodySigned: there is none. NotMade: one that might be cannot be judged here.
        """
        ...


class AnchorVerifier(Protocol):
    """Timestamps over checkpoints: tokens of RFC 3161, and signatures that sigstore recorded."""

    def stamped(self, tokens: Sequence[bytes], text: str, *, trust: TrustFile, at: datetime) -> Word:
        """By when the checkpoint ``text`` existed, by its tokens.

        Raises:
            NotNamed: by an authority that ``trust`` does not name. NotMade: what verifies it is not installed.
        """
        ...

    def published(self, bundle: bytes, text: str, *, trust: TrustFile, at: datetime) -> Word:
        """The same, by the first signer whom ``trust`` names and who had signed it.

        Raises:
            NotNamed: by nobody of them. NotMade: what verifies it is not installed.
        """
        ...


@dataclass(frozen=True, slots=True)
class StatementVerifiers:
    """One verifier for each format; picklable, since the sessions of a period are judged in several processes."""

    quotes: QuoteVerifier
    approvals: ApprovalVerifier
    profiles: ProfileVerifier
    anchors: AnchorVerifier
