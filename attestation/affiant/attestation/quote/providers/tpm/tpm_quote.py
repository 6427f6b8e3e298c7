"""Reads a TPM 2.0 quote: which nonce and which PCRs an attestation key signed.

Source: TPM 2.0 Library, part 2: TPMS_ATTEST (10.12.12), TPMS_QUOTE_INFO (10.12.4), TPMT_SIGNATURE (11.3.4).
Big-endian, read to its exact end. One form: type quote, RSASSA with SHA-256, one selection of the SHA-256 bank.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from affiant.attestation.quote.providers.base.errors import (
    AzureEvidenceMalformed,
    AzurePCRsInvalid,
)
from affiant.attestation.quote.providers.tpm.tpm_fields import TPMFields
from affiant.errors import NotAuthenticError

__all__ = ["TPMQuote", "parse_tpm_quote"]

_MAGIC: Final = bytes.fromhex("ff544347")
_TYPE_QUOTE: Final = 0x8018
_SHA256: Final = 0x000B
_RSASSA: Final = 0x0014
_CLOCK_AND_FIRMWARE: Final = 17 + 8
MAX_TPM_QUOTE: Final = 1024


@dataclass(frozen=True, slots=True)
class TPMQuote:
    """A TPM quote as claimed."""

    message: bytes = field(repr=False)
    """Exactly what is signed."""
    signature: bytes = field(repr=False)
    """RSASSA, as long as the key."""
    nonce: bytes
    """extraData: what the caller had signed."""
    selected: tuple[int, ...]
    """PCR numbers, ascending."""
    pcr_digest: bytes
    """SHA-256 of the selected values, one after the other."""

    def verify(self, key: RSAPublicKey, pcrs: Mapping[int, bytes]) -> None:
        """``key`` signed this, and ``pcrs`` (32 bytes each) are exactly the values that it is about.

        Raises:
            ``azure.signature``: it did not sign it.
            AzurePCRsInvalid: other values, one too many or one too few.
        """
        try:
            key.verify(self.signature, self.message, PKCS1v15(), SHA256())
        except InvalidSignature as error:
            raise NotAuthenticError(
                "the vTPM's attestation key did not sign this TPM quote", code="azure.signature"
            ) from error
        if tuple(sorted(pcrs)) != self.selected or any(len(value) != 32 for value in pcrs.values()):
            raise AzurePCRsInvalid(
                "PCR values of another selection than the quote's",
                expected=", ".join(map(str, self.selected)),
                found=", ".join(map(str, sorted(pcrs))),
            )
        digest = hashlib.sha256(b"".join(pcrs[number] for number in self.selected)).digest()
        if not hmac.compare_digest(digest, self.pcr_digest):
            raise AzurePCRsInvalid("the PCR values are not those that were signed")


def parse_tpm_quote(message: bytes, signature: bytes) -> TPMQuote:
    """The TPM quote in ``message`` (TPMS_ATTEST) and ``signature`` (TPMT_SIGNATURE).

    Raises:
        AzureEvidenceMalformed: another form.
    """
    if max(len(message), len(signature)) > MAX_TPM_QUOTE:
        raise AzureEvidenceMalformed("the TPM quote is too large", expected=f"at most {MAX_TPM_QUOTE} bytes")
    attest = TPMFields(message, name="the TPM quote", refusal=AzureEvidenceMalformed)
    if attest.take(4) != _MAGIC or attest.number(2) != _TYPE_QUOTE:
        raise AzureEvidenceMalformed("not a quote that a TPM made", expected="magic ff544347, type 8018")
    attest.sized()  # the signer's qualified name: the signature says who it is
    nonce = attest.sized()
    attest.take(_CLOCK_AND_FIRMWARE)
    if attest.number(4) != 1 or attest.number(2) != _SHA256:
        raise AzureEvidenceMalformed("PCRs of another selection", expected="one selection, SHA-256 bank")
    bits = int.from_bytes(attest.take(attest.number(1)), "little")
    pcr_digest = attest.sized()
    attest.end()
    if len(pcr_digest) != 32 or not bits:
        raise AzureEvidenceMalformed("a TPM quote about no PCR, or with another digest")
    signed = TPMFields(signature, name="the TPM quote", refusal=AzureEvidenceMalformed)
    if signed.number(2) != _RSASSA or signed.number(2) != _SHA256:
        raise AzureEvidenceMalformed("another signature algorithm", expected="RSASSA with SHA-256")
    value = signed.sized()
    signed.end()
    selected = tuple(number for number in range(bits.bit_length()) if bits >> number & 1)
    return TPMQuote(message, value, nonce, selected, pcr_digest)
