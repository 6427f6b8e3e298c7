"""Reads certification data: how a quote names the PCK key that signed for its quoting enclave.

Source: Intel TDX DCAP Quoting Library API, "QE Certification Data": types 1 to 7. Only a chain of certificates
(5) can be verified by what is at hand; every other inner type names a platform whose certificate would have to
be fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = ["CertificationType", "PlatformName", "name_certification", "parse_platform_name"]


class CertificationType(IntEnum):
    """The seven types."""

    PLAIN_PPID = 1
    ENCRYPTED_PPID_RSA2048 = 2
    ENCRYPTED_PPID_RSA3072 = 3
    PCK_CERTIFICATE = 4
    PCK_CHAIN = 5
    QE_REPORT = 6
    PLATFORM_MANIFEST = 7


_NAMES: Final = {
    1: "plain PPID, with CPUSVN, PCESVN and PCEID",
    2: "PPID encrypted with RSA-2048, with CPUSVN, PCESVN and PCEID",
    3: "PPID encrypted with RSA-3072, with CPUSVN, PCESVN and PCEID",
    4: "one PCK certificate, without its chain",
    5: "PCK certificate chain, PEM",
    6: "report of the quoting enclave",
    7: "platform manifest",
}
_PPID_BYTES: Final = {1: 16, 2: 256, 3: 384}


def name_certification(number: int) -> str:
    """What certification data of this type is."""
    return _NAMES.get(number, "no type that is known")


@dataclass(frozen=True, slots=True)
class PlatformName:
    """What types 1 to 3 hold: enough to ask for the PCK certificate, none of it signed."""

    ppid: bytes
    """16 bytes; encrypted for Intel, 256 or 384."""
    cpu_svn: bytes
    pce_svn: int
    pceid: bytes
    """2 bytes as they stand."""


def parse_platform_name(number: int, data: bytes) -> PlatformName | None:
    """The content of certification data of type 1, 2 or 3; None for another type, or another length."""
    size = _PPID_BYTES.get(number)
    if size is None or len(data) != size + 20:
        return None
    return PlatformName(
        ppid=data[:size],
        cpu_svn=data[size : size + 16],
        pce_svn=int.from_bytes(data[size + 16 : size + 18], "little"),
        pceid=data[size + 18 :],
    )
