"""Grows a log: new leaves in, the files that change out, in the order in which they may be written.

Holds the right edge of the tree alone: at most 255 hashes for each of 8 levels, and at most 255 leaves. Pure: its owner
writes the objects of a :class:`Grown` durably, and only then signs the checkpoint over its size and root. A full tile
never changes again; the partial ones of an older size may be removed once their full tile is there.

>>> growth = Growth()
>>> grown = growth.grow([b"one", b"two"])
>>> grown.size, [path for path, _ in grown.objects]
(2, ['tile/entries/000.p/2', 'tile/0/000.p/2'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from affiant.attestation.encoding.merkle import leaf_hash, node_hash
from affiant.attestation.tlog.errors import ConsistencyInvalid, TileMalformed
from affiant.attestation.tlog.tiles import (
    TILE_HEIGHT,
    TILE_WIDTH,
    EntryBundle,
    Tile,
    decode_bundle,
    encode_bundle,
)
from affiant.attestation.tlog.tree import EMPTY_ROOT, HASH_SIZE, MAX_SIZE

__all__ = ["Grown", "Growth"]


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree after it grew.

    Args:
        first: index of the first new leaf.
        size, root: of the whole tree.
        objects: path and bytes of every file that the new size demands and the old one did not.
    """

    first: int
    size: int
    root: bytes
    objects: tuple[tuple[str, bytes], ...] = field(repr=False)


class Growth:
    """The right edge of a tree. Begins empty, or where a tree was left: :meth:`resume`."""

    __slots__ = ("_entries", "_rows", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._entries: list[bytes] = []
        self._rows: list[list[bytes]] = [[]]

    @classmethod
    def resume(cls, size: int, root: bytes, read: Callable[[Tile | EntryBundle], bytes]) -> Self:
        """The edge of the tree of ``size`` leaves, from its own files, which must lead to ``root``.

        Args:
            size, root: as the log's last checkpoint says, under its own signature.
            read: a tile or bundle of that size -> its bytes, believed for nothing.

        Raises:
            TileMalformed: a file has another size.
            ConsistencyInvalid: the files are of another tree: going on would fork the log.
        """
        growth = cls()
        growth._size = size
        if width := size % TILE_WIDTH:
            bundle = EntryBundle(size // TILE_WIDTH, width)
            growth._entries = list(decode_bundle(read(bundle), width))
        level, count = 0, size
        while count:
            growth._rows += [[]] * (level + 1 - len(growth._rows))
            growth._rows[level] = _row(read, level, count)
            level, count = level + 1, count // TILE_WIDTH
        if [leaf_hash(entry) for entry in growth._entries] != growth._rows[0] or growth.root != root:
            raise ConsistencyInvalid(
                "the files of the log are of another tree than its checkpoint", found=size
            )
        return growth

    @property
    def size(self) -> int:
        """Leaves so far."""
        return self._size

    @property
    def root(self) -> bytes:
        """The 32-byte root over all of them."""
        peaks = [peak for row in reversed(self._rows) for peak in _peaks(row)]
        if not peaks:
            return EMPTY_ROOT
        digest = peaks.pop()
        while peaks:
            digest = node_hash(peaks.pop(), digest)
        return digest

    def grow(self, entries: Iterable[bytes]) -> Grown:
        """Append ``entries``, each at most 65,535 bytes.

        Raises:
            TileMalformed: a leaf that is larger, or more leaves than a tree may have. The value must not be used again.
        """
        first = self._size
        objects: list[tuple[str, bytes]] = []
        for entry in entries:
            self._size += 1
            self._entries.append(entry)
            self._push(0, leaf_hash(entry), objects)
        if self._size > MAX_SIZE:
            raise TileMalformed("more leaves than a tree may have")
        if self._size > first:
            objects += self._edge()
        return Grown(first, self._size, self.root, tuple(objects))

    def _push(self, level: int, digest: bytes, objects: list[tuple[str, bytes]]) -> None:
        """Add one hash to the row of ``level``; a row that is full becomes a tile, and one hash above."""
        if level == len(self._rows):
            self._rows.append([])
        row = self._rows[level]
        row.append(digest)
        if len(row) < TILE_WIDTH:
            return
        index = (self._size >> (TILE_HEIGHT * (level + 1))) - 1
        if level == 0:
            objects.append((EntryBundle(index).path(), encode_bundle(self._entries)))
            self._entries = []
        objects.append((Tile(level, index).path(), b"".join(row)))
        self._rows[level] = []
        self._push(level + 1, _peaks(row)[0], objects)

    def _edge(self) -> list[tuple[str, bytes]]:
        """The partial files of this size."""
        objects: list[tuple[str, bytes]] = []
        if self._entries:
            bundle = EntryBundle(self._size // TILE_WIDTH, len(self._entries))
            objects.append((bundle.path(), encode_bundle(self._entries)))
        for level, row in enumerate(self._rows):
            if row:
                index = self._size >> (TILE_HEIGHT * (level + 1))
                objects.append((Tile(level, index, len(row)).path(), b"".join(row)))
        return objects


def _row(read: Callable[[Tile | EntryBundle], bytes], level: int, count: int) -> list[bytes]:
    """The hashes of the partial tile at the right end of ``level``, which has ``count`` hashes in all."""
    width = count % TILE_WIDTH
    if width == 0:
        return []
    data = read(Tile(level, count // TILE_WIDTH, width))
    if len(data) != width * HASH_SIZE:
        raise TileMalformed("a tile of another size", expected=f"{width * HASH_SIZE} bytes", found=len(data))
    return [data[at : at + HASH_SIZE] for at in range(0, len(data), HASH_SIZE)]


def _peaks(row: list[bytes]) -> list[bytes]:
    """The roots of the complete subtrees that a row's hashes make, largest first."""
    peaks, at = [], 0
    for height in range(TILE_HEIGHT, -1, -1):
        if len(row) & (1 << height):
            part = row[at : at + (1 << height)]
            at += 1 << height
            while len(part) > 1:
                part = [node_hash(left, right) for left, right in zip(part[::2], part[1::2], strict=True)]
            peaks.append(part[0])
    return peaks
