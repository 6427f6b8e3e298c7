"""Keeps the registers of a simulated TD: set once at launch, extended afterwards, laid out as in a TD report.

Source of the layout: Intel TDX DCAP Quoting Library API, TD quote body 1.0 (584 bytes) and 1.5 (648 bytes).
Values are frozen: a launch makes them, :func:`extend` makes the next ones, and nothing else changes a register.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from affiant.attestation.release.platform_identity import TD_ATTRIBUTES, XFAM, ModuleIdentity
from affiant.attestation.simulated.platform.errors import RegisterError
from affiant.attestation.statements.evidence_source import REGISTER_SIZE, TDRegisters

__all__ = [
    "encode_td10_body",
    "encode_td15_body",
    "extend",
    "launch_registers",
]


def launch_registers(
    *,
    mrtd: bytes,
    mrconfigid: bytes,
    rtmrs: tuple[bytes, bytes, bytes, bytes],
    td_id: bytes,
    td_attributes: bytes = TD_ATTRIBUTES,
    xfam: bytes = XFAM,
) -> TDRegisters:
    """The registers as the TDX module would leave them before the guest's first own instruction.

    Raises:
        RegisterError: a value of another size than its register.
    """
    for name, value in (
        ("MRTD", mrtd),
        ("MRCONFIGID", mrconfigid),
        *((f"RTMR{i}", r) for i, r in enumerate(rtmrs)),
    ):
        _demand_size(name, value, REGISTER_SIZE)
    _demand_size("TD id", td_id, 32)
    _demand_size("TD_ATTRIBUTES", td_attributes, 8)
    _demand_size("XFAM", xfam, 8)
    return TDRegisters(
        td_id=td_id,
        td_attributes=td_attributes,
        xfam=xfam,
        mrtd=mrtd,
        mrconfigid=mrconfigid,
        mrowner=bytes(REGISTER_SIZE),
        mrownerconfig=bytes(REGISTER_SIZE),
        rtmrs=rtmrs,
    )


def extend(registers: TDRegisters, index: int, digest: bytes) -> TDRegisters:
    """RTMR3 := SHA-384(RTMR3 || digest), digest 48 bytes.

    Raises:
        RegisterError: another register (RTMR0 to 2 belong to firmware and kernel), or another size.
    """
    if index != 3:
        raise RegisterError("only RTMR3 can be extended from inside a TD", expected=3, found=index)
    _demand_size("the digest", digest, REGISTER_SIZE)
    extended = hashlib.sha384(registers.rtmrs[3] + digest).digest()
    return replace(registers, rtmrs=(*registers.rtmrs[:3], extended))


def encode_td10_body(registers: TDRegisters, module: ModuleIdentity, report_data: bytes) -> bytes:
    """TD report body 1.0, 584 bytes.

    Raises:
        RegisterError: ``report_data`` is not exactly 64 bytes. It is never padded.
    """
    _demand_size("REPORTDATA", report_data, 64)
    return b"".join(
        (
            module.tee_tcb_svn,
            module.mrseam,
            module.mrsignerseam,
            module.seam_attributes,
            registers.td_attributes,
            registers.xfam,
            registers.mrtd,
            registers.mrconfigid,
            registers.mrowner,
            registers.mrownerconfig,
            *registers.rtmrs,
            report_data,
        )
    )


def encode_td15_body(
    registers: TDRegisters,
    module: ModuleIdentity,
    report_data: bytes,
    *,
    current_tee_tcb_svn: bytes,
    mrservicetd: bytes,
) -> bytes:
    """TD report body 1.5, 648 bytes: 1.0, then TEE_TCB_SVN2 (16) and MRSERVICETD (48)."""
    _demand_size("TEE_TCB_SVN2", current_tee_tcb_svn, 16)
    _demand_size("MRSERVICETD", mrservicetd, REGISTER_SIZE)
    return encode_td10_body(registers, module, report_data) + current_tee_tcb_svn + mrservicetd


def _demand_size(name: str, value: bytes, size: int) -> None:
    if len(value) != size:
        raise RegisterError(f"{name} has another size", expected=f"{size} bytes", found=f"{len(value)} bytes")
