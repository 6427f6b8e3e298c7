"""Reads Azure's HCL report: what the paravisor of a confidential VM says about its vTPM. Not yet run on TDX hardware.

Source: Microsoft Learn, "Confidential VM guest attestation design detail" (February 2025), and Microsoft's open guest
attestation code. Little-endian::

    0     32    header: "HCLA", version, size, request type, status, 3 x reserved
    32    1184  hardware report: for TDX a TDREPORT (1024 bytes) and zeros
    1216  20    data size, version, report type (4 = TDX), hash type (1 = SHA-256), runtime data size
    1236  n     runtime data: JSON with the vTPM's attestation key (``HCLAkPub``, RSA 2048) and ``user-data``,
                64 bytes in hexadecimal that the guest chose

The TDREPORT in it can be checked on its own CPU alone and is never believed. What vouches for the runtime data is
the TD quote: its REPORTDATA is SHA-256 of exactly these bytes, and 32 zero bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from affiant.attestation.encoding.binary_text import from_b64u, from_hex
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.quote.providers.base.errors import AzureEvidenceMalformed
from affiant.errors import AffiantError

__all__ = ["USER_DATA_SIZE", "HCLReport", "parse_hcl_report"]

MAX_HCL_REPORT: Final = 16 * 1024
USER_DATA_SIZE: Final = 64
_SIGNATURE: Final = b"HCLA"
_TD_REPORT: Final = slice(32, 32 + 1024)
_REQUEST_AT: Final = 32 + 1184
_RUNTIME_AT: Final = _REQUEST_AT + 20
_TDX: Final = 4
_SHA256: Final = 1
_KEY_ID: Final = "HCLAkPub"
_EXPONENT: Final = 65537
_MODULUS_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class HCLReport:
    """The runtime data and the key in it: a claim, until a TD quote vouches for the data."""

    runtime_data: bytes = field(repr=False)
    attestation_key: RSAPublicKey = field(repr=False)
    user_data: bytes | None
    """64 bytes that the guest had put in before the report was made; None where the runtime data has none."""
    td_report: bytes = field(repr=False)
    """1024 bytes, for the platform's quoting service and nobody else; never believed here."""

    @property
    def report_data(self) -> bytes:
        """What REPORTDATA of a TD quote must be: all 64 bytes."""
        return hashlib.sha256(self.runtime_data).digest() + bytes(32)


def parse_hcl_report(data: bytes) -> HCLReport:
    """The HCL report in ``data``, as it lies in the vTPM's NV index; zeros may follow.

    Raises:
        AzureEvidenceMalformed: another form, another TEE, or no attestation key of the one kind.
    """
    if not _RUNTIME_AT < len(data) <= MAX_HCL_REPORT or not data.startswith(_SIGNATURE):
        raise AzureEvidenceMalformed(
            "not an HCL report", expected=f"{_RUNTIME_AT} to {MAX_HCL_REPORT} bytes that begin with HCLA"
        )
    _, _, report_type, hash_type, size = struct.unpack_from("<5I", data, _REQUEST_AT)
    if report_type != _TDX or hash_type != _SHA256:
        raise AzureEvidenceMalformed(
            "an HCL report of another TEE or hash",
            expected=f"report type {_TDX} (TDX), hash type {_SHA256} (SHA-256)",
            found=f"{report_type}, {hash_type}",
        )
    end = _RUNTIME_AT + size
    if not size or end > len(data) or any(data[end:]):
        raise AzureEvidenceMalformed("the runtime data of the HCL report does not fit")
    runtime = data[_RUNTIME_AT:end]
    try:
        claims = parse_object(runtime, limit=MAX_HCL_REPORT, strict_form=False)
    except AffiantError as error:
        raise AzureEvidenceMalformed(f"the runtime data cannot be read: {error}") from error
    return HCLReport(runtime, _attestation_key(claims), _user_data(claims), data[_TD_REPORT])


def _user_data(claims: Mapping[str, object]) -> bytes | None:
    text = claims.get("user-data")
    if text is None:
        return None
    if not isinstance(text, str):
        raise AzureEvidenceMalformed("the user data of the runtime data is no text")
    try:
        return from_hex(text.lower(), size=USER_DATA_SIZE)
    except AffiantError as error:
        raise AzureEvidenceMalformed(f"the user data of the runtime data cannot be read: {error}") from error


def _attestation_key(claims: Mapping[str, object]) -> RSAPublicKey:
    """The one key named HCLAkPub."""
    try:
        keys = claims.get("keys")
        found = [
            key
            for key in (keys if isinstance(keys, list) else ())
            if isinstance(key, dict) and key.get("kid") == _KEY_ID
        ]
        if len(found) != 1 or found[0].get("kty") != "RSA":
            raise AzureEvidenceMalformed(
                "the runtime data names no one attestation key", expected=_KEY_ID, found=len(found)
            )
        modulus = int.from_bytes(from_b64u(str(found[0].get("n"))), "big")
        exponent = int.from_bytes(from_b64u(str(found[0].get("e"))), "big")
        if exponent != _EXPONENT or modulus.bit_length() != _MODULUS_BITS:
            raise AzureEvidenceMalformed(
                "an attestation key of another kind", expected=f"RSA {_MODULUS_BITS}, exponent {_EXPONENT}"
            )
        return RSAPublicNumbers(exponent, modulus).public_key()
    except AzureEvidenceMalformed:
        raise
    except (AffiantError, ValueError) as error:
        raise AzureEvidenceMalformed(f"the runtime data cannot be read: {error}") from error
