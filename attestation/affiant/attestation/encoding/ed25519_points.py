"""Detects Ed25519 public keys under which anybody can sign: points of small order and second encodings (RFC 8032,
section 5.1).

The curve has eight points whose order divides eight. Under such a "key" nobody needs a private one: a signature made of
nothing holds over one message in eight, or over all of them, so whoever is named by it is anybody. And a coordinate
that is not smaller than the field's prime spells a point a second time: one key would have two names.
"""

from __future__ import annotations

from typing import Final

__all__ = ["is_nobodys_key"]

_PRIME: Final = 2**255 - 19
_OF_ORDER_8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL: Final = frozenset({0, 1, _PRIME - 1, _OF_ORDER_8, _PRIME - _OF_ORDER_8})
"""``y`` of the eight points: of order 4 it is 0, of order 1 it is 1, of order 2 it is -1; two of them for order 8."""


def is_nobodys_key(raw: bytes) -> bool:
    """Whether ``raw`` (32 bytes: ``y``, little-endian, and the sign of ``x`` as the highest bit) is such a key."""
    y = int.from_bytes(raw, "little") & ((1 << 255) - 1)
    return y >= _PRIME or y in _SMALL
