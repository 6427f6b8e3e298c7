"""Verifies tiles up to one root: each is compared with the hash in the tile above it.

1. The partial tiles of a tree are its right edge, at most one on each level; together they determine the root, and are
   compared with it first.
2. A full tile counts if the root over its 256 hashes is the hash that the tile above has for it, which counts itself.

So whatever is read here is what the log signed, in memory for a few tiles, without the rest of the tree.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from affiant.attestation.encoding.merkle import node_hash
from affiant.attestation.log_reading.errors import TreeWrong
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, TileNodes
from affiant.attestation.tlog.tree import HASH_SIZE
from affiant.attestation.tlog.tree_paths import range_hash

__all__ = ["VerifiedTiles", "tile_root"]

_KEPT: Final = 64
"""Full tiles that are kept: 512 KiB. What is read in order needs one on each level."""


def tile_root(hashes: bytes) -> bytes:
    """The root over the 256 hashes of a full tile."""
    row = [hashes[at : at + HASH_SIZE] for at in range(0, len(hashes), HASH_SIZE)]
    while len(row) > 1:
        row = [node_hash(left, right) for left, right in zip(row[::2], row[1::2], strict=True)]
    return row[0]


class VerifiedTiles:
    """The tiles of the tree of ``size`` leaves with this ``root``.

    Args:
        read: a tile -> its bytes; what it gives is believed for nothing.

    Raises:
        TreeWrong: the tree's right edge is another tree's.
        TileMalformed: a tile of another size.
    """

    __slots__ = ("_edge", "_kept", "_read", "_size")

    def __init__(self, size: int, root: bytes, read: Callable[[Tile], bytes]) -> None:
        self._size = size
        self._read = read
        self._edge: dict[Tile, bytes] = {}
        self._kept: OrderedDict[Tile, bytes] = OrderedDict()
        found = range_hash(TileNodes(size, self._edge_tile), 0, size)  # 1
        if not hmac.compare_digest(found, root):
            raise TreeWrong(
                "the tiles are those of another tree",
                expected=f"the root {root.hex()} over {size} leaves",
                found=found.hex(),
            )

    def nodes(self) -> TileNodes:
        """The complete subtrees of the tree, for proofs."""
        return TileNodes(self._size, self.tile)

    def leaf_hashes(self, index: int) -> bytes:
        """The hashes of the ``index``-th tile of level 0, as many as the tree has."""
        return self.tile(self._named(0, index))

    def tile(self, tile: Tile) -> bytes:
        """The bytes of ``tile``, a tile of this tree.

        Raises:
            TreeWrong: it is another tree's.
            TileMalformed: the tree has no such tile, or it has another size.
        """
        if (edge := self._edge.get(tile)) is not None:
            return edge
        if (kept := self._kept.get(tile)) is not None:
            self._kept.move_to_end(tile)
            return kept
        if tile != self._named(tile.level, tile.index) or not tile.full:
            raise TileMalformed("the tree has no such tile", found=tile.path())
        above = self.tile(self._named(tile.level + 1, tile.index // TILE_WIDTH))
        at = tile.index % TILE_WIDTH * HASH_SIZE
        hashes = self._sized(tile)
        if not hmac.compare_digest(tile_root(hashes), above[at : at + HASH_SIZE]):  # 2
            raise TreeWrong("a tile is not the one that the tree has at its place", where=tile.path())
        self._kept[tile] = hashes
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return hashes

    def _edge_tile(self, tile: Tile) -> bytes:
        """The right edge is all that the root of the whole tree is computed from."""
        if tile.full:
            raise TileMalformed(
                "a full tile is no edge", found=tile.path()
            )  # pragma: no cover - RFC 9162's shape
        self._edge[tile] = self._sized(tile)
        return self._edge[tile]

    def _sized(self, tile: Tile) -> bytes:
        hashes = self._read(tile)
        if len(hashes) != tile.width * HASH_SIZE:
            raise TileMalformed(
                "a tile of another size",
                where=tile.path(),
                expected=f"{tile.width * HASH_SIZE} bytes",
                found=len(hashes),
            )
        return hashes

    def _named(self, level: int, index: int) -> Tile:
        width = min(TILE_WIDTH, (self._size >> (TILE_HEIGHT * level)) - index * TILE_WIDTH)
        if width <= 0:
            raise TileMalformed("the tree has no such tile", found=f"level {level}, index {index}")
        return Tile(level, index, width)
