"""Parses a TD quote, versions 4 and 5: bytes -> :class:`TDQuote`.

Source: Intel TDX DCAP Quoting Library API, "Quote format" (v4 and v5); the body of TD 1.5 from the TDX module
ABI. Little-endian throughout, except the signatures and keys, which are big-endian. Nothing here is verified:
a parsed quote is a claim.

The layout::

    0    header, 48 bytes
    48   v4: body of 584 bytes
         v5: u16 body type, u32 body size, body (584, 648 or 885 bytes)
    ..   u32 length of the authentication data, then the data; what follows is unsigned padding and ignored

The signed region is everything before that u32: in v5 the type and the size are signed too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.tdx.quote.certification import CertificationType, name_certification
from affiant.errors import MalformedError

__all__ = [
    "MAX_QUOTE_BYTES",
    "QEReport",
    "QuoteAuthentication",
    "QuoteHeader",
    "TDQuote",
    "TDReport",
    "TDReport15Extension",
    "dissect_quote",
    "parse_quote",
    "parse_td_report",
]

MAX_QUOTE_BYTES: Final = 16 * 1024
"""The largest genuine buffer is 8000 bytes, the largest quote in one 5247; twice that is ample."""

INTEL_QE_VENDOR: Final = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
_TEE_TDX: Final = 0x81
_TEE_SGX: Final = 0
_KEY_ECDSA_P256: Final = 2
_HEADER_BYTES: Final = 48
_TDREPORT_BYTES: Final = 1024
_BODY_BYTES: Final = {2: 584, 3: 648, 4: 885}
"""v5 body type -> size (TD 1.0, TD 1.5, TD 1.5 extended). Type 1 is an SGX body."""


@dataclass(frozen=True, slots=True)
class QuoteHeader:
    """The 48 bytes before the body. The SVN fields of v3 are reserved here and not kept."""

    version: int
    attestation_key_type: int
    tee_type: int
    qe_vendor_id: bytes
    user_data: bytes
    """20 bytes, opaque."""


@dataclass(frozen=True, slots=True)
class TDReport15Extension:
    """What a TD 1.5 extended body (885 bytes) adds after byte 648; opaque to every check here."""

    vm_id: bytes
    td_id: bytes
    device_info: bytes
    initial_service_td_hash: bytes
    initial_service_td_attributes: bytes
    initial_cpu_svn: bytes
    initial_tee_tcb_svn: bytes
    initial_fmspc: bytes
    current_service_td_hash: bytes
    current_service_td_attributes: bytes


@dataclass(frozen=True, slots=True)
class TDReport:
    """The TD report body. Measurements are 48 bytes (SHA-384), ``report_data`` is 64."""

    tee_tcb_svn: bytes
    """16 bytes: [0] minor SVN and [1] major version of the TDX module, [2] SEAM loader. In TD 1.5 the values
    at the TD's launch."""
    mrseam: bytes
    mrsignerseam: bytes
    seam_attributes: bytes
    td_attributes: bytes
    xfam: bytes
    mrtd: bytes
    mrconfigid: bytes
    mrowner: bytes
    mrownerconfig: bytes
    rtmrs: tuple[bytes, bytes, bytes, bytes]
    report_data: bytes
    tee_tcb_svn2: bytes | None = None
    """TD 1.5 only: the values of the module that runs now."""
    mrservicetd: bytes | None = None
    """TD 1.5 only: digest of the bound service TDs, zero if none."""
    extension: TDReport15Extension | None = None


@dataclass(frozen=True, slots=True)
class QEReport:
    """The SGX report of the quoting enclave, 384 bytes."""

    raw: bytes = field(repr=False)
    cpu_svn: bytes
    misc_select: bytes
    attributes: bytes
    mrenclave: bytes
    mrsigner: bytes
    isv_prod_id: int
    isv_svn: int
    report_data: bytes


@dataclass(frozen=True, slots=True)
class QuoteAuthentication:
    """The authentication data of an ECDSA P-256 quote."""

    signature: bytes
    """64 bytes r || s, big-endian, over the signed region, by ``attestation_key``."""
    attestation_key: bytes
    """64 bytes x || y."""
    qe_report: QEReport
    qe_report_signature: bytes
    """64 bytes r || s over the 384 bytes of the report, by the PCK key."""
    qe_auth_data: bytes
    certification_type: int
    """What ``certification_data`` is; see ``certification``."""
    certification_data: bytes

    @property
    def pck_chain(self) -> bytes:
        """PEM: leaf, intermediate and usually root; may end in NUL or newline.

        Raises:
            ``quote.no_pck_chain``: 4: certification data of another type, which names a platform whose certificate
                would
                have to be fetched.
        """
        if self.certification_type != CertificationType.PCK_CHAIN:
            raise MalformedError(
                "the quote carries no PCK certificate chain",
                expected="certification data of type 5 (PEM chain)",
                found=f"type {self.certification_type} ({name_certification(self.certification_type)})",
                code="quote.no_pck_chain",
            )
        return self.certification_data


