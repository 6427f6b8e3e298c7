"""Computes the Merkle tree hash of RFC 9162, section 2.1.1, over SHA-256.

Used for the root over a session's records (``session-close``) and over the events of a stream (``res.evr``).

>>> root([]).hex()[:16]
'e3b0c44298fc1c14'
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["Accumulator", "leaf_hash", "node_hash", "root"]


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 || data): 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right): 32 bytes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Accumulator:
    """Builds a root leaf by leaf in logarithmic memory; :meth:`root` may be asked at any time."""

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []
        self.size: int = 0

    def add(self, data: bytes) -> None:
        """Append the leaf with content ``data``."""
        height, digest = 0, leaf_hash(data)
        while self._peaks and self._peaks[-1][0] == height:
            digest = node_hash(self._peaks.pop()[1], digest)
            height += 1
        self._peaks.append((height, digest))
        self.size += 1

    def root(self) -> bytes:
        """The 32-byte root over all leaves so far; SHA-256 of nothing for an empty tree."""
        if not self._peaks:
            return hashlib.sha256(b"").digest()
        digest = self._peaks[-1][1]
        for _, left in reversed(self._peaks[:-1]):
            digest = node_hash(left, digest)
        return digest


def root(leaves: Sequence[bytes]) -> bytes:
    """The root over ``leaves``."""
    tree = Accumulator()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root()
