"""Checks TD_ATTRIBUTES and XFAM: what a TD may be, whatever the reference values say (points 38 and 39).

Source: Intel TDX module ABI specification, "TD_ATTRIBUTES" and "XFAM". Both are 8 bytes, little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.quote.quote import TDReport

__all__ = [
    "TD_ATTRIBUTE_NAMES",
    "XFAM_NAMES",
    "appraise_forbidden_bits",
    "appraise_td_configuration",
    "appraise_xfam_masks",
    "has_sept_ve_disable",
    "has_service_td",
    "names_of_bits",
    "with_sept_ve_disable",
]

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
        ``appraisal.debug``: the host can read the TD's memory.
        ``appraisal.td_attributes``: another forbidden bit, or SEPT_VE_DISABLE is not set: the host could then deliver
            exceptions on pages of its choice.
        ``appraisal.xfam``: XFAM is outside of its fixed masks.
        ``appraisal.service_td``: a service TD (of migration, for example) is bound.
    """
    appraise_forbidden_bits(body)
    if not has_sept_ve_disable(body):
        raise AppraisalRefused(
            "TD_ATTRIBUTES lacks SEPT_VE_DISABLE (28)",
            found=body.td_attributes.hex(),
            code="appraisal.td_attributes",
        )
    if has_service_td(body):
        raise AppraisalRefused(
            "a service TD is bound to this TD",
            found=(body.mrservicetd or b"").hex(),
            code="appraisal.service_td",
        )
    appraise_xfam_masks(body)


def appraise_forbidden_bits(body: TDReport) -> None:
    """38: the bits that no policy can allow.

    Raises:
        ``appraisal.debug``: the host can read the TD's memory.
        ``appraisal.td_attributes``: another forbidden bit.
    """
    attributes = int.from_bytes(body.td_attributes, "little")
    if attributes & _DEBUG:
        raise AppraisalRefused(
            "the TD is debuggable: its host can read its memory",
            found=body.td_attributes.hex(),
            code="appraisal.debug",
        )
    for name, mask in _FORBIDDEN.items():
        if attributes & mask:
            raise AppraisalRefused(
                f"TD_ATTRIBUTES has {name} set",
                found=body.td_attributes.hex(),
                code="appraisal.td_attributes",
            )


def has_sept_ve_disable(body: TDReport) -> bool:
    """38: whether the host can deliver no exceptions on pages of its choice."""
    return bool(int.from_bytes(body.td_attributes, "little") & _SEPT_VE_DISABLE)


def with_sept_ve_disable(td_attributes: bytes) -> bytes:
    """``td_attributes`` with that bit set, to compare all the others."""
    return (int.from_bytes(td_attributes, "little") | _SEPT_VE_DISABLE).to_bytes(8, "little")


def has_service_td(body: TDReport) -> bool:
    """38: whether a service TD is bound; a TD 1.0 body cannot say so."""
    return body.mrservicetd is not None and any(body.mrservicetd)


def appraise_xfam_masks(body: TDReport) -> None:
    """39: the extended features that any TD may use.

    Raises:
        ``appraisal.xfam``: XFAM is outside of its fixed masks.
    """
    xfam = int.from_bytes(body.xfam, "little")
    if xfam & _XFAM_FIXED != _XFAM_FIXED or xfam & ~_XFAM_ALLOWED:
        raise AppraisalRefused(
            "XFAM is outside of its masks",
            expected=f"bits 0 and 1, and none outside of 0x{_XFAM_ALLOWED:x}",
            found=body.xfam.hex(),
            code="appraisal.xfam",
        )