@dataclass(frozen=True, slots=True)
class TDQuote:
    """A TDX quote as claimed; only ``verify_quote`` makes it more."""

    raw: bytes = field(repr=False)
    header: QuoteHeader
    body_type: int
    """2, 3 or 4, as numbered in v5; a v4 quote has a body of type 2."""
    body: TDReport
    signed: bytes = field(repr=False)
    authentication: QuoteAuthentication
    trailing_bytes: int
    """How much unsigned padding follows; never interpreted."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the exact bytes, padding included."""
        return hashlib.sha256(self.raw).digest()


def parse_quote(data: bytes) -> TDQuote:
    """The quote in ``data``.

    Raises:
        ``quote.malformed``: a length or a structure is wrong.
        ``quote.unsupported``: a version other than 4 or 5, or an attestation key other than ECDSA P-256.
        ``quote.not_tdx``: a quote of another TEE.
        ``quote.local_report``: a TDREPORT.
        ``quote.no_pck_chain``: certification data of another type than a PEM chain.
    """
    quote = dissect_quote(data)
    # 4: demanded here, so that what cannot be verified is refused before anything is.
    _ = quote.authentication.pck_chain
    return quote


def dissect_quote(data: bytes) -> TDQuote:
    """As :func:`parse_quote`, whatever type the certification data has: for a reader's eyes.

    Raises:
        ``quote.malformed``, ``quote.unsupported``, ``quote.not_tdx``, ``quote.local_report``: as there.
    """
    # 1: bounds before anything is read.
    if len(data) > MAX_QUOTE_BYTES:
        raise MalformedError(
            "quote too large",
            expected=f"at most {MAX_QUOTE_BYTES} bytes",
            found=f"{len(data)} bytes",
            code="quote.malformed",
        )
    _refuse_local_report(data)
    header = _parse_header(data)
    body_type, body_start, body_size = _locate_body(data, header)
    signed_end = body_start + body_size
    if len(data) < signed_end + 4:
        raise MalformedError(
            "quote is cut within its body",
            expected=f"at least {signed_end + 4} bytes",
            code="quote.malformed",
        )
    # 3: the authentication data lies within the buffer; what follows it is ignored.
    auth_start = signed_end + 4
    auth_length = int.from_bytes(data[signed_end:auth_start], "little")
    if auth_length > len(data) - auth_start:
        raise MalformedError(
            "authentication data reaches beyond the quote",
            expected=f"at most {len(data) - auth_start} bytes",
            found=f"{auth_length} bytes",
            code="quote.malformed",
        )
    auth_end = auth_start + auth_length
    return TDQuote(
        raw=data,
        header=header,
        body_type=body_type,
        body=parse_td_report(data[body_start:signed_end], body_type=body_type),
        signed=data[:signed_end],
        authentication=_parse_authentication(data[auth_start:auth_end]),
        trailing_bytes=len(data) - auth_end,
    )


def _refuse_local_report(data: bytes) -> None:
    """A TDREPORT is 1024 bytes with type 0x81 in its first (TDX module ABI, REPORTMACSTRUCT)."""
    if len(data) == _TDREPORT_BYTES and data[0] == _TEE_TDX:
        raise MalformedError(
            "this is a TDREPORT, which can be checked on its own CPU only",
            expected="a quote",
            hint="Have the quoting enclave turn it into a quote.",
            code="quote.local_report",
        )


def _parse_header(data: bytes) -> QuoteHeader:
    if len(data) < _HEADER_BYTES:
        raise MalformedError(
            "quote is cut within its header",
            expected=f"{_HEADER_BYTES} bytes",
            found=f"{len(data)} bytes",
            code="quote.malformed",
        )
    header = QuoteHeader(
        version=int.from_bytes(data[0:2], "little"),
        attestation_key_type=int.from_bytes(data[2:4], "little"),
        tee_type=int.from_bytes(data[4:8], "little"),
        qe_vendor_id=data[12:28],
        user_data=data[28:48],
    )
    # 2: version, TEE type, key type, vendor. An SGX quote gets its own answer.
    if header.tee_type == _TEE_SGX and header.version in (3, 4, 5):
        raise MalformedError(
            "this is an SGX quote",
            expected="TEE type 0x81 (TDX)",
            found="TEE type 0 (SGX)",
            code="quote.not_tdx",
        )
    if header.version not in (4, 5):
        raise MalformedError(
            "quote of an unknown version", expected="4 or 5", found=header.version, code="quote.unsupported"
        )
    if header.tee_type != _TEE_TDX:
        raise MalformedError(
            "quote of another TEE",
            expected="0x81 (TDX)",
            found=f"0x{header.tee_type:x}",
            code="quote.not_tdx",
        )
    if header.attestation_key_type != _KEY_ECDSA_P256:
        raise MalformedError(
            "attestation key of an unsupported type",
            expected="2 (ECDSA P-256)",
            found=header.attestation_key_type,
            code="quote.unsupported",
        )
    if header.qe_vendor_id != INTEL_QE_VENDOR:
        raise MalformedError(
            "quoting enclave of an unknown vendor",
            expected=INTEL_QE_VENDOR.hex(),
            found=header.qe_vendor_id.hex(),
            code="quote.malformed",
        )
    return header


