"""Tiles: names, widths and contents as the specification has them; proofs from tiles are those from the tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tlog.conftest import LEAVES, NODES

from affiant.attestation.encoding.merkle import root
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.tiles import (
    EntryBundle,
    Tile,
    TileNodes,
    bundles_of,
    decode_bundle,
    encode_bundle,
    parse_path,
    tiles_of,
)
from affiant.attestation.tlog.tree_paths import consistency_path, inclusion_path, range_hash


def read(tile: Tile) -> bytes:
    first = tile.index * 256
    return b"".join(NODES.node(8 * tile.level, index) for index in range(first, first + tile.width))


def test_a_tree_of_70_000_leaves_has_the_tiles_of_the_specification() -> None:
    tiles = list(tiles_of(70_000))
    assert sum(tile.full and tile.level == 0 for tile in tiles) == 273
    assert [tile.path() for tile in tiles if tile.level == 1] == ["tile/1/000", "tile/1/001.p/17"]
    assert [tile.path() for tile in tiles if not tile.full] == [
        "tile/0/273.p/112",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
    ]
    assert [tile.path() for tile in tiles_of(256)] == ["tile/0/000", "tile/1/000.p/1"]
    assert list(tiles_of(0)) == []


def test_large_indexes_are_written_in_groups() -> None:
    assert Tile(0, 1234067).path() == "tile/0/x001/x234/067"
    assert EntryBundle(1234067, 8).path() == "tile/entries/x001/x234/067.p/8"
    assert EntryBundle(1000).path() == "tile/entries/x001/000"


@given(st.integers(0, 7), st.integers(0, 2**55), st.integers(1, 256))
def test_every_path_is_read_back(level: int, index: int, width: int) -> None:
    for resource in (Tile(level, index, width), EntryBundle(index, width)):
        assert parse_path(resource.path()) == resource


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile",
        "tile/0",
        "tile/0/0",
        "tile/0/0000",
        "tile/8/000",
        "tile/00/000",
        "tile/0/x000/000",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000/",
        "tile/0/../000",
        "tile/0/001/000",
        "/tile/0/000",
        "tile/Entries/000",
        "tile/0/" + "x001/" * 7 + "000",
        "tile/0/٠٠٠",
        "checkpoint",
    ],
)
def test_what_names_no_tile_is_refused(path: str) -> None:
    with pytest.raises(TileMalformed):
        parse_path(path)


def test_the_bundles_of_a_range_begin_with_the_one_that_holds_its_first_leaf() -> None:
    assert [bundle.path() for bundle in bundles_of(700, 300)] == [
        "tile/entries/001",
        "tile/entries/002.p/188",
    ]
    assert list(bundles_of(512, 512)) == []
    assert list(bundles_of(0)) == []


def test_bundles_are_written_and_read_back() -> None:
    entries = (b"", b"a", b"x" * 65535)
    assert decode_bundle(encode_bundle(entries), 3) == entries
    with pytest.raises(TileMalformed):
        encode_bundle([b"x" * 65536])


@given(st.binary(max_size=64), st.integers(1, 256))
def test_no_bytes_are_left_over_or_missing_in_a_bundle(data: bytes, width: int) -> None:
    try:
        entries = decode_bundle(data, width)
    except TileMalformed:
        return
    assert len(entries) == width
    assert encode_bundle(entries) == data


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 513, 700])
def test_proofs_from_tiles_are_those_from_the_tree(size: int) -> None:
    nodes = TileNodes(size, read)
    assert range_hash(nodes, 0, size) == root(LEAVES[:size])
    for index in {0, size // 2, size - 1}:
        assert inclusion_path(nodes, index, size) == inclusion_path(NODES, index, size)
    for old in {1, size // 3 or 1, size}:
        assert consistency_path(nodes, old, size) == consistency_path(NODES, old, size)


def test_each_tile_is_read_once_and_no_more_than_are_needed() -> None:
    asked: list[str] = []

    def counted(tile: Tile) -> bytes:
        asked.append(tile.path())
        return read(tile)

    inclusion_path(TileNodes(700, counted), 5, 700)
    assert sorted(asked) == ["tile/0/000", "tile/0/002.p/188", "tile/1/000.p/2"]


def test_a_tile_of_another_size_is_refused() -> None:
    for wrong in (lambda tile: read(tile)[:-1], lambda tile: read(tile) + b"\0", lambda _: b""):
        with pytest.raises(TileMalformed):
            range_hash(TileNodes(300, wrong), 0, 300)
    with pytest.raises(TileMalformed):
        TileNodes(300, read).node(0, 300)
    with pytest.raises(TileMalformed):
        TileNodes(300, read).node(8, 1)
    with pytest.raises(TileMalformed):
        TileNodes(300, read).node(7, 2)


def test_there_is_no_tile_outside_of_the_levels() -> None:
    for values in ((-1, 0, 1), (8, 0, 1), (0, -1, 1), (0, 0, 0), (0, 0, 257)):
        with pytest.raises(TileMalformed):
            Tile(*values)
    with pytest.raises(TileMalformed):
        EntryBundle(0, 0)
