"""Quotes v4 and v5 with ECDSA-P256, byte for byte as the quoting enclave lays them out.

Source: Intel TDX DCAP Quoting Library API, quote format v4 (section A.3) and v5 (A.4). The signature covers
header and body, in v5 with the body's type and size.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.simulated.identity import INTEL_VENDOR_ID, QuotingEnclave
from affiant.attestation.simulated.keys import public_point, sign_raw
from affiant.attestation.simulated.qe import encode_qe_report

__all__ = ["QuoteLayout", "QuoteSigner", "encode_quote"]

_ECDSA_P256: Final = 2
_TEE_TDX: Final = 0x81
_CERTIFICATION_QE_REPORT: Final = 6
_CERTIFICATION_PEM_CHAIN: Final = 5
_USER_DATA: Final = b"affiant SIMULATED TD"
"""20 bytes of the header, opaque to every verifier."""


class QuoteLayout(enum.Enum):
    """Which quote version carries which TD report body."""

    V4 = "v4, body 1.0"
    V5_TD10 = "v5, body 1.0"
    V5_TD15 = "v5, body 1.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteSigner:
    """What stands behind a quote's signature.

    Args:
        attestation_key: signs the quote.
        pck_key: signs the QE report, and so the attestation key.
        pck_chain: PEM, leaf first.
        vendor_id: 16 bytes of the header.
    """

    enclave: QuotingEnclave
    attestation_key: ec.EllipticCurvePrivateKey
    pck_key: ec.EllipticCurvePrivateKey
    pck_chain: bytes
    vendor_id: bytes = INTEL_VENDOR_ID


def encode_quote(body: bytes, layout: QuoteLayout, signer: QuoteSigner) -> bytes:
    """The quote over ``body``, a TD report body of the layout's own size."""
    signed = _header(layout, signer.vendor_id) + _body_frame(body, layout) + body
    auth_data = sign_raw(signer.attestation_key, signed) + _auth_tail(signer)
    return signed + struct.pack("<I", len(auth_data)) + auth_data


def _header(layout: QuoteLayout, vendor_id: bytes) -> bytes:
    version = 4 if layout is QuoteLayout.V4 else 5
    return struct.pack("<HHIHH16s20s", version, _ECDSA_P256, _TEE_TDX, 0, 0, vendor_id, _USER_DATA)


def _body_frame(body: bytes, layout: QuoteLayout) -> bytes:
    if layout is QuoteLayout.V4:
        return b""
    return struct.pack("<HI", 2 if layout is QuoteLayout.V5_TD10 else 3, len(body))


def _auth_tail(signer: QuoteSigner) -> bytes:
    """What follows the quote's own signature: the key, then type 6 with the QE report and the PCK chain."""
    point = public_point(signer.attestation_key)
    report = encode_qe_report(signer.enclave, point)
    auth_data = signer.enclave.auth_data
    certification = b"".join(
        (
            report,
            sign_raw(signer.pck_key, report),
            struct.pack("<H", len(auth_data)) + auth_data,
            struct.pack("<HI", _CERTIFICATION_PEM_CHAIN, len(signer.pck_chain)) + signer.pck_chain,
        )
    )
    return point + struct.pack("<HI", _CERTIFICATION_QE_REPORT, len(certification)) + certification