def _locate_body(data: bytes, header: QuoteHeader) -> tuple[int, int, int]:
    """Body type, offset and size (point 2: the size must be exactly the type's)."""
    if header.version == 4:
        return 2, _HEADER_BYTES, _BODY_BYTES[2]
    if len(data) < 54:
        raise MalformedError(
            "quote is cut within its header",
            expected="54 bytes",
            found=f"{len(data)} bytes",
            code="quote.malformed",
        )
    body_type = int.from_bytes(data[48:50], "little")
    size = int.from_bytes(data[50:54], "little")
    if body_type == 1:
        raise MalformedError(
            "quote v5 with an SGX body", expected="body type 2, 3 or 4", found=body_type, code="quote.not_tdx"
        )
    if _BODY_BYTES.get(body_type) != size:
        raise MalformedError(
            "unknown body type, or not of its size",
            expected=", ".join(f"type {kind} with {length} bytes" for kind, length in _BODY_BYTES.items()),
            found=f"type {body_type} with {size} bytes",
            code="quote.malformed",
        )
    return body_type, 54, size


def parse_td_report(body: bytes, *, body_type: int) -> TDReport:
    """The TD report in ``body``, whose length is that of ``body_type`` (2: 584, 3: 648, 4: 885 bytes).

    Raises:
        ``quote.malformed``: another type or length.
    """
    if _BODY_BYTES.get(body_type) != len(body):
        raise MalformedError(
            "TD report of another length than its type has",
            found=f"{len(body)} bytes",
            code="quote.malformed",
        )
    return TDReport(
        tee_tcb_svn=body[0:16],
        mrseam=body[16:64],
        mrsignerseam=body[64:112],
        seam_attributes=body[112:120],
        td_attributes=body[120:128],
        xfam=body[128:136],
        mrtd=body[136:184],
        mrconfigid=body[184:232],
        mrowner=body[232:280],
        mrownerconfig=body[280:328],
        rtmrs=(body[328:376], body[376:424], body[424:472], body[472:520]),
        report_data=body[520:584],
        tee_tcb_svn2=body[584:600] if body_type >= 3 else None,
        mrservicetd=body[600:648] if body_type >= 3 else None,
        extension=_parse_extension(body) if body_type == 4 else None,
    )


def _parse_extension(body: bytes) -> TDReport15Extension:
    return TDReport15Extension(
        vm_id=body[648:649],
        td_id=body[649:681],
        device_info=body[681:729],
        initial_service_td_hash=body[729:777],
        initial_service_td_attributes=body[777:785],
        initial_cpu_svn=body[785:801],
        initial_tee_tcb_svn=body[801:817],
        initial_fmspc=body[817:829],
        current_service_td_hash=body[829:877],
        current_service_td_attributes=body[877:885],
    )


def _parse_authentication(auth: bytes) -> QuoteAuthentication:
    """3: every length reaches exactly the end of what holds it (known mistake: junk in the type 6 blob)."""
    if len(auth) < 584:
        raise MalformedError(
            "authentication data is cut short",
            expected="at least 584 bytes",
            found=f"{len(auth)} bytes",
            code="quote.malformed",
        )
    outer_type = int.from_bytes(auth[128:130], "little")
    if outer_type != CertificationType.QE_REPORT:
        raise MalformedError(
            "outer certification data of another type", expected=6, found=outer_type, code="quote.malformed"
        )
    if int.from_bytes(auth[130:134], "little") != len(auth) - 134:
        raise MalformedError(
            "outer certification data does not end with the authentication data", code="quote.malformed"
        )
    qe_auth_end = 584 + int.from_bytes(auth[582:584], "little")
    if len(auth) < qe_auth_end + 6:
        raise MalformedError(
            "authentication data of the quoting enclave reaches beyond its container", code="quote.malformed"
        )
    inner_type = int.from_bytes(auth[qe_auth_end : qe_auth_end + 2], "little")
    chain = auth[qe_auth_end + 6 :]
    if int.from_bytes(auth[qe_auth_end + 2 : qe_auth_end + 6], "little") != len(chain):
        raise MalformedError(
            "inner certification data does not end with the authentication data", code="quote.malformed"
        )
    return QuoteAuthentication(
        signature=auth[0:64],
        attestation_key=auth[64:128],
        qe_report=_parse_qe_report(auth[134:518]),
        qe_report_signature=auth[518:582],
        qe_auth_data=auth[584:qe_auth_end],
        certification_type=inner_type,
        certification_data=chain,
    )


def _parse_qe_report(raw: bytes) -> QEReport:
    """The 384 bytes of an SGX report body (Intel SDM, volume 3D, REPORT)."""
    return QEReport(
        raw=raw,
        cpu_svn=raw[0:16],
        misc_select=raw[16:20],
        attributes=raw[48:64],
        mrenclave=raw[64:96],
        mrsigner=raw[128:160],
        isv_prod_id=int.from_bytes(raw[256:258], "little"),
        isv_svn=int.from_bytes(raw[258:260], "little"),
        report_data=raw[320:384],
    )
