"""Growth: whatever the batches, the files are those of the tree, and a resumed log goes on as if it had never ended."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.merkle import leaf_hash, root
from affiant.attestation.tlog.errors import ConsistencyInvalid, TileMalformed
from affiant.attestation.tlog.growth import Growth
from affiant.attestation.tlog.tiles import (
    EntryBundle,
    Tile,
    TileNodes,
    bundles_of,
    decode_bundle,
    tiles_of,
)
from affiant.attestation.tlog.tree import EMPTY_ROOT
from affiant.attestation.tlog.tree_paths import MemoryNodes, range_hash


def leaves(count: int, start: int = 0) -> list[bytes]:
    return [hashlib.sha256(number.to_bytes(4, "big")).digest() * 2 for number in range(start, start + count)]


def grow_all(batches: list[int]) -> tuple[Growth, dict[str, bytes]]:
    growth, files = Growth(), dict[str, bytes]()
    for batch in batches:
        grown = growth.grow(leaves(batch, growth.size))
        assert grown.size == growth.size
        files |= dict(grown.objects)
    return growth, files


@thorough(60)
@given(st.lists(st.integers(0, 400), max_size=6))
def test_whatever_the_batches_the_files_and_the_root_are_those_of_the_tree(batches: list[int]) -> None:
    growth, files = grow_all(batches)
    size, entries = sum(batches), leaves(sum(batches))
    assert (growth.size, growth.root) == (size, root(entries))
    nodes = MemoryNodes(map(leaf_hash, entries))
    for tile in tiles_of(size):
        first = tile.index * 256
        expected = b"".join(nodes.node(8 * tile.level, first + at) for at in range(tile.width))
        assert files[tile.path()] == expected
    held: list[bytes] = []
    for bundle in bundles_of(size):
        held += decode_bundle(files[bundle.path()], bundle.width)
    assert held == entries


def test_a_tree_of_70_000_leaves_has_exactly_the_files_of_the_specification() -> None:
    growth, files = grow_all([70_000])
    expected = {tile.path() for tile in tiles_of(70_000)} | {bundle.path() for bundle in bundles_of(70_000)}
    assert set(files) == expected
    read = TileNodes(70_000, lambda tile: files[tile.path()])
    assert range_hash(read, 0, 70_000) == growth.root


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 511, 512, 700, 65_535, 65_536, 65_537])
def test_a_resumed_log_goes_on_as_if_it_had_never_ended(size: int) -> None:
    growth, files = grow_all([size])

    def read(resource: Tile | EntryBundle) -> bytes:
        return files[resource.path()]

    resumed = Growth.resume(size, growth.root, read)
    more = leaves(300, size)
    assert resumed.grow(more) == growth.grow(more)


def test_what_is_of_another_tree_is_never_gone_on_with() -> None:
    growth, files = grow_all([700])
    _, others = grow_all([600])
    edge = [tile.path() for tile in tiles_of(700) if not tile.full] + [EntryBundle(2, 188).path()]
    for path in edge:
        for wrong in (files[path][:-1] + bytes((files[path][-1] ^ 1,)), files[path][:-32], b""):
            changed = files | {path: wrong}
            with pytest.raises((ConsistencyInvalid, TileMalformed)):
                Growth.resume(700, growth.root, lambda resource, held=changed: held[resource.path()])
    with pytest.raises(ConsistencyInvalid):
        Growth.resume(700, EMPTY_ROOT, lambda resource: files[resource.path()])
    with pytest.raises((ConsistencyInvalid, TileMalformed, KeyError)):
        Growth.resume(600, growth.root, lambda resource: others[resource.path()])


def test_nothing_new_writes_nothing() -> None:
    growth, _ = grow_all([5])
    assert growth.grow([]).objects == ()
    assert Growth().root == EMPTY_ROOT
