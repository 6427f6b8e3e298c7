"""Merkle tree hashes and audit paths as RFC 6962 defines them, by recursion. Written apart from the verifier's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """MTH(D[n]), section 2.1."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    half = _half(len(leaves))
    return hashlib.sha256(b"\x01" + tree_root(leaves[:half]) + tree_root(leaves[half:])).digest()


def audit_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """PATH(m, D[n]), section 2.1.1."""
    if len(leaves) == 1:
        return []
    half = _half(len(leaves))
    if index < half:
        return [*audit_path(leaves[:half], index), tree_root(leaves[half:])]
    return [*audit_path(leaves[half:], index - half), tree_root(leaves[:half])]


def _half(size: int) -> int:
    """The largest power of two smaller than ``size``."""
    return 1 << ((size - 1).bit_length() - 1)
