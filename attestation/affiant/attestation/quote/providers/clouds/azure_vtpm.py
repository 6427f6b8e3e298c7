"""Verifies the evidence profile ``azure-vtpm``: a TD whose paravisor, not its guest, chose REPORTDATA.

On Azure a guest cannot choose what a TD quote is over. The quote vouches for the paravisor and, by REPORTDATA, for
the key of a vTPM that the paravisor runs; the vTPM vouches for the guest's boot (PCRs) and for the nonce. So whoever
believes this believes Microsoft's paravisor as well, RTMRs and MRTD say nothing about the guest, and a guest's own
keys must be bound by the nonce. A verdict over it is therefore another type with another name, and no function that
appraises plain TDX takes it.

In order:

1. the TD quote is verified already: the type says so;
2. its REPORTDATA is the digest of the HCL report's runtime data, and 32 zero bytes;
3. the runtime data names the vTPM's attestation key;
4. that key signed the TPM quote;
5. the PCR values are exactly those that the TPM quote is about;
6. the TPM quote is over the verifier's own nonce, all of it.

Written from Microsoft's published sources; not yet run on TDX hardware, and not on Azure. The parts are read from such
a machine by ``azure_guest``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.quote.providers.base.errors import (
    SettingsInvalid,
)
from affiant.attestation.quote.providers.clouds.azure_hcl import parse_hcl_report
from affiant.attestation.quote.providers.tpm.tpm_quote import parse_tpm_quote
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import NotAllowedError, NotAuthenticError, NotFreshError

__all__ = [
    "PROFILE",
    "AzureVTPMEvidence",
    "CollectedAzureEvidence",
    "VerifiedAzureVTPM",
    "appraise_azure_vtpm",
    "verify_azure_vtpm",
]

PROFILE: Final = "azure-vtpm"
_MIN_NONCE: Final = 16
_MAX_NONCE: Final = 64


@dataclass(frozen=True, slots=True)
class AzureVTPMEvidence:
    """What such a machine sends beside its TD quote. Nothing of it is verified.

    Args:
        hcl_report: as it lies in the vTPM.
        tpm_quote: TPMS_ATTEST. tpm_signature: TPMT_SIGNATURE.
        pcrs: number -> 32 bytes, SHA-256 bank.
    """

    hcl_report: bytes = field(repr=False)
    tpm_quote: bytes = field(repr=False)
    tpm_signature: bytes = field(repr=False)
    pcrs: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CollectedAzureEvidence:
    """What such a machine sends to a verifier. Nothing of it is verified."""

    td_quote: bytes = field(repr=False)
    evidence: AzureVTPMEvidence = field(repr=False)


@dataclass(frozen=True, slots=True)
class VerifiedAzureVTPM:
    """Evidence of the profile ``azure-vtpm`` that holds. Made by :func:`verify_azure_vtpm`."""

    platform: VerifiedQuote
    """The TD quote, which speaks of hardware and paravisor, and not of the guest."""
    pcrs: Mapping[int, bytes]
    """What the guest booted, as the paravisor's vTPM saw it."""
    nonce: bytes
    user_data: bytes | None
    """64 bytes that the guest chose once, some time before; the TD quote vouches for them, and not for when."""
    profile: str = PROFILE

    def require_user_data(self, expected: bytes) -> None:
        """Return if the guest gave the paravisor exactly these 64 bytes.

        Raises:
            ``azure.appraisal``: it gave none, or others.
        """
        if self.user_data is None or not hmac.compare_digest(self.user_data, expected):
            raise NotAllowedError(
                "the guest's user data are others",
                expected=expected.hex(),
                found="none" if self.user_data is None else self.user_data.hex(),
                code="azure.appraisal",
            )


def verify_azure_vtpm(
    evidence: AzureVTPMEvidence, platform: VerifiedQuote, *, nonce: bytes
) -> VerifiedAzureVTPM:
    """Verify ``evidence`` against the TD quote that came with it and the verifier's own ``nonce``.

    Args:
        nonce: 16 to 64 bytes, made by the verifier, used once. What the guest wants bound is hashed into it.

    Raises:
        SettingsInvalid: a nonce of another size.
        AzureEvidenceMalformed: a part has another form.
        ``azure.binding``: step 2. ``azure.signature``: step 4. AzurePCRsInvalid: step 5.
        ``azure.nonce``: step 6.
    """
    if not _MIN_NONCE <= len(nonce) <= _MAX_NONCE:
        raise SettingsInvalid("a nonce of another size", expected=f"{_MIN_NONCE} to {_MAX_NONCE} bytes")
    report = parse_hcl_report(evidence.hcl_report)
    # 2: all 64 bytes; a tail that is not zero would be somebody else's format.
    if not hmac.compare_digest(report.report_data, platform.quote.body.report_data):
        raise NotAuthenticError(
            "the TD quote does not vouch for this HCL report",
            expected=report.report_data.hex(),
            found=platform.quote.body.report_data.hex(),
            code="azure.binding",
        )
    # 3 to 5.
    quote = parse_tpm_quote(evidence.tpm_quote, evidence.tpm_signature)
    quote.verify(report.attestation_key, evidence.pcrs)
    # 6.
    if not hmac.compare_digest(quote.nonce, nonce):
        raise NotFreshError("the TPM quote is over another nonce", code="azure.nonce")
    return VerifiedAzureVTPM(
        platform=platform, pcrs=dict(evidence.pcrs), nonce=nonce, user_data=report.user_data
    )


def appraise_azure_vtpm(verified: VerifiedAzureVTPM, pinned: Mapping[int, frozenset[bytes]]) -> None:
    """Hold the PCRs against what is accepted; every pinned one must have been quoted.

    Raises:
        ``azure.appraisal``: nothing is pinned, or a PCR is not as pinned.
    """
    if not pinned or not all(pinned.values()):
        raise NotAllowedError("nothing is pinned, which would accept anything", code="azure.appraisal")
    for number, accepted in sorted(pinned.items()):
        value = verified.pcrs.get(number)
        if value is None or value not in accepted:
            raise NotAllowedError(
                f"PCR {number} is not as pinned",
                expected=" or ".join(sorted(each.hex() for each in accepted)),
                found="not quoted" if value is None else value.hex(),
                code="azure.appraisal",
            )
