"""Writes quotes v4 and v5 with ECDSA-P256, byte for byte as the quoting enclave lays them out.

Source: Intel TDX DCAP Quoting Library API, quote format v4 (section A.3) and v5 (A.4). The signature covers
header and body, in v5 with the body's type and size.

A quote is put together from :class:`QuoteParts`. What stands inside the signed region is said beforehand
(:class:`QuoteFrame`) and signed with the rest, so that a wrong value fails where it is judged and not at the
signature; what stands outside of it is a field of the parts.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.release.platform_identity import INTEL_VENDOR_ID, QuotingEnclave
from affiant.attestation.simulated.platform.keys import public_point, sign_raw
from affiant.attestation.simulated.platform.qe import encode_qe_report

__all__ = ["QuoteFrame", "QuoteLayout", "QuoteParts", "QuoteSigner", "encode_quote", "quote_parts"]

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
class QuoteFrame:
    """What is signed around the body. None: as the layout has it.

    Args:
        version, key_type, tee_type: header at 0, 2 and 4.
        user_data: 20 bytes, opaque.
        body_type, body_size: v5 only, before the body.
    """

    version: int | None = None
    key_type: int = _ECDSA_P256
    tee_type: int = _TEE_TDX
    user_data: bytes = _USER_DATA
    body_type: int | None = None
    body_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteSigner:
    """What stands behind a quote's signature.

    Args:
        attestation_key: the key that the quote carries, which signs it.
        pck_key: signs the QE report, and so the attestation key.
        pck_chain: PEM, leaf first.
        vendor_id: 16 bytes of the header.
        attestation_point: 64 bytes that are carried and certified instead of the attestation key's.
    """

    enclave: QuotingEnclave
    attestation_key: ec.EllipticCurvePrivateKey
    pck_key: ec.EllipticCurvePrivateKey
    pck_chain: bytes
    vendor_id: bytes = INTEL_VENDOR_ID
    attestation_point: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteParts:
    """A quote before its bytes are joined; nothing here is signed any more.

    Args:
        signed: header and body.
        signature, qe_report_signature: 64 bytes each, r || s.
        attestation_point: 64 bytes, x || y.
        qe_report: 384 bytes.
        certification_data: by its type; for 5, the PCK chain in PEM.
        auth_size, outer_size, qe_auth_size, certification_size: lengths as they are written; None: as they are.
        tail: unsigned bytes after the quote.
    """

    signed: bytes
    signature: bytes
    attestation_point: bytes
    qe_report: bytes
    qe_report_signature: bytes
    qe_auth_data: bytes
    certification_data: bytes
    certification_type: int = _CERTIFICATION_PEM_CHAIN
    outer_type: int = _CERTIFICATION_QE_REPORT
    auth_size: int | None = None
    outer_size: int | None = None
    qe_auth_size: int | None = None
    certification_size: int | None = None
    tail: bytes = b""

    def to_bytes(self) -> bytes:
        """The quote."""
        certification = b"".join(
            (
                self.qe_report,
                self.qe_report_signature,
                _sized("<H", self.qe_auth_data, self.qe_auth_size),
                struct.pack("<H", self.certification_type),
                _sized("<I", self.certification_data, self.certification_size),
            )
        )
        auth_data = b"".join(
            (
                self.signature,
                self.attestation_point,
                struct.pack("<H", self.outer_type),
                _sized("<I", certification, self.outer_size),
            )
        )
        return self.signed + _sized("<I", auth_data, self.auth_size) + self.tail


def quote_parts(
    body: bytes, layout: QuoteLayout, signer: QuoteSigner, frame: QuoteFrame | None = None
) -> QuoteParts:
    """The parts of the quote over ``body``, signed."""
    frame = frame or QuoteFrame()
    signed = _header(layout, signer.vendor_id, frame) + _body_frame(body, layout, frame) + body
    point = signer.attestation_point or public_point(signer.attestation_key)
    report = encode_qe_report(signer.enclave, point)
    return QuoteParts(
        signed=signed,
        signature=sign_raw(signer.attestation_key, signed),
        attestation_point=point,
        qe_report=report,
        qe_report_signature=sign_raw(signer.pck_key, report),
        qe_auth_data=signer.enclave.auth_data,
        certification_data=signer.pck_chain,
    )


def encode_quote(body: bytes, layout: QuoteLayout, signer: QuoteSigner) -> bytes:
    """The quote over ``body``, a TD report body of the layout's own size."""
    return quote_parts(body, layout, signer).to_bytes()


def _header(layout: QuoteLayout, vendor_id: bytes, frame: QuoteFrame) -> bytes:
    own = 4 if layout is QuoteLayout.V4 else 5
    version = own if frame.version is None else frame.version
    return struct.pack(
        "<HHIHH16s20s", version, frame.key_type, frame.tee_type, 0, 0, vendor_id, frame.user_data
    )


def _body_frame(body: bytes, layout: QuoteLayout, frame: QuoteFrame) -> bytes:
    if layout is QuoteLayout.V4:
        return b""
    own = 2 if layout is QuoteLayout.V5_TD10 else 3
    return struct.pack(
        "<HI",
        own if frame.body_type is None else frame.body_type,
        len(body) if frame.body_size is None else frame.body_size,
    )


def _sized(form: str, data: bytes, size: int | None) -> bytes:
    return struct.pack(form, len(data) if size is None else size) + data
