"""Writes DER, as far as a timestamp request and a sorted set need it (ITU-T X.690, section 10)."""

from __future__ import annotations

__all__ = ["boolean", "integer", "object_identifier", "octets", "sequence", "tagged"]


def tagged(tag: int, content: bytes) -> bytes:
    """One element: a tag of one byte, a definite length of the fewest bytes, the content."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def sequence(*parts: bytes) -> bytes:
    """SEQUENCE of whole elements."""
    return tagged(0x30, b"".join(parts))


def integer(value: int) -> bytes:
    """INTEGER, not negative."""
    return tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def boolean(*, value: bool) -> bytes:
    """BOOLEAN."""
    return tagged(0x01, b"\xff" if value else b"\x00")


def octets(data: bytes) -> bytes:
    """OCTET STRING."""
    return tagged(0x04, data)


def object_identifier(dotted: str) -> bytes:
    """OBJECT IDENTIFIER.

    >>> object_identifier("2.16.840.1.101.3.4.2.1").hex()
    '0609608648016503040201'
    """
    first, second, *rest = map(int, dotted.split("."))
    content = b""
    for arc in (40 * first + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        content += bytes(reversed(groups))
    return tagged(0x06, content)
