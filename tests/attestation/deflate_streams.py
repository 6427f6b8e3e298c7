"""Raw DEFLATE streams (RFC 1951) written bit by bit, so that the bit at which each ends is known and not found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

END_OF_BLOCK = 256
CODE_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)


@dataclass(frozen=True)
class Stream:
    """A stream, what it unpacks to, and how many bits of its last byte (1 to 8) belong to it."""

    packed: bytes
    content: bytes
    used: int

    def with_padding(self, bits: int) -> bytes:
        """The same stream with ``bits`` in its last byte, after its end."""
        return bytes((*self.packed[:-1], self.packed[-1] | bits << self.used))


def bits(*fields: tuple[int, int], codes: tuple[str, ...] = ()) -> bytes:
    """Fields (value, count), lowest bit first, then Huffman codes as they are read, filled up with zeros."""
    return _bytes(_fields(*fields) + "".join(codes))


def coded(content: bytes) -> Stream:
    """``content`` as literals of one block of the fixed code."""
    return _stream(_fields((1, 1), (1, 2)) + "".join(map(_fixed, (*content, END_OF_BLOCK))), content)


def _fields(*fields: tuple[int, int]) -> str:
    return "".join(format(value, f"0{count}b")[::-1] for value, count in fields)


def _bytes(text: str) -> bytes:
    text += "0" * (-len(text) % 8)
    return bytes(int(text[at : at + 8][::-1], 2) for at in range(0, len(text), 8))


def _stream(text: str, content: bytes) -> Stream:
    return Stream(_bytes(text), content, (len(text) - 1) % 8 + 1)


def _fixed(symbol: int) -> str:
    """The fixed code (section 3.2.6) of a literal, a length or the end of a block."""
    if symbol < 144:
        return format(0b00110000 + symbol, "08b")
    if symbol < 256:
        return format(0b110010000 + symbol - 144, "09b")
    return format(symbol - 256, "07b")


def _far(distance_bits: int) -> Stream:
    """The fixed code; its match of three letters reaches back 9 to 12 letters, all of them alike."""
    text = (
        _fields((1, 1), (1, 2)) + _fixed(ord("a")) * 12 + _fixed(257) + "00110" + _fields((distance_bits, 2))
    )
    return _stream(text + _fixed(END_OF_BLOCK), b"a" * 15)


def _code_lengths(lengths: Mapping[int, int]) -> str:
    """The lengths of the code of code lengths, and how many of them there are."""
    return _fields((14, 4), *((lengths.get(symbol, 0), 3) for symbol in CODE_ORDER[:18]))


def _short_end(letters: int, distance_bits: int) -> Stream:
    """A code of its own: the end is one bit, and before it stand five bits of a distance of 65 to 96 equal letters."""
    head = _fields((1, 1), (2, 2), (1, 5), (12, 5)) + _code_lengths({18: 1, 1: 2, 2: 2})
    zeros, one, two = "0", "10", "11"
    lengths = zeros + _fields((97 - 11, 7)) + two  # the letter a
    lengths += (
        zeros + _fields((138 - 11, 7)) + zeros + _fields((20 - 11, 7)) + one + two
    )  # the end, a match of three
    lengths += zeros + _fields((12 - 11, 7)) + one  # the twelfth distance
    body = "10" * letters + "11" + "0" + _fields((distance_bits, 5)) + "0"
    return _stream(head + lengths + body, b"a" * (letters + 3))


def _end_alone() -> Stream:
    """A code of its own with one symbol, the end."""
    head = _fields((1, 1), (2, 2), (0, 5), (0, 5)) + _code_lengths({18: 1, 0: 2, 1: 2})
    lengths = "0" + _fields((138 - 11, 7)) + "0" + _fields((118 - 11, 7)) + "11" + "10"
    return _stream(head + lengths + "0", b"")


STREAMS = {
    "a stored block of nothing": Stream(b"\x01\x00\x00\xff\xff", b"", 8),
    **{
        f"a stored block that ends in {last:#04x}": Stream(
            b"\x01\x02\x00\xfd\xffA" + bytes((last,)), b"A" + bytes((last,)), 8
        )
        for last in (0x00, 0x01, 0x7F, 0x80, 0xFF)
    },
    "a stored block before the last": Stream(
        b"\x00\x01\x00\xfe\xffA" + coded(b"B").packed, b"AB", coded(b"B").used
    ),
    "the fixed code, of nothing": coded(b""),
    **{f"a distance of the fixed code, bits {each:02b}": _far(each) for each in range(4)},
    **{
        f"a short end after {letters} letters, bits {each:05b}": _short_end(letters, each)
        for letters in (96, 97, 98, 99)
        for each in (0, 1, 0b10000, 0b01010, 0b11111)
    },
    "a code of one symbol": _end_alone(),
}
"""By what stands in the last byte, or before it."""

ENDING_AT = {(stream := coded(b"\xff" * count)).used: stream for count in range(8)}
"""By how many bits of the last byte are used."""
