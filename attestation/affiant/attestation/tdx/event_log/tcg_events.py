"""Names TCG2 event types, and says which of them can be hashed again from the log's own content.

Source: TCG PC Client Platform Firmware Profile, "Event Types" and "UEFI_VARIABLE_DATA"; GRUB's measurements. For
these types the rule is exact, so that a content that does not hash to its digest is refused. For every other type
the hashed data (a firmware volume, a table, a PE image's Authenticode hash) is not in the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from affiant.attestation.tdx.event_log.measured_log import Binding
from affiant.errors import NotAuthenticError

__all__ = ["EV_NO_ACTION", "bind_content", "name_of_event", "name_of_type"]

EV_NO_ACTION: Final = 0x3

_TYPES: Final[Mapping[int, str]] = {
    0x0: "EV_PREBOOT_CERT",
    0x1: "EV_POST_CODE",
    EV_NO_ACTION: "EV_NO_ACTION",
    0x4: "EV_SEPARATOR",
    0x5: "EV_ACTION",
    0x6: "EV_EVENT_TAG",
    0x7: "EV_S_CRTM_CONTENTS",
    0x8: "EV_S_CRTM_VERSION",
    0x9: "EV_CPU_MICROCODE",
    0xA: "EV_PLATFORM_CONFIG_FLAGS",
    0xB: "EV_TABLE_OF_DEVICES",
    0xC: "EV_COMPACT_HASH",
    0xD: "EV_IPL",
    0x80000001: "EV_EFI_VARIABLE_DRIVER_CONFIG",
    0x80000002: "EV_EFI_VARIABLE_BOOT",
    0x80000003: "EV_EFI_BOOT_SERVICES_APPLICATION",
    0x80000004: "EV_EFI_BOOT_SERVICES_DRIVER",
    0x80000005: "EV_EFI_RUNTIME_SERVICES_DRIVER",
    0x80000006: "EV_EFI_GPT_EVENT",
    0x80000007: "EV_EFI_ACTION",
    0x80000008: "EV_EFI_PLATFORM_FIRMWARE_BLOB",
    0x80000009: "EV_EFI_HANDOFF_TABLES",
    0x8000000A: "EV_EFI_PLATFORM_FIRMWARE_BLOB2",
    0x8000000B: "EV_EFI_HANDOFF_TABLES2",
    0x8000000C: "EV_EFI_VARIABLE_BOOT2",
    0x80000010: "EV_EFI_HCRTM_EVENT",
    0x800000E0: "EV_EFI_VARIABLE_AUTHORITY",
    0x800000E1: "EV_EFI_SPDM_FIRMWARE_BLOB",
}
_LOADER_PREFIXES: Final = (b"grub_cmd: ", b"kernel_cmdline: ", b"module_cmdline: ")


def name_of_type(number: int) -> str:
    """The type by name."""
    return _TYPES.get(number, f"type 0x{number:08x}")


def _whole(content: bytes) -> Iterable[bytes]:
    return (content,)


def _variable_data(content: bytes) -> Iterable[bytes]:
    """A boot variable: its data alone (as firmware does), or the structure around it."""
    return (content,) if (data := _data_of_variable(content)) is None else (content, data)


def _data_of_variable(content: bytes) -> bytes | None:
    """VariableData of a UEFI_VARIABLE_DATA: GUID, u64 name length in UTF-16 units, u64 data length, both."""
    if len(content) < 32:
        return None
    name = 2 * int.from_bytes(content[16:24], "little")
    data = int.from_bytes(content[24:32], "little")
    return content[32 + name :] if 32 + name + data == len(content) else None


def _loader_line(content: bytes) -> Iterable[bytes]:
    """GRUB's lines: what follows the prefix, without the NUL at its end. Other texts name what was hashed."""
    for prefix in _LOADER_PREFIXES:
        if content.startswith(prefix):
            return (content[len(prefix) :].removesuffix(b"\0"),)
    return ()


_PREIMAGES: Final[Mapping[int, Callable[[bytes], Iterable[bytes]]]] = {
    0x4: _whole,
    0x5: _whole,
    0x80000007: _whole,
    0x80000001: _whole,
    0x80000006: _whole,
    0x8000000C: _whole,
    0x800000E0: _whole,
    0x80000002: _variable_data,
    0xD: _loader_line,
}


def bind_content(number: int, content: bytes, digest: bytes, *, where: str) -> Binding:
    """How far ``digest`` (48 bytes) is recomputed from ``content``, by the rule of the event's type.

    Raises:
        ``eventlog.preimage``: the type has a rule, and the content does not hash to the digest.
    """
    rule = _PREIMAGES.get(number)
    preimages = tuple(rule(content)) if rule is not None else ()
    if not preimages:
        return Binding.DIGEST
    for preimage in preimages:
        if hashlib.sha384(preimage).digest() == digest:
            return Binding.CONTENT if preimage == content else Binding.DATA
    raise NotAuthenticError(
        f"the content of a {name_of_type(number)} event is not what its digest was made of",
        where=where,
        code="eventlog.preimage",
    )


def name_of_event(number: int, content: bytes) -> str:
    """What an event calls itself, for a reader: text, or a variable's name. Hostile, and never a basis of
    anything."""
    if number in (0x80000001, 0x80000002, 0x8000000C, 0x800000E0) and len(content) >= 32:
        length = 2 * min(int.from_bytes(content[16:24], "little"), 128)
        return content[32 : 32 + length].decode("utf-16-le", "replace")
    if number in (0x5, 0x80000007, 0xA, 0xD):
        return content[:400].rstrip(b"\0").decode("utf-8", "replace")
    if number == 0x6 and len(content) >= 8:
        return content[8:208].rstrip(b"\0").decode("utf-8", "replace")
    return ""
