"""The last byte of a member's packed bytes: what it unpacks to, and that its padding bits are zero.

A raw DEFLATE stream ends at a bit, not at a byte (RFC 1951, section 3.1.1): up to seven bits of its last byte are
padding. zlib neither checks them nor reports where they begin. This module finds that out by flipping bits:

1. A flipped padding bit changes nothing: zlib stops before it.
2. A flip of the last bit that zlib reads always changes the outcome. That bit ends the code of the end-of-block symbol.
   With it flipped, zlib meets bits that are no code, or another symbol, which writes at least one byte more. After a
   stored block the last byte is content, or belongs to the check of a length of zero.
3. So the highest set bit is read, and no padding, exactly if a flip of that bit or of a higher one changes the outcome.

The highest set bit alone would not decide: it may belong to a distance, and another distance may lead to the same
content.
"""

from __future__ import annotations

import zlib

from affiant.attestation.bundle.period.errors import ZipContentMismatch

__all__ = ["last_byte"]


def last_byte(inflate: zlib._Decompress, last: int, *, where: str) -> bytes:
    """What ``last`` unpacks to, at most a few thousand bytes.

    Args:
        inflate: it was given every byte before ``last`` and has returned all that they unpack to. Afterwards it is at
            its end, or the stream does not end in ``last``. where: the member's name.

    Raises:
        zlib.error: the stream is malformed. ZipContentMismatch: a padding bit is set.
    """
    before = inflate.copy()
    tail = inflate.decompress(bytes((last,)))
    if inflate.eof and last:
        highest = last.bit_length() - 1
        if not any(_matters(bit, before, last, tail) for bit in range(7, highest - 1, -1)):
            raise ZipContentMismatch("a member's last byte has padding bits that are not zero", where=where)
    return tail


def _matters(bit: int, before: zlib._Decompress, last: int, tail: bytes) -> bool:
    """Whether the outcome is another one with this bit of ``last`` flipped."""
    other = before.copy()
    try:
        return other.decompress(bytes((last ^ (1 << bit),))) != tail or not other.eof
    except zlib.error:
        return True
