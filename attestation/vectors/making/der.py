"""DER, as far as certificates, revocation lists and timestamps need it (ITU-T X.690)."""

from __future__ import annotations

import time

__all__ = [
    "bit_string",
    "boolean",
    "enumerated",
    "explicit",
    "generalized_time",
    "implicit",
    "implicit_set",
    "integer",
    "name",
    "octets",
    "oid",
    "sequence",
    "set_of",
    "sorted_set",
    "utc_time",
    "utf8",
]


def _tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def sequence(*parts: bytes) -> bytes:
    """SEQUENCE."""
    return _tlv(0x30, b"".join(parts))


def set_of(part: bytes) -> bytes:
    """SET OF one."""
    return _tlv(0x31, part)


def integer(value: int) -> bytes:
    """INTEGER, not negative."""
    return _tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def enumerated(value: int) -> bytes:
    """ENUMERATED."""
    return _tlv(0x0A, bytes((value,)))


def boolean(value: bool) -> bytes:  # noqa: FBT001 - the value itself
    """BOOLEAN."""
    return _tlv(0x01, b"\xff" if value else b"\x00")


def octets(data: bytes) -> bytes:
    """OCTET STRING."""
    return _tlv(0x04, data)


def bit_string(data: bytes, unused: int = 0) -> bytes:
    """BIT STRING."""
    return _tlv(0x03, bytes((unused,)) + data)


def sorted_set(*parts: bytes) -> bytes:
    """SET OF several, in DER's order."""
    return _tlv(0x31, b"".join(sorted(parts)))


def implicit_set(number: int, *parts: bytes) -> bytes:
    """SET OF several under a context-specific tag in the set's stead."""
    return explicit(number, b"".join(sorted(parts)))


def generalized_time(seconds: int) -> bytes:
    """GeneralizedTime, UTC, whole seconds."""
    return _tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", time.gmtime(seconds)).encode())


def utf8(text: str) -> bytes:
    """UTF8String."""
    return _tlv(0x0C, text.encode())


def utc_time(seconds: int) -> bytes:
    """UTCTime up to 2049, then GeneralizedTime (RFC 5280, section 4.1.2.5)."""
    moment = time.gmtime(seconds)
    if moment.tm_year < 2050:
        return _tlv(0x17, time.strftime("%y%m%d%H%M%SZ", moment).encode())
    return _tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", moment).encode())


def oid(dotted: str) -> bytes:
    """OBJECT IDENTIFIER."""
    first, second, *rest = map(int, dotted.split("."))
    content = b""
    for arc in (40 * first + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        content += bytes(reversed(groups))
    return _tlv(0x06, content)


def explicit(number: int, content: bytes) -> bytes:
    """A context-specific constructed tag."""
    return _tlv(0xA0 | number, content)


def implicit(number: int, content: bytes) -> bytes:
    """A context-specific primitive tag in place of the type's own."""
    return _tlv(0x80 | number, content)


def name(**attributes: str) -> bytes:
    """Name of ``cn``, ``o`` and ``ou``, in the order given."""
    types = {"cn": "2.5.4.3", "o": "2.5.4.10", "ou": "2.5.4.11"}
    return sequence(*(set_of(sequence(oid(types[key]), utf8(text))) for key, text in attributes.items()))
