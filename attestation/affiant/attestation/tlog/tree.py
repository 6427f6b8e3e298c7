"""Verifies proofs in a Merkle tree (RFC 9162, section 2.1); ``tree_paths`` makes them.

A proof is a tuple of 32-byte hashes, from the leaf's side up (RFC 9162, sections 2.1.3 and 2.1.4).

>>> from affiant.attestation.encoding.merkle import leaf_hash, node_hash, root
>>> leaves = [bytes([n]) for n in range(7)]
>>> hashes = [leaf_hash(leaf) for leaf in leaves]
>>> path = (hashes[5], hashes[6], root(leaves[:4]))
>>> verify_inclusion(leaf_hash(leaves[4]), index=4, size=7, path=path, root=root(leaves))
>>> verify_inclusion(leaf_hash(leaves[5]), index=4, size=7, path=path, root=root(leaves))
Traceback (most recent call last):
    ...
affiant.attestation.tlog.errors.InclusionInvalid: the hashes do not lead from the leaf to the root
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from affiant.attestation.encoding.merkle import node_hash
from affiant.attestation.tlog.errors import ConsistencyInvalid, InclusionInvalid, ProofMalformed

__all__ = [
    "EMPTY_ROOT",
    "HASH_SIZE",
    "MAX_PATH",
    "MAX_SIZE",
    "verify_consistency",
    "verify_inclusion",
]

HASH_SIZE: Final = 32
MAX_SIZE: Final = (1 << 63) - 1
"""Leaves that a tree may have; sizes are signed 64-bit numbers in C2SP documents."""
MAX_PATH: Final = 63
"""Hashes in the longest proof of such a tree (C2SP tlog-witness allows as many lines)."""
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
"""The root of a tree without leaves (RFC 9162, section 2.1.1)."""


def verify_inclusion(leaf: bytes, *, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Leaf hash ``leaf`` is the ``index``-th of the tree of ``size`` leaves with this ``root`` (section 2.1.3.2).

    Raises:
        ProofMalformed: there is no such leaf, or another number of hashes than index and size demand.
        InclusionInvalid: the hashes lead to another root.
    """
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofMalformed("there is no such leaf", expected=f"an index below {size}", found=index)
    _demand_hashes((leaf, root, *path))
    # Below the level at which the leaf and the last one have the same ancestor, each level has a sibling; from there
    # on, along the right edge, only where the ancestor is itself a right child.
    below = (index ^ (size - 1)).bit_length()
    expected = below + (index >> below).bit_count()
    if len(path) != expected:
        wrong = "short" if len(path) < expected else "long"
        raise ProofMalformed(
            f"the proof of inclusion is too {wrong}", expected=f"{expected} hashes", found=len(path)
        )
    digest, node = leaf, index
    for sibling in path[:below]:
        digest = node_hash(sibling, digest) if node & 1 else node_hash(digest, sibling)
        node >>= 1
    for sibling in path[below:]:
        digest = node_hash(sibling, digest)
    if not hmac.compare_digest(digest, root):
        raise InclusionInvalid("the hashes do not lead from the leaf to the root")


def verify_consistency(
    *, old: int, old_root: bytes, new: int, new_root: bytes, path: Sequence[bytes]
) -> None:
    """The tree of ``new`` leaves begins with the tree of ``old`` leaves (section 2.1.4.2).

    Raises:
        ProofMalformed: ``old`` is larger than ``new``, or another number of hashes than the sizes demand.
        ConsistencyInvalid: the hashes lead to other roots; the root of an empty tree is not the empty tree's.
    """
    if not 0 <= old <= new <= MAX_SIZE:
        raise ProofMalformed("the older tree is the larger", expected=f"at most {new} leaves", found=old)
    _demand_hashes((old_root, new_root, *path))
    if (new == 0 and new_root != EMPTY_ROOT) or (old == 0 and old_root != EMPTY_ROOT):
        raise ConsistencyInvalid("the root of a tree without leaves is another", expected=EMPTY_ROOT.hex())
    if old in (0, new):
        if path:
            raise ProofMalformed("nothing is to be shown, and hashes are", found=f"{len(path)} hashes")
        if old == new and not hmac.compare_digest(old_root, new_root):
            raise ConsistencyInvalid("two roots over the same number of leaves", found=f"{new} leaves")
        return
    known, rest = _beginning(old, old_root, path)
    node, last = _aligned(old - 1, new - 1)
    first = second = known
    for digest in rest:
        if last == 0:
            raise ProofMalformed("the proof of consistency is too long", found=f"{len(path)} hashes")
        if node % 2 or node == last:
            first, second = node_hash(digest, first), node_hash(digest, second)
            while node and node % 2 == 0:
                node, last = node // 2, last // 2
        else:
            second = node_hash(second, digest)
        node, last = node // 2, last // 2
    if last != 0:
        raise ProofMalformed("the proof of consistency is too short", found=f"{len(path)} hashes")
    if not (hmac.compare_digest(first, old_root) and hmac.compare_digest(second, new_root)):
        raise ConsistencyInvalid(
            "the larger tree does not begin with the smaller", found=f"{old} and {new} leaves"
        )


def _beginning(old: int, old_root: bytes, path: Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
    """The hash that the walk begins at, and the rest: a complete older tree is its own beginning."""
    if old & (old - 1) == 0:
        return old_root, path
    if not path:
        raise ProofMalformed("the proof of consistency is too short", found="no hash")
    return path[0], path[1:]


def _aligned(node: int, last: int) -> tuple[int, int]:
    while node % 2:
        node, last = node // 2, last // 2
    return node, last


def _demand_hashes(hashes: Sequence[bytes]) -> None:
    if len(hashes) > MAX_PATH + 2 or not {HASH_SIZE}.issuperset(map(len, hashes)):
        raise ProofMalformed(
            "hashes of another size or number", expected=f"at most {MAX_PATH} of {HASH_SIZE} bytes"
        )
