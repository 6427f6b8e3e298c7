"""Collects evidence of an Azure confidential VM on TDX: the profile ``azure-vtpm``, which is not plain TDX.

In order:

1. if the guest wants 64 bytes of its own in the TD quote: they go to NV index 0x01400002, and the paravisor puts them
   into the next HCL report's runtime data; until that has them, an older report is read, and is not taken;
2. the HCL report (NV index 0x01400001) has a TDREPORT over the digest of its runtime data, and the vTPM's key in that
   data is the one at handle 0x81000003;
3. that key signs the nonce and the PCRs (TPM2_Quote), and the PCRs that are read are those that it signed;
4. the metadata service turns the TDREPORT into a TD quote, which must be over the same report data.

What comes out is unverified: ``verify_azure_vtpm`` is the reader's, with the reader's own nonce.

Source: Microsoft Learn, "Confidential VM guest attestation design detail" (indices, handle, user data), and Microsoft's
open guest attestation code (a report with new user data needs seconds). Not yet run on Azure; the vTPM's commands are
tested against a software TPM, the rest against fakes.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from affiant.attestation.quote.providers.base.checked_quote import check_quote
from affiant.attestation.quote.providers.base.errors import (
    AzurePCRsInvalid,
    ProviderAbsent,
    ProviderBusy,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.clouds.azure_hcl import USER_DATA_SIZE, HCLReport, parse_hcl_report
from affiant.attestation.quote.providers.clouds.azure_imds import AzureIMDS
from affiant.attestation.quote.providers.clouds.azure_vtpm import AzureVTPMEvidence, CollectedAzureEvidence
from affiant.attestation.quote.providers.kernel.local_td_report import parse_local_td_report
from affiant.attestation.quote.providers.tpm.tpm import TPM
from affiant.attestation.quote.providers.tpm.tpm_quote import parse_tpm_quote

__all__ = [
    "ALL_PCRS",
    "ATTESTATION_KEY",
    "HCL_REPORT_INDEX",
    "USER_DATA_INDEX",
    "AzureGuest",
    "CollectedAzureEvidence",
]

HCL_REPORT_INDEX: Final = 0x01400001
USER_DATA_INDEX: Final = 0x01400002
ATTESTATION_KEY: Final = 0x81000003
ALL_PCRS: Final = tuple(range(24))
NONCE_SIZE: Final = 32
_ATTEMPTS: Final = 3
_RENEWALS: Final = 20
_RENEWAL_S: Final = 0.5
"""Ten seconds in all; Microsoft's own code waits three."""


class AzureGuest:
    """The confidential VM that this program runs in.

    Args:
        tpm: its vTPM. imds: its metadata service.
        sleep: waits so many seconds, while the paravisor makes a report.
    """

    def __init__(self, tpm: TPM, imds: AzureIMDS, *, sleep: Callable[[float], None]) -> None:
        self._tpm = tpm
        self._imds = imds
        self._sleep = sleep

    def collect(
        self, nonce: bytes, *, pcrs: Iterable[int] = ALL_PCRS, user_data: bytes | None = None
    ) -> CollectedAzureEvidence:
        """A TD quote and the vTPM evidence that belongs to it.

        Args:
            nonce: 32 bytes, which the verifier made, or which hash what it made and what the guest wants bound.
            pcrs: which PCRs, 0 to 23.
            user_data: 64 bytes for the runtime data, which the TD quote then vouches for.

        Raises:
            SettingsInvalid: a nonce, a PCR or user data of another size or number.
            ProviderAbsent, ProviderDenied, ProviderBusy, TPMRefused: a part cannot be had.
            ResponseRefused, AzureEvidenceMalformed: the parts do not belong together, or are of another form.
        """
        if len(nonce) != NONCE_SIZE:
            raise SettingsInvalid(
                "a nonce of another size", expected=f"{NONCE_SIZE} bytes", found=f"{len(nonce)} bytes"
            )
        content = self._tpm.nv_read(HCL_REPORT_INDEX) if user_data is None else self._report_with(user_data)
        report = parse_hcl_report(content)
        parse_local_td_report(report.td_report, report.report_data)
        self._demand_key(report)
        evidence = self._tpm_evidence(content, report, nonce, tuple(pcrs))
        quote = self._imds.td_quote(report.td_report)
        checked = check_quote(quote, report.report_data, source="Azure's metadata service")
        return CollectedAzureEvidence(checked, evidence)

    def _report_with(self, user_data: bytes) -> bytes:
        """1: the first HCL report that has it."""
        if len(user_data) != USER_DATA_SIZE:
            raise SettingsInvalid(
                "user data of another size",
                expected=f"{USER_DATA_SIZE} bytes",
                found=f"{len(user_data)} bytes",
            )
        try:
            self._tpm.nv_size(USER_DATA_INDEX)
        except ProviderAbsent:
            self._tpm.nv_define(USER_DATA_INDEX, USER_DATA_SIZE)
        self._tpm.nv_write(USER_DATA_INDEX, user_data)
        for _ in range(_RENEWALS):
            content = self._tpm.nv_read(HCL_REPORT_INDEX)
            if parse_hcl_report(content).user_data == user_data:
                return content
            self._sleep(_RENEWAL_S)
        raise ProviderBusy(
            "the paravisor made no report with the user data",
            expected=f"one within {_RENEWALS * _RENEWAL_S:g} s",
            hint="An older Azure host may not know user data; take the evidence without it.",
        )

    def _demand_key(self, report: HCLReport) -> None:
        """2: or the TPM quote would be signed by a key that nothing vouches for."""
        found = self._tpm.read_public(ATTESTATION_KEY).public_numbers()
        if found != report.attestation_key.public_numbers():
            raise ResponseRefused(
                "the vTPM's attestation key is not the one in the HCL report",
                where=f"0x{ATTESTATION_KEY:08x}",
            )

    def _tpm_evidence(
        self, content: bytes, report: HCLReport, nonce: bytes, pcrs: tuple[int, ...]
    ) -> AzureVTPMEvidence:
        """3: again, where a PCR was extended between the quote and the reading."""
        for _ in range(_ATTEMPTS):
            signed = self._tpm.quote(ATTESTATION_KEY, nonce, pcrs)
            values = self._tpm.pcr_read(pcrs)
            quote = parse_tpm_quote(signed.message, signed.signature)
            if not hmac.compare_digest(quote.nonce, nonce):
                raise ResponseRefused("the vTPM signed another nonce")
            with suppress(AzurePCRsInvalid):
                quote.verify(report.attestation_key, values)
                return AzureVTPMEvidence(content, signed.message, signed.signature, values)
        raise ProviderBusy("the vTPM's PCRs do not stand still", found=f"{_ATTEMPTS} times")
