"""Judges evidence of the profile ``azure-vtpm``: the platform, and what its vTPM says of the guest.

Two verdicts that are never one. The TD quote speaks of hardware and of Microsoft's paravisor, and is judged as any
other; the vTPM's quote speaks of the guest's boot and signs the reader's nonce. Both must hold. What holds is a warning
at best (10): whoever believes it believes the paravisor as well, and a verdict without that condition would be of plain
TDX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.quote.judge.verdict import Question, QuoteVerdict, RememberedCollateral, judge_quote
from affiant.attestation.quote.providers.clouds.azure_document import parse_azure_evidence
from affiant.attestation.quote.providers.clouds.azure_vtpm import (
    PROFILE,
    VerifiedAzureVTPM,
    appraise_azure_vtpm,
    verify_azure_vtpm,
)
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.verdict import EXIT_CODES, EXIT_SIMULATED, Tier
from affiant.errors import AffiantError, ConfigurationError

__all__ = ["AzureQuestion", "AzureVerdict", "judge_azure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureQuestion:
    """What the reader asks.

    Args:
        platform: what is asked of the TD quote; REPORTDATA is the paravisor's and takes no part.
        nonce: 32 bytes that the reader made for this evidence.
        pcrs: number -> the values that are accepted; empty: the guest's boot is not appraised.
        user_data: 64 bytes that the guest must have given the paravisor; None: not asked.
    """

    platform: Question
    nonce: bytes
    pcrs: Mapping[int, frozenset[bytes]]
    user_data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureVerdict:
    """The answer. Only :func:`judge_azure` makes one."""

    document: str
    """``sha256:`` name of the evidence."""
    platform: QuoteVerdict | None
    """None if the document could not be read."""
    guest: VerifiedAzureVTPM | None
    pcrs_appraised: bool
    user_data_asked: bool
    refusal: AffiantError | None

    @property
    def tier(self) -> Tier:
        """The worse of both; a warning at best."""
        if self.refusal is not None or self.platform is None or self.platform.tier is Tier.CONTRAINDICATED:
            return Tier.CONTRAINDICATED
        appraised = self.pcrs_appraised and self.platform.tier is not Tier.NONE
        return Tier.WARNING if appraised else Tier.NONE

    @property
    def exit_code(self) -> int:
        """20, 40 where the platform is simulated, 10, or 30 where the platform or the guest was not appraised."""
        if self.tier is not Tier.CONTRAINDICATED and self.platform is not None and self.platform.simulated:
            return EXIT_SIMULATED
        return EXIT_CODES[self.tier]

    def to_json(self) -> Mapping[str, object]:
        """The document ``affiant-azure-verdict/1``."""
        guest = self.guest
        return {
            "typ": "affiant-azure-verdict/1",
            "profile": PROFILE,
            "evidence": self.document,
            "tier": str(self.tier),
            "exit_code": self.exit_code,
            "simulated": self.platform is not None and self.platform.simulated,
            "refused": None if self.refusal is None else self.refusal.to_json(),
            "guest": None
            if guest is None
            else {
                "nonce": "held",
                "pcrs": {str(number): value.hex() for number, value in sorted(guest.pcrs.items())},
                "pcrs_appraised": self.pcrs_appraised,
                "user_data": None if guest.user_data is None else guest.user_data.hex(),
                "user_data_asked": self.user_data_asked,
            },
            "platform": None if self.platform is None else self.platform.to_json(),
        }


def judge_azure(
    content: bytes,
    collateral: Callable[[TDQuote], Collateral | RememberedCollateral],
    question: AzureQuestion,
    *,
    build: str,
) -> AzureVerdict:
    """Answer ``question`` about the evidence in ``content``, an ``affiant-azure-vtpm/1`` document.

    Raises:
        ConfigurationError: what the reader gave does not fit together; no verdict.
    """
    platform: QuoteVerdict | None = None
    guest: VerifiedAzureVTPM | None = None
    refusal: AffiantError | None = None
    try:
        taken = parse_azure_evidence(content)
        platform = judge_quote(taken.td_quote, collateral, question.platform, build=build)
        if platform.verified is not None:
            guest = verify_azure_vtpm(taken.evidence, platform.verified, nonce=question.nonce)
            _appraise(guest, question)
    except ConfigurationError:
        raise
    except AffiantError as error:
        refusal = error
    return AzureVerdict(
        document=sha256_name(content),
        platform=platform,
        guest=guest,
        pcrs_appraised=bool(question.pcrs),
        user_data_asked=question.user_data is not None,
        refusal=refusal,
    )


def _appraise(guest: VerifiedAzureVTPM, question: AzureQuestion) -> None:
    if question.pcrs:
        appraise_azure_vtpm(guest, question.pcrs)
    if question.user_data is not None:
        guest.require_user_data(question.user_data)
