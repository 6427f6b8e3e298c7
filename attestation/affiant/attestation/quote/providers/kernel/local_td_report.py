"""Reads a TDREPORT, 1024 bytes: what the TDX module reports to the TD itself. It is local and proves nothing to others.

Source: Intel TDX module ABI, TDREPORT_STRUCT. Little-endian::

    0     256   REPORTMACSTRUCT: type (0x81), subtype, version, 13 zeros; CPUSVN (16); SHA-384 of TEE_TCB_INFO (48);
                SHA-384 of TDINFO (48); report data (64); 32 zeros; MAC (32)
    256   239   TEE_TCB_INFO, and 17 zeros
    512   512   TDINFO: attributes (8), XFAM (8), MRTD, MRCONFIGID, MROWNER, MROWNERCONFIG, RTMR0-3 (48 each);
                in version 1 the hash of the service TDs (48); zeros

Its MAC is made with a key of this CPU and is good on that CPU alone, so that nobody elsewhere can check it. Nor
is it checked here: what reads this is in the same TD and asked the kernel. What is checked finds a report of another
form, a mixed-up one or a stale one: both digests, and that the report data is what was asked for. The layout was held
against a genuine TDREPORT, which Microsoft publishes inside of a sample HCL report.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.quote.providers.base.errors import ResponseRefused
from affiant.attestation.statements.evidence_source import REGISTER_SIZE, TDRegisters

__all__ = ["TDREPORT_SIZE", "LocalTDReport", "parse_local_td_report"]

TDREPORT_SIZE: Final = 1024
_TYPE: Final = b"\x81\x00"
"""TDX, subtype 0."""
_VERSIONS: Final = (0, 1)
_TEE_TCB_INFO: Final = slice(256, 495)
_TDINFO: Final = slice(512, 1024)
_MAC: Final = slice(224, 256)
_ZEROS: Final = (slice(3, 16), slice(192, 224), slice(495, 512))
_FIRST_REGISTER: Final = 528
_AFTER_RTMRS: Final = 912
_SERVICE_TD_HASH: Final = slice(_AFTER_RTMRS, _AFTER_RTMRS + REGISTER_SIZE)


@dataclass(frozen=True, slots=True)
class LocalTDReport:
    """A TDREPORT whose digests hold. Only its own CPU could check its MAC.

    Args:
        report_data: 64 bytes. cpusvn, tee_tcb_svn: 16 bytes each. mrseam: 48 bytes.
        service_td_hash: 48 bytes; None in version 0, which cannot bind a service TD.
        mac: 32 bytes.
    """

    registers: TDRegisters
    report_data: bytes
    cpusvn: bytes
    tee_tcb_svn: bytes
    mrseam: bytes
    service_td_hash: bytes | None
    mac: bytes = field(repr=False)


def parse_local_td_report(data: bytes, report_data: bytes) -> LocalTDReport:
    """The TDREPORT in ``data``, which must be over ``report_data`` (64 bytes).

    Raises:
        ResponseRefused: another form, a digest that does not hold, or other report data.
    """
    _demand_form(data)
    for name, at, part in (("TEE_TCB_INFO", 32, _TEE_TCB_INFO), ("TDINFO", 80, _TDINFO)):
        digest = hashlib.sha384(data[part]).digest()
        if not hmac.compare_digest(digest, data[at : at + REGISTER_SIZE]):
            raise ResponseRefused(
                f"the TDREPORT names another {name} than it carries",
                expected=data[at : at + REGISTER_SIZE].hex(),
                found=digest.hex(),
            )
    if not hmac.compare_digest(data[128:192], report_data):
        raise ResponseRefused("the TDREPORT is over other report data than was asked for")
    return LocalTDReport(
        registers=_registers(data),
        report_data=data[128:192],
        cpusvn=data[16:32],
        tee_tcb_svn=data[264:280],
        mrseam=data[280:328],
        service_td_hash=data[_SERVICE_TD_HASH] if data[2] else None,
        mac=data[_MAC],
    )


def _demand_form(data: bytes) -> None:
    if len(data) != TDREPORT_SIZE:
        raise ResponseRefused(
            "a TDREPORT of another size", expected=f"{TDREPORT_SIZE} bytes", found=f"{len(data)} bytes"
        )
    if data[:2] != _TYPE or data[2] not in _VERSIONS:
        raise ResponseRefused(
            "not a TDREPORT of a known form",
            expected="type 81, subtype 00, version 00 or 01",
            found=data[:3].hex(" "),
        )
    tail = _AFTER_RTMRS + REGISTER_SIZE * data[2]
    if any(any(data[reserved]) for reserved in (*_ZEROS, slice(tail, TDREPORT_SIZE))):
        raise ResponseRefused("the TDREPORT has something where its version has zeros")


def _registers(data: bytes) -> TDRegisters:
    mrtd, mrconfigid, mrowner, mrownerconfig, *rtmrs = (
        data[at : at + REGISTER_SIZE] for at in range(_FIRST_REGISTER, _AFTER_RTMRS, REGISTER_SIZE)
    )
    return TDRegisters(
        td_attributes=data[512:520],
        xfam=data[520:528],
        mrtd=mrtd,
        mrconfigid=mrconfigid,
        mrowner=mrowner,
        mrownerconfig=mrownerconfig,
        rtmrs=(rtmrs[0], rtmrs[1], rtmrs[2], rtmrs[3]),
    )
