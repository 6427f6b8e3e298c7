"""Makes the proofs of a Merkle tree from its stored subtrees (RFC 9162, section 2.1).

A proof is made from the roots of *complete* subtrees alone (:class:`Nodes`), which never change once they are there;
tiles are one way to keep them.

>>> from affiant.attestation.encoding.merkle import leaf_hash, root
>>> from affiant.attestation.tlog.tree import verify_inclusion
>>> leaves = [bytes([n]) for n in range(7)]
>>> nodes = MemoryNodes(leaf_hash(leaf) for leaf in leaves)
>>> path = inclusion_path(nodes, 4, 7)
>>> verify_inclusion(leaf_hash(leaves[4]), index=4, size=7, path=path, root=root(leaves))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from affiant.attestation.encoding.merkle import node_hash
from affiant.attestation.tlog.errors import ProofMalformed
from affiant.attestation.tlog.tree import EMPTY_ROOT, MAX_SIZE

__all__ = ["MemoryNodes", "Nodes", "consistency_path", "inclusion_path", "range_hash"]


class Nodes(Protocol):
    """The complete subtrees of one tree."""

    def node(self, level: int, index: int) -> bytes:
        """The root, 32 bytes, of the ``index``-th complete subtree of ``2**level`` leaves."""
        ...


class MemoryNodes:
    """Every complete subtree of a tree in memory, level by level.

    Args:
        leaf_hashes: 32 bytes each, in order.
    """

    __slots__ = ("_levels",)

    def __init__(self, leaf_hashes: Iterable[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaf_hashes:
            self.append(leaf)

    @property
    def size(self) -> int:
        """Leaves so far."""
        return len(self._levels[0])

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash, and every subtree that it completes."""
        level, digest = 0, leaf
        while True:
            if level == len(self._levels):
                self._levels.append([])
            row = self._levels[level]
            row.append(digest)
            if len(row) % 2:
                return
            digest = node_hash(row[-2], row[-1])
            level += 1

    def node(self, level: int, index: int) -> bytes:
        """As :meth:`Nodes.node`."""
        return self._levels[level][index]


def range_hash(nodes: Nodes, start: int, end: int) -> bytes:
    """MTH(D[start:end]) of RFC 9162, section 2.1.1, for a range that a tree really has as a subtree.

    Args:
        start: a multiple of the smallest power of two that is not below ``end - start``.
    """
    count = end - start
    if count == 0:
        return EMPTY_ROOT
    split = _split(count)
    if split is None:
        return nodes.node(count.bit_length() - 1, start // count)
    return node_hash(range_hash(nodes, start, start + split), range_hash(nodes, start + split, end))


def inclusion_path(nodes: Nodes, index: int, size: int) -> tuple[bytes, ...]:
    """PATH(index, D[size]): the hashes that lead from leaf ``index`` to the root over ``size`` leaves.

    Raises:
        ProofMalformed: there is no such leaf.
    """
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofMalformed("there is no such leaf", expected=f"an index below {size}", found=index)
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _left(end - start)
        if index < middle:
            path.append(range_hash(nodes, middle, end))
            end = middle
        else:
            path.append(range_hash(nodes, start, middle))
            start = middle
    return tuple(reversed(path))


def consistency_path(nodes: Nodes, old: int, new: int) -> tuple[bytes, ...]:
    """PROOF(old, D[new]): the hashes that show that the tree of ``new`` leaves begins with that of ``old``.

    Empty where ``old`` is 0 or ``new``: nothing needs to be shown, or the roots are compared.

    Raises:
        ProofMalformed: ``old`` is larger than ``new``.
    """
    if not 0 <= old <= new <= MAX_SIZE:
        raise ProofMalformed("the older tree is the larger", expected=f"at most {new} leaves", found=old)
    if old in (0, new):
        return ()
    path: list[bytes] = []
    start, end, known = 0, new, True
    # RFC 9162, section 2.1.4.1, SUBPROOF with its recursion unrolled; ``known``: the verifier has this root already.
    while start + old != end:
        middle = start + _left(end - start)
        if start + old <= middle:
            path.append(range_hash(nodes, middle, end))
            end = middle
        else:
            path.append(range_hash(nodes, start, middle))
            old -= middle - start
            start, known = middle, False
    if not known:
        path.append(range_hash(nodes, start, end))
    return tuple(reversed(path))


def _left(count: int) -> int:
    """The largest power of two below ``count``, which is at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def _split(count: int) -> int | None:
    """Where a range of ``count`` leaves is split; None where it is one complete subtree."""
    return None if count & (count - 1) == 0 else _left(count)
