"""What is read of a tile is what the root says, or is refused: every tile, trees of every shape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.log_reading.errors import TreeWrong
from affiant.attestation.log_reading.verified_tiles import VerifiedTiles, tile_root
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, tiles_of
from affiant.attestation.tlog.tree import verify_inclusion
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path, range_hash

SIZES = (1, 2, 255, 256, 257, 511, 512, 700, TILE_WIDTH**2 - 1, TILE_WIDTH**2, TILE_WIDTH**2 + 257)
LEAVES = [hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(SIZES[-1])]
NODES = MemoryNodes(LEAVES)


def honest(tile: Tile) -> bytes:
    first = tile.index * TILE_WIDTH
    return b"".join(NODES.node(TILE_HEIGHT * tile.level, first + at) for at in range(tile.width))


def tiles(size: int, read: Callable[[Tile], bytes] = honest) -> VerifiedTiles:
    return VerifiedTiles(size, range_hash(NODES, 0, size), read)


@pytest.mark.parametrize("size", SIZES)
def test_every_tile_of_a_tree_reads_as_it_stands(size: int) -> None:
    found = tiles(size)
    for tile in tiles_of(size):
        assert found.tile(tile) == honest(tile)
    last = size - 1
    path = inclusion_path(found.nodes(), last, size)
    verify_inclusion(LEAVES[last], index=last, size=size, path=path, root=range_hash(NODES, 0, size))


@thorough(60)
@given(data=st.data())
def test_no_tile_with_a_flipped_bit_is_read(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from(SIZES))
    spoilt = data.draw(st.sampled_from(list(tiles_of(size))))
    at = data.draw(st.integers(0, len(honest(spoilt)) * 8 - 1))

    def read(tile: Tile) -> bytes:
        content = bytearray(honest(tile))
        if tile == spoilt:
            content[at // 8] ^= 1 << at % 8
        return bytes(content)

    with pytest.raises(TreeWrong):
        tiles(size, read).tile(spoilt)


def test_a_true_tile_at_another_place_is_not_read() -> None:
    def swapped(tile: Tile) -> bytes:
        return honest(Tile(0, 1 - tile.index) if tile.full and tile.level == 0 and tile.index < 2 else tile)

    found = tiles(700, swapped)
    for index in (0, 1):
        with pytest.raises(TreeWrong, match="at its place"):
            found.tile(Tile(0, index))


def test_a_tile_above_that_fits_a_forged_one_below_is_not_read() -> None:
    """Whoever changes a leaf must change every tile up to the root, and that is signed."""
    forged = b"\0" * 32 + honest(Tile(0, 3))[32:]

    def read(tile: Tile) -> bytes:
        if tile == Tile(0, 3):
            return forged
        content = honest(tile)
        if tile == Tile(1, 0):
            content = content[: 3 * 32] + tile_root(forged) + content[4 * 32 :]
        return content

    found = tiles(SIZES[-1], read)
    assert found.tile(Tile(0, 256)) == honest(Tile(0, 256))
    with pytest.raises(TreeWrong):
        found.tile(Tile(0, 3))


@pytest.mark.parametrize(
    "change", [lambda content: content[:-32], lambda content: content + bytes(32), lambda _: b""]
)
@pytest.mark.parametrize("tile", [Tile(0, 1), Tile(0, 2, 188), Tile(1, 0, 2)])
def test_a_tile_of_another_size_is_refused(tile: Tile, change: Callable[[bytes], bytes]) -> None:
    def read(asked: Tile) -> bytes:
        return change(honest(asked)) if asked == tile else honest(asked)

    with pytest.raises(TileMalformed, match="another size"):
        tiles(700, read).tile(tile)


@pytest.mark.parametrize(
    "tile",
    [Tile(0, 3), Tile(0, 2), Tile(0, 2, 100), Tile(0, 1, 100), Tile(1, 0), Tile(1, 1, 1), Tile(2, 0, 1)],
)
def test_a_tile_that_the_tree_does_not_have_is_not_asked_for(tile: Tile) -> None:
    asked: list[Tile] = []

    def read(wanted: Tile) -> bytes:
        asked.append(wanted)
        return honest(wanted)

    found = tiles(700, read)
    before = len(asked)
    with pytest.raises(TileMalformed):
        found.tile(tile)
    assert asked[before:] == []


@pytest.mark.parametrize("index", [3, 1 << 40])
def test_leaves_beyond_the_tree_are_refused(index: int) -> None:
    with pytest.raises(TileMalformed):
        tiles(700).leaf_hashes(index)


def test_the_edge_of_another_tree_of_the_same_size_is_refused_at_once() -> None:
    with pytest.raises(TreeWrong):
        VerifiedTiles(700, range_hash(NODES, 0, 699), honest)


def test_a_long_read_keeps_few_tiles() -> None:
    asked: list[Tile] = []

    def read(tile: Tile) -> bytes:
        asked.append(tile)
        return honest(tile)

    found = tiles(SIZES[-1], read)
    for index in range(SIZES[-1] // TILE_WIDTH):
        found.leaf_hashes(index)
    assert len(found._kept) <= 64
    assert len(asked) == len(set(asked))
