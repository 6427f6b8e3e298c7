"""Proofs for every place of every small tree, against RFC 9162's own recursion; forgeries are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.merkle import Accumulator, leaf_hash
from affiant.attestation.tlog.errors import ConsistencyInvalid, InclusionInvalid, ProofMalformed
from affiant.attestation.tlog.tree import (
    EMPTY_ROOT,
    MAX_SIZE,
    verify_consistency,
    verify_inclusion,
)
from affiant.attestation.tlog.tree_paths import (
    MemoryNodes,
    consistency_path,
    inclusion_path,
    range_hash,
)

SIZES = range(1, 24)
LEAVES = [number.to_bytes(4, "big") for number in range(700)]
NODES = MemoryNodes(leaf_hash(leaf) for leaf in LEAVES)


def _roots() -> Iterator[bytes]:
    tree = Accumulator()
    yield tree.root()
    for leaf in LEAVES:
        tree.add(leaf)
        yield tree.root()


ROOTS = list(_roots())


def mth(data: Sequence[bytes]) -> bytes:
    """RFC 9162, section 2.1.1, as written."""
    if not data:
        return hashlib.sha256(b"").digest()
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = 1
    while k * 2 < len(data):
        k *= 2
    return hashlib.sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def rfc_path(m: int, data: Sequence[bytes]) -> list[bytes]:
    """RFC 9162, section 2.1.3.1, as written."""
    if len(data) == 1:
        return []
    k = 1
    while k * 2 < len(data):
        k *= 2
    if m < k:
        return [*rfc_path(m, data[:k]), mth(data[k:])]
    return [*rfc_path(m - k, data[k:]), mth(data[:k])]


def rfc_subproof(m: int, data: Sequence[bytes], b: bool) -> list[bytes]:  # noqa: FBT001 - the RFC's own
    """RFC 9162, section 2.1.4.1, as written."""
    if m == len(data):
        return [] if b else [mth(data)]
    k = 1
    while k * 2 < len(data):
        k *= 2
    if m <= k:
        return [*rfc_subproof(m, data[:k], b), mth(data[k:])]
    return [*rfc_subproof(m - k, data[k:], False), mth(data[:k])]


def test_every_path_is_the_one_of_the_rfc_and_verifies() -> None:
    for size in SIZES:
        for index in range(size):
            path = inclusion_path(NODES, index, size)
            assert list(path) == rfc_path(index, LEAVES[:size])
            verify_inclusion(leaf_hash(LEAVES[index]), index=index, size=size, path=path, root=ROOTS[size])


def test_every_consistency_proof_is_the_one_of_the_rfc_and_verifies() -> None:
    for new in SIZES:
        for old in range(1, new + 1):
            path = consistency_path(NODES, old, new)
            assert list(path) == rfc_subproof(old, LEAVES[:new], True)
            verify_consistency(old=old, old_root=ROOTS[old], new=new, new_root=ROOTS[new], path=path)


def test_any_range_of_a_tree_has_its_own_root() -> None:
    for size in (0, 1, 2, 3, 64, 65, 255, 256, 257, 700):
        assert range_hash(NODES, 0, size) == ROOTS[size] == mth(LEAVES[:size])


def test_the_empty_tree_is_consistent_with_every_tree_and_needs_no_proof() -> None:
    assert consistency_path(NODES, 0, 5) == ()
    verify_consistency(old=0, old_root=EMPTY_ROOT, new=5, new_root=ROOTS[5], path=())
    verify_consistency(old=0, old_root=EMPTY_ROOT, new=0, new_root=EMPTY_ROOT, path=())
    with pytest.raises(ProofMalformed):
        verify_consistency(old=0, old_root=EMPTY_ROOT, new=5, new_root=ROOTS[5], path=(ROOTS[1],))
    for old_root, new, new_root in ((ROOTS[1], 5, ROOTS[5]), (EMPTY_ROOT, 0, ROOTS[1])):
        with pytest.raises(ConsistencyInvalid):
            verify_consistency(old=0, old_root=old_root, new=new, new_root=new_root, path=())


def test_two_roots_over_the_same_leaves_are_a_split_view() -> None:
    with pytest.raises(ConsistencyInvalid, match="same number"):
        verify_consistency(old=7, old_root=ROOTS[7], new=7, new_root=ROOTS[8], path=())


@thorough(300)
@given(st.data())
def test_no_changed_proof_of_inclusion_verifies(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(LEAVES)))
    index = data.draw(st.integers(0, size - 1))
    leaf, path, top = leaf_hash(LEAVES[index]), list(inclusion_path(NODES, index, size)), ROOTS[size]
    match data.draw(st.sampled_from(("leaf", "root", "hash", "drop", "add", "swap", "index", "size"))):
        case "leaf":
            leaf = leaf_hash(b"another")
        case "root":
            top = ROOTS[size - 1]
        case "hash" if path:
            at = data.draw(st.integers(0, len(path) - 1))
            path[at] = bytes([path[at][0] ^ 1]) + path[at][1:]
        case "drop" if path:
            del path[data.draw(st.integers(0, len(path) - 1))]
        case "swap" if len(path) > 1:
            path[0], path[1] = path[1], path[0]
        case "index" if size > 1:
            index = data.draw(st.integers(0, size - 1).filter(lambda other: other != index))
        case "size":
            others = st.integers(1, len(LEAVES))
            size = data.draw(others.filter(lambda other: path_length(index, other) != len(path)))
        case _:
            path.append(ROOTS[3])
    with pytest.raises((InclusionInvalid, ProofMalformed)):
        verify_inclusion(leaf, index=index, size=size, path=path, root=top)


def path_length(index: int, size: int) -> int:
    return len(inclusion_path(NODES, index, size)) if index < size else -1


@thorough(300)
@given(st.data())
def test_no_changed_proof_of_consistency_verifies(data: st.DataObject) -> None:
    new = data.draw(st.integers(2, len(LEAVES)))
    old = data.draw(st.integers(1, new - 1))
    path, old_root, new_root = list(consistency_path(NODES, old, new)), ROOTS[old], ROOTS[new]
    match data.draw(st.sampled_from(("old", "new", "hash", "drop", "add"))):
        case "old":
            old_root = ROOTS[old - 1]
        case "new":
            new_root = ROOTS[new - 1]
        case "hash":
            at = data.draw(st.integers(0, len(path) - 1))
            path[at] = bytes([path[at][0] ^ 1]) + path[at][1:]
        case "drop":
            del path[data.draw(st.integers(0, len(path) - 1))]
        case _:
            path.append(ROOTS[3])
    with pytest.raises((ConsistencyInvalid, ProofMalformed)):
        verify_consistency(old=old, old_root=old_root, new=new, new_root=new_root, path=path)


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (-1, 1), (0, MAX_SIZE + 1), (9, 8)])
def test_a_place_outside_of_the_tree_is_refused(index: int, size: int) -> None:
    with pytest.raises(ProofMalformed):
        verify_inclusion(ROOTS[1], index=index, size=size, path=(), root=ROOTS[1])
    with pytest.raises(ProofMalformed):
        inclusion_path(NODES, index, size)


@pytest.mark.parametrize(("old", "new"), [(2, 1), (-1, 1), (1, MAX_SIZE + 1)])
def test_sizes_that_shrink_or_overflow_are_refused(old: int, new: int) -> None:
    with pytest.raises(ProofMalformed):
        verify_consistency(old=old, old_root=ROOTS[1], new=new, new_root=ROOTS[1], path=())
    with pytest.raises(ProofMalformed):
        consistency_path(NODES, old, new)


def test_hashes_of_another_size_or_number_are_refused() -> None:
    for path in ((b"",), (ROOTS[1][:31],), (ROOTS[1],) * 64):
        with pytest.raises(ProofMalformed):
            verify_inclusion(ROOTS[1], index=0, size=2, path=path, root=ROOTS[2])
        with pytest.raises(ProofMalformed):
            verify_consistency(old=1, old_root=ROOTS[1], new=2, new_root=ROOTS[2], path=path)


@pytest.mark.parametrize(("old", "new"), [(2, 5), (4, 9), (4, 700), (64, 700)])
def test_a_root_made_to_fit_a_shorter_proof_is_not_the_root_of_that_many_leaves(old: int, new: int) -> None:
    """A log that lies may sign whatever a cut proof leads to: the sizes say how many hashes there must be."""
    path = consistency_path(NODES, old, new)
    forged = ROOTS[old]
    for digest in path[:-1]:
        forged = hashlib.sha256(b"\x01" + forged + digest).digest()
    with pytest.raises(ProofMalformed, match="too short"):
        verify_consistency(old=old, old_root=ROOTS[old], new=new, new_root=forged, path=path[:-1])


def test_hashes_beyond_the_root_are_refused_for_their_number() -> None:
    path = (*consistency_path(NODES, 3, 7), ROOTS[1])
    with pytest.raises(ProofMalformed, match="too long"):
        verify_consistency(old=3, old_root=ROOTS[3], new=7, new_root=ROOTS[7], path=path)
