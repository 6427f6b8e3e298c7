"""Writes the few DER forms that a PCK certificate's SGX extension is made of (ITU-T X.690, section 8 to 10).

Encoding only. The reader of the same bytes is the verifier's, written apart, so that one mistake cannot hide in
both.

>>> sequence(oid("1.2.840.113741.1.13.1.4"), octet_string(bytes(6))).hex()
'3014060a2a864886f84d010d01040406000000000000'
"""

from __future__ import annotations

__all__ = ["boolean", "enumerated", "integer", "octet_string", "oid", "sequence"]


def sequence(*items: bytes) -> bytes:
    """SEQUENCE of already encoded ``items``, in their order."""
    return _tlv(0x30, b"".join(items))


def octet_string(data: bytes) -> bytes:
    """OCTET STRING."""
    return _tlv(0x04, data)


def integer(value: int) -> bytes:
    """INTEGER, zero or greater, in the fewest bytes that keep the sign bit clear."""
    return _tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def enumerated(value: int) -> bytes:
    """ENUMERATED, zero or greater."""
    return _tlv(0x0A, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def boolean(value: bool) -> bytes:  # noqa: FBT001 - the one value that is encoded
    """BOOLEAN; true is 0xff (X.690, section 11.1)."""
    return _tlv(0x01, b"\xff" if value else b"\x00")


def oid(dotted: str) -> bytes:
    """OBJECT IDENTIFIER of dotted decimal text."""
    first, second, *rest = (int(arc) for arc in dotted.split("."))
    return _tlv(0x06, b"".join(_base128(arc) for arc in (40 * first + second, *rest)))


def _base128(arc: int) -> bytes:
    groups = [arc & 0x7F]
    while arc := arc >> 7:
        groups.append(0x80 | (arc & 0x7F))
    return bytes(reversed(groups))


def _tlv(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + content
