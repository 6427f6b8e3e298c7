"""Reads the few DER structures that are judged by their exact bytes (ITU-T X.690, section 10).

Definite, minimal lengths and one-byte tags only. It walks; it never recurses, so no input exhausts a stack.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "BOOLEAN",
    "ENUMERATED",
    "INTEGER",
    "OBJECT_IDENTIFIER",
    "OCTET_STRING",
    "SEQUENCE",
    "DERError",
    "Element",
    "children",
    "read_element",
    "read_single",
    "unsigned_integer",
]

BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
ENUMERATED: Final = 0x0A
SEQUENCE: Final = 0x30


class DERError(ValueError):
    """Bytes are not DER. Internal: callers chain it under an error of their own."""


class Element(NamedTuple):
    """One tag-length-value: ``tag``, content octets, and the whole encoding."""

    tag: int
    content: bytes
    encoded: bytes


_element: Final = tuple.__new__
"""Past the constructor of the named tuple, which would take as long as reading the element."""


def read_element(data: bytes, offset: int = 0) -> tuple[Element, int]:
    """The element at ``offset`` and the offset after it.

    Raises:
        DERError: it does not fit into ``data``, or its length is not minimal.
    """
    start = offset + 2
    if len(data) < start:
        raise DERError("element is cut short")
    tag, length = data[offset], data[offset + 1]
    if tag & 0x1F == 0x1F:
        raise DERError("tag of more than one byte")
    if length >= 0x80:
        count = length & 0x7F
        if not 1 <= count <= 3 or len(data) < start + count:
            raise DERError("length is indefinite, too long or cut short")
        length = int.from_bytes(data[start : start + count], "big")
        start += count
        if length < 0x80 or length >> (8 * (count - 1)) == 0:
            raise DERError("length is not minimal")
    end = start + length
    if len(data) < end:
        raise DERError("element is cut short")
    return _element(Element, (tag, data[start:end], data[offset:end])), end


def read_single(data: bytes, tag: int) -> bytes:
    """The content of ``data``, which is exactly one element with this ``tag``.

    Raises:
        DERError: another tag, or bytes after it.
    """
    element, end = read_element(data)
    if element.tag != tag or end != len(data):
        raise DERError(f"expected exactly one element with tag 0x{tag:02x}")
    return element.content


def children(content: bytes) -> list[Element]:
    """The elements that fill ``content`` exactly, in order.

    Raises:
        DERError: one of them does not fit.
    """
    elements: list[Element] = []
    offset, size = 0, len(content)
    while offset < size:
        start = offset + 2
        # The short form, which nearly every element has, is read in place; the rest, and what is wrong, by
        # the one reader above. The largest cost of a certificate is the number of calls.
        if start <= size and (length := content[offset + 1]) < 0x80 and content[offset] & 0x1F != 0x1F:
            end = start + length
            if end <= size:
                tag = content[offset]
                elements.append(_element(Element, (tag, content[start:end], content[offset:end])))
                offset = end
                continue
        element, offset = read_element(content, offset)
        elements.append(element)
    return elements


def unsigned_integer(content: bytes) -> int:
    """The value of a non-negative INTEGER's content octets.

    Raises:
        DERError: empty, negative, or not minimal.
    """
    if not content or content[0] & 0x80:
        raise DERError("integer is empty or negative")
    if len(content) > 1 and content[0] == 0 and not content[1] & 0x80:
        raise DERError("integer is not minimal")
    return int.from_bytes(content, "big")
