"""Names TPM 2.0 return codes, for people.

Source: TPM 2.0 Library, part 2, 6.6 (TPM_RC). Bit 7 set (format one): bits 0 to 5 say what, and bits 6 and 8 to 11 at
which parameter, handle or session. Otherwise (format zero): bit 11 set is a warning, which may pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["is_about_handle", "is_passing", "is_unauthorised", "name_of_code"]

_FORMAT_ONE: Final = 0x080
_PARAMETER: Final = 0x040
_SESSION: Final = 0x800

_ONE: Final[Mapping[int, str]] = {
    0x01: "ASYMMETRIC",
    0x02: "ATTRIBUTES",
    0x03: "HASH",
    0x04: "VALUE",
    0x05: "HIERARCHY",
    0x07: "KEY_SIZE",
    0x0A: "TYPE",
    0x0B: "HANDLE",
    0x0D: "RANGE",
    0x0E: "AUTH_FAIL",
    0x10: "PP",
    0x12: "SCHEME",
    0x15: "SIZE",
    0x1A: "INSUFFICIENT",
    0x1C: "KEY",
    0x1D: "POLICY_FAIL",
    0x22: "BAD_AUTH",
    0x23: "EXPIRED",
}
_ZERO: Final[Mapping[int, str]] = {
    0x00: "INITIALIZE",
    0x01: "FAILURE",
    0x20: "DISABLED",
    0x24: "AUTH_TYPE",
    0x25: "AUTH_MISSING",
    0x2F: "AUTH_UNAVAILABLE",
    0x43: "COMMAND_CODE",
    0x44: "AUTHSIZE",
    0x46: "NV_RANGE",
    0x47: "NV_SIZE",
    0x48: "NV_LOCKED",
    0x49: "NV_AUTHORIZATION",
    0x4A: "NV_UNINITIALIZED",
    0x4B: "NV_SPACE",
    0x4C: "NV_DEFINED",
}
_WARNING: Final[Mapping[int, str]] = {
    0x08: "YIELDED",
    0x09: "CANCELED",
    0x0A: "TESTING",
    0x10: "REFERENCE_H0",
    0x11: "REFERENCE_H1",
    0x20: "NV_RATE",
    0x21: "LOCKOUT",
    0x22: "RETRY",
    0x23: "NV_UNAVAILABLE",
}
_PASSING: Final = frozenset(("YIELDED", "CANCELED", "TESTING", "NV_RATE", "RETRY", "NV_UNAVAILABLE"))
_UNAUTHORISED: Final = frozenset(
    ("AUTH_FAIL", "BAD_AUTH", "AUTH_MISSING", "AUTH_TYPE", "AUTH_UNAVAILABLE", "NV_AUTHORIZATION", "LOCKOUT")
)
_NO_OBJECT: Final = frozenset(("HANDLE", "REFERENCE_H0", "REFERENCE_H1", "NV_UNINITIALIZED"))


def name_of_code(code: int) -> str:
    """``TPM_RC_HANDLE at handle 1 (0x18b)``; a code without a name here is its number alone."""
    word, place = _word(code), ""
    if code & _FORMAT_ONE:
        if code & _PARAMETER:
            place = f" at parameter {code >> 8 & 0xF}"
        elif code & _SESSION:
            place = f" at session {code >> 8 & 0x7}"
        else:
            place = f" at handle {code >> 8 & 0x7}"
    return f"0x{code:x}" if word is None else f"TPM_RC_{word}{place} (0x{code:x})"


def is_passing(code: int) -> bool:
    """Whether the same command may succeed later."""
    return _word(code) in _PASSING


def is_unauthorised(code: int) -> bool:
    """Whether the TPM wants another authorisation."""
    return _word(code) in _UNAUTHORISED


def is_about_handle(code: int) -> bool:
    """Whether there is nothing under the handle or index that was named."""
    return _word(code) in _NO_OBJECT


def _word(code: int) -> str | None:
    """The name without its prefix; the upper 20 bits belong to the layers between (a resource manager's)."""
    if code >> 12:
        return None
    if code & _FORMAT_ONE:
        return _ONE.get(code & 0x3F)
    if not code & 0x100:
        return None
    return (_WARNING if code & _SESSION else _ZERO).get(code & 0x7F)
