"""What a simulated platform says it is: machine, TDX module and quoting enclave.

Every value that a hardware policy could pin is readable text that says SIMULATED. A digest or an identifier of
real hardware equals such a text with probability 2**-128 or less, so no allow-list for hardware can ever match
a simulated platform, not even one written by mistake. That comes on top of the root key, which alone decides.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Final

__all__ = [
    "EVALUATION_NUMBER",
    "FMSPC",
    "INTEL_VENDOR_ID",
    "MRSEAM",
    "PPID",
    "TD_ATTRIBUTES",
    "XFAM",
    "MachineIdentity",
    "ModuleIdentity",
    "PCKIssuer",
    "QuotingEnclave",
]

PPID: Final = b"SIMULATED-NO-HW!"
"""16 bytes where a processor has its Protected Platform Identifier: text, never an AES-CMAC of fuses."""

FMSPC: Final = b"SIMULA"
"""6 bytes, 53494d554c41: family, model, stepping and SKU of no processor; the TCB Info names the same."""

MRSEAM: Final = b"affiant SIMULATED TDX module, NOT Intel hardware"
"""48 bytes where hardware reports SHA-384 of the TDX module: text, so no module identity can equal it."""

INTEL_VENDOR_ID: Final = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
"""16 bytes, quote header at 12. Verifiers demand it (DCAP quoting library, quote v4, header); it names the
format's owner and proves nothing."""


EVALUATION_NUMBER: Final = 1
"""tcbEvaluationDataNumber of a platform's collateral; Intel's own numbers have two digits."""

TD_ATTRIBUTES: Final = bytes.fromhex("0000001000000000")
"""8 bytes of every TD: SEPT_VE_DISABLE alone (bit 28)."""

XFAM: Final = bytes.fromhex("e702060000000000")
"""8 bytes, little-endian 0x602e7: x87, SSE, AVX, AVX-512, PKRU and AMX, as on bare metal."""


class PCKIssuer(enum.Enum):
    """Which of the two intermediate authorities issues the PCK certificate."""

    PLATFORM = "Intel SGX PCK Platform CA"
    PROCESSOR = "Intel SGX PCK Processor CA"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIdentity:
    """What the PCK certificate says in its SGX extension (OID 1.2.840.113741.1.13.1).

    Args:
        ppid: 16 bytes.
        fmspc: 6 bytes.
        pce_id: 2 bytes.
        sgx_components: 16 component SVNs, each 0 to 255; also the CPUSVN's bytes.
        pce_svn: 0 to 65535.
        sgx_type: 0 standard, 1 scalable, 2 scalable with integrity.
        platform_instance_id: 16 bytes; under the Platform CA only.
        dynamic_platform, cached_keys, smt: the configuration flags; under the Platform CA only.
    """

    issuer: PCKIssuer = PCKIssuer.PLATFORM
    ppid: bytes = PPID
    fmspc: bytes = FMSPC
    pce_id: bytes = bytes(2)
    sgx_components: tuple[int, ...] = (3, 3, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0)
    pce_svn: int = 13
    sgx_type: int = 1
    platform_instance_id: bytes = b"SIMULATED-NO-HW!"
    dynamic_platform: bool = True
    cached_keys: bool = True
    smt: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleIdentity:
    """What the TD report says of the TDX module.

    Args:
        tee_tcb_svn: 16 bytes: [0] module minor SVN, [1] module major version, [2] SEAM loader SVN, rest zero.
        mrseam: 48 bytes.
        mrsignerseam: 48 bytes, all zero for a module whose signer is the platform's vendor.
        seam_attributes: 8 bytes, all zero.
    """

    tee_tcb_svn: bytes = bytes((5, 1, 3)) + bytes(13)
    mrseam: bytes = MRSEAM
    mrsignerseam: bytes = bytes(48)
    seam_attributes: bytes = bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotingEnclave:
    """What the QE report says; sizes as in the SGX report body (384 bytes).

    Args:
        cpu_svn: 16 bytes. attributes: 16 bytes (11 00 ...: initialised, provisioning key; bit 1 is DEBUG).
        misc_select: 4 bytes. mrenclave, mrsigner: 32 bytes. auth_data: 0 to 65535 bytes, opaque.
        report_data: 64 bytes in place of the binding of attestation key and authentication data; None: the binding.
    """

    cpu_svn: bytes = bytes((3, 3, 2, 2, 4, 1, 0, 5)) + bytes(8)
    misc_select: bytes = bytes(4)
    attributes: bytes = bytes((0x11,)) + bytes(15)
    mrenclave: bytes = hashlib.sha256(b"affiant SIMULATED quoting enclave").digest()
    mrsigner: bytes = hashlib.sha256(b"affiant SIMULATED quoting enclave signer").digest()
    isv_prod_id: int = 2
    isv_svn: int = 6
    auth_data: bytes = b"affiant SIMULATED QE auth data.."
    report_data: bytes | None = None
