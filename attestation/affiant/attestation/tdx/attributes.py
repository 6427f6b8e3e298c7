"""TD_ATTRIBUTES and XFAM: what a TD may be, whatever the reference values say (points 38 and 39).

Source: Intel TDX module ABI specification, "TD_ATTRIBUTES" and "XFAM". Both are 8 bytes, little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.attestation.tdx.errors import DebugTD, ServiceTDBound, TDAttributesRefused, XFAMRefused
from affiant.attestation.tdx.quote import TDReport

__all__ = ["TD_ATTRIBUTE_NAMES", "XFAM_NAMES", "appraise_td_configuration", "names_of_bits"]

TD_ATTRIBUTE_NAMES: Final[Mapping[int, str]] = {
    0: "DEBUG",
    4: "HGS_PLUS_PROF",
    5: "PERF_PROF",
    6: "PMT_PROF",
    16: "ICSSD",
    17: "SERVTD_EXT",
    27: "LASS",
    28: "SEPT_VE_DISABLE",
    29: "MIGRATABLE",
    30: "PKS",
    31: "KL",
    62: "TPA",
    63: "PERFMON",
}
"""Bit -> name, TD_ATTRIBUTES. Bits 18 to 22 are defined for newer modules and have no name here."""

XFAM_NAMES: Final[Mapping[int, str]] = {
    0: "x87",
    1: "SSE",
    2: "AVX",
    5: "AVX-512 opmask",
    6: "AVX-512 ZMM_Hi256",
    7: "AVX-512 Hi16_ZMM",
    8: "PT",
    9: "PKRU",
    11: "CET_U",
    12: "CET_S",
    14: "UINTR",
    15: "LBR",
    17: "AMX TILECFG",
    18: "AMX TILEDATA",
}
"""Bit -> name, XFAM (as in XCR0 and IA32_XSS)."""


def names_of_bits(value: bytes, names: Mapping[int, str]) -> tuple[str, ...]:
    """The set bits of a little-endian ``value`` by name, lowest first; one without a name as ``bit N``."""
    number = int.from_bytes(value, "little")
    return tuple(names.get(bit, f"bit {bit}") for bit in range(8 * len(value)) if number >> bit & 1)


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


_DEBUG: Final = _bits(0)
_SEPT_VE_DISABLE: Final = _bits(28)
_FORBIDDEN: Final = {
    "a profiling bit (4 to 6)": _bits(4, 5, 6),
    "SERVTD_EXT (17)": _bits(17),
    "MIGRATABLE (29)": _bits(29),
    "a reserved bit": _bits(*range(1, 4), *range(7, 16), *range(23, 27), *range(32, 62)),
}

_XFAM_FIXED: Final = _bits(0, 1)
"""x87 and SSE are always there."""
_XFAM_ALLOWED: Final = 0x6DBE7


def appraise_td_configuration(body: TDReport) -> None:
    """Refuse a TD that its host can read, profile or migrate, or whose attributes nobody has defined.

    Raises:
        DebugTD: the host can read the TD's memory.
        TDAttributesRefused: another forbidden bit, or SEPT_VE_DISABLE is not set: the host could then deliver
            exceptions on pages of its choice.
        XFAMRefused: XFAM is outside of its fixed masks.
        ServiceTDBound: a service TD (of migration, for example) is bound.
    """
    # 38: attributes, bit by bit.
    attributes = int.from_bytes(body.td_attributes, "little")
    if attributes & _DEBUG:
        raise DebugTD("the TD is debuggable: its host can read its memory", found=body.td_attributes.hex())
    for name, mask in _FORBIDDEN.items():
        if attributes & mask:
            raise TDAttributesRefused(f"TD_ATTRIBUTES has {name} set", found=body.td_attributes.hex())
    if not attributes & _SEPT_VE_DISABLE:
        raise TDAttributesRefused("TD_ATTRIBUTES lacks SEPT_VE_DISABLE (28)", found=body.td_attributes.hex())
    if body.mrservicetd is not None and any(body.mrservicetd):
        raise ServiceTDBound("a service TD is bound to this TD", found=body.mrservicetd.hex())
    # 39: the extended features that the TD may use.
    xfam = int.from_bytes(body.xfam, "little")
    if xfam & _XFAM_FIXED != _XFAM_FIXED or xfam & ~_XFAM_ALLOWED:
        raise XFAMRefused(
            "XFAM is outside of its masks",
            expected=f"bits 0 and 1, and none outside of 0x{_XFAM_ALLOWED:x}",
            found=body.xfam.hex(),
        )
