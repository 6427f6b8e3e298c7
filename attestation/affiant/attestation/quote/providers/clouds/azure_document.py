"""Reads and writes Azure's vTPM evidence as one document, ``affiant-azure-vtpm/1``. Nothing is verified.

RFC 8785, closed: ``typ``, then ``td_quote``, ``hcl_report``, ``tpm_quote`` (TPMS_ATTEST) and ``tpm_signature``
(TPMT_SIGNATURE) in base64url, and ``pcrs``: number -> 32 bytes in hexadecimal, SHA-256 bank.
"""

from __future__ import annotations

import re
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u, from_hex
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.quote.providers.base.errors import AzureEvidenceMalformed
from affiant.attestation.quote.providers.clouds.azure_vtpm import AzureVTPMEvidence, CollectedAzureEvidence
from affiant.errors import AffiantError

__all__ = ["AZURE_EVIDENCE_TYPE", "MAX_AZURE_EVIDENCE", "encode_azure_evidence", "parse_azure_evidence"]

AZURE_EVIDENCE_TYPE: Final = "affiant-azure-vtpm/1"
MAX_AZURE_EVIDENCE: Final = 128 * 1024
_PARTS: Final = ("td_quote", "hcl_report", "tpm_quote", "tpm_signature")
_PCR: Final = re.compile(r"(?:[0-9]|1[0-9]|2[0-3])\Z")


def encode_azure_evidence(taken: CollectedAzureEvidence) -> bytes:
    """The document."""
    evidence = taken.evidence
    return canonical(
        {
            "typ": AZURE_EVIDENCE_TYPE,
            "td_quote": b64u(taken.td_quote),
            "hcl_report": b64u(evidence.hcl_report),
            "tpm_quote": b64u(evidence.tpm_quote),
            "tpm_signature": b64u(evidence.tpm_signature),
            "pcrs": {str(number): value.hex() for number, value in evidence.pcrs.items()},
        }
    )


def parse_azure_evidence(data: bytes) -> CollectedAzureEvidence:
    """The evidence in ``data``. What its parts are, their own parsers say.

    Raises:
        AzureEvidenceMalformed: not this form.
    """
    try:
        members = parse_object(data, limit=MAX_AZURE_EVIDENCE)
        pcrs = members.get("pcrs")
        if (
            members.keys() != {"typ", "pcrs", *_PARTS}
            or members["typ"] != AZURE_EVIDENCE_TYPE
            or not isinstance(pcrs, dict)
            or not all(_PCR.match(number) for number in pcrs)
        ):
            raise AzureEvidenceMalformed("not Azure's vTPM evidence", expected=AZURE_EVIDENCE_TYPE)
        quote, hcl_report, tpm_quote, signature = (from_b64u(str(members[name])) for name in _PARTS)
        values = {int(number): from_hex(str(value), size=32) for number, value in pcrs.items()}
    except AzureEvidenceMalformed:
        raise
    except AffiantError as error:
        raise AzureEvidenceMalformed(f"Azure's vTPM evidence cannot be read: {error}") from error
    return CollectedAzureEvidence(quote, AzureVTPMEvidence(hcl_report, tpm_quote, signature, values))
