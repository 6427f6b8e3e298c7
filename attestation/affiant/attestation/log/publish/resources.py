"""Lists the resources that a store must hold, with their bytes, each verified against the signed root first.

What was published under a retention lock cannot be taken back: so a tile or bundle that was damaged on the disk is
refused here, and not found by readers later.
"""

from __future__ import annotations

from collections.abc import Iterator

from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.log_reading.errors import LeafWrong
from affiant.attestation.log_reading.reader import read_bundle, read_tile
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.log_reading.verified_tiles import VerifiedTiles
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.tiles import (
    TILE_HEIGHT,
    TILE_WIDTH,
    EntryBundle,
    Tile,
    bundles_of,
    encode_bundle,
)
from affiant.attestation.tlog.tree_paths import range_hash

__all__ = ["ReadyLog", "count_of", "implied_by", "resources_of"]

_MAX_LEVEL = 7


def resources_of(size: int, since: int = 0) -> Iterator[Tile | EntryBundle]:
    """The tiles and bundles of a tree of ``size`` leaves that one of ``since`` leaves has not, bundles first."""
    if size > since:
        yield from bundles_of(size, since)
    for level in range(_MAX_LEVEL + 1):
        count, first = size >> (TILE_HEIGHT * level), since >> (TILE_HEIGHT * level)
        if count > first:
            for index in range(first // TILE_WIDTH, -(-count // TILE_WIDTH)):
                yield Tile(level, index, min(TILE_WIDTH, count - index * TILE_WIDTH))


def count_of(size: int, since: int = 0) -> int:
    """How many :func:`resources_of` gives."""
    total = 0
    for level in range(_MAX_LEVEL + 1):
        count, first = size >> (TILE_HEIGHT * level), since >> (TILE_HEIGHT * level)
        if count > first:
            each = 2 if level == 0 else 1  # each tile of level 0 has a bundle
            total += each * (-(-count // TILE_WIDTH) - first // TILE_WIDTH)
    return total


def implied_by(resource: Tile | EntryBundle, size: int) -> bool:
    """Whether all that ``resource`` holds is of the tree of ``size`` leaves."""
    level = resource.level if isinstance(resource, Tile) else 0
    return resource.index * TILE_WIDTH + resource.width <= size >> (TILE_HEIGHT * level)


class ReadyLog:
    """The log under one checkpoint, read from where its writer keeps it.

    Raises:
        TreeWrong, ResourceMissing, TileMalformed: the files are not those of this checkpoint.
    """

    __slots__ = ("_source", "_tiles", "checkpoint")

    def __init__(self, source: LogSource, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._source = source
        self._tiles = VerifiedTiles(checkpoint.size, checkpoint.root, lambda tile: read_tile(source, tile))

    def root_at(self, size: int) -> bytes:
        """The root over the first ``size`` leaves."""
        return range_hash(self._tiles.nodes(), 0, size)

    def content(self, resource: Tile | EntryBundle) -> bytes:
        """The bytes of ``resource``, one that :func:`resources_of` this size gives.

        Raises:
            TreeWrong, LeafWrong, ResourceMissing, TileMalformed: it is not what the root implies.
        """
        if isinstance(resource, Tile):
            return self._tiles.tile(resource)
        leaves = read_bundle(self._source, resource)
        if b"".join(map(leaf_hash, leaves)) != self._tiles.leaf_hashes(resource.index):
            raise LeafWrong("an entry bundle holds another leaf than the tree", where=resource.path())
        return encode_bundle(leaves)
