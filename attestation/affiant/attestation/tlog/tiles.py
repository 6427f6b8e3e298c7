"""Encodes the tree and its entries as static files: C2SP tlog-tiles.

::

    checkpoint                       the signed note
    tile/<L>/<N>[.p/<W>]             256 hashes of level 8 * L; partial: the first W of them
    tile/entries/<N>[.p/<W>]         the leaves under tile 0/<N>, each with its length in 2 bytes, big-endian

``<N>`` is written in groups of three digits, all but the last after an ``x``: 1234067 is ``x001/x234/067``. A full
tile never changes and is never removed; a partial one is replaced by the full one. Which tiles there are follows from
the size of the tree alone, so that a reader asks for nothing that a signed checkpoint does not imply.

>>> [tile.path() for tile in tiles_of(70_000) if tile.width < 256]
['tile/0/273.p/112', 'tile/1/001.p/17', 'tile/2/000.p/1']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.merkle import node_hash
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.tree import HASH_SIZE

__all__ = [
    "CHECKPOINT_PATH",
    "TILE_HEIGHT",
    "TILE_WIDTH",
    "EntryBundle",
    "Tile",
    "TileNodes",
    "bundles_of",
    "decode_bundle",
    "encode_bundle",
    "parse_path",
    "tiles_of",
]

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 256
CHECKPOINT_PATH: Final = "checkpoint"
_MAX_LEVEL: Final = 7
"""A tree of 2**63 leaves has no tile above level 7."""
_PATH: Final = re.compile(r"tile/([0-7]|entries)/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?\Z")
_MAX_ENTRY: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile: level 0 to 7, index, and how many of its 256 hashes there are."""

    level: int
    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if not (0 <= self.level <= _MAX_LEVEL and self.index >= 0 and 0 < self.width <= TILE_WIDTH):
            raise TileMalformed("there is no such tile", found=f"{self.level}/{self.index} of {self.width}")

    @property
    def full(self) -> bool:
        """Whether it never changes any more."""
        return self.width == TILE_WIDTH

    def path(self) -> str:
        """Where it stands."""
        return f"tile/{self.level}/{_place(self.index, self.width)}"


@dataclass(frozen=True, slots=True)
class EntryBundle:
    """The leaves under one tile of level 0."""

    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if self.index < 0 or not 0 < self.width <= TILE_WIDTH:
            raise TileMalformed("there is no such entry bundle", found=f"{self.index} of {self.width}")

    @property
    def full(self) -> bool:
        """Whether it never changes any more."""
        return self.width == TILE_WIDTH

    def path(self) -> str:
        """Where it stands."""
        return f"tile/entries/{_place(self.index, self.width)}"


def tiles_of(size: int) -> Iterator[Tile]:
    """Every tile of a tree of ``size`` leaves, by level and index."""
    for level in range(_MAX_LEVEL + 1):
        count = size >> (TILE_HEIGHT * level)
        if count == 0:
            return
        for index in range(count // TILE_WIDTH):
            yield Tile(level, index)
        if partial := count % TILE_WIDTH:
            yield Tile(level, count // TILE_WIDTH, partial)


def bundles_of(size: int, start: int = 0) -> Iterator[EntryBundle]:
    """Every entry bundle of a tree of ``size`` leaves, from the one that holds leaf ``start`` on."""
    for index in range(start // TILE_WIDTH, size // TILE_WIDTH):
        yield EntryBundle(index)
    if size % TILE_WIDTH:
        yield EntryBundle(size // TILE_WIDTH, size % TILE_WIDTH)


def parse_path(path: str) -> Tile | EntryBundle:
    """The resource that ``path`` names.

    Raises:
        TileMalformed: none, or one that is spelled otherwise.
    """
    if (match := _PATH.match(path)) is None:
        raise TileMalformed("not the path of a tile or an entry bundle", found=repr(path[:60]))
    level, place, partial = match.groups()
    index = int(place.replace("/", "").replace("x", ""))
    width = TILE_WIDTH if partial is None else int(partial)
    if width > TILE_WIDTH - (partial is not None):
        raise TileMalformed("a partial tile of that width is none", expected="1 to 255", found=width)
    resource = EntryBundle(index, width) if level == "entries" else Tile(int(level), index, width)
    if resource.path() != path:
        raise TileMalformed(
            "a path that is spelled otherwise", expected=resource.path(), found=repr(path[:60])
        )
    return resource


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    """The leaves, each of at most 65,535 bytes, behind their lengths.

    Raises:
        TileMalformed: a leaf that is larger.
    """
    parts: list[bytes] = []
    for entry in entries:
        if len(entry) > _MAX_ENTRY:
            raise TileMalformed(
                "a leaf is too large", expected=f"at most {_MAX_ENTRY} bytes", found=len(entry)
            )
        parts += (len(entry).to_bytes(2, "big"), entry)
    return b"".join(parts)


def decode_bundle(data: bytes, width: int) -> tuple[bytes, ...]:
    """The ``width`` leaves in ``data``, and nothing else.

    Raises:
        TileMalformed: fewer, more, or one that is cut short.
    """
    entries: list[bytes] = []
    at = 0
    while at < len(data) and len(entries) < width:
        start = at + 2
        at = start + int.from_bytes(data[at:start], "big")
        if start > len(data) or at > len(data):
            raise TileMalformed("an entry bundle is cut short", found=f"{len(entries)} whole leaves")
        entries.append(data[start:at])
    if len(entries) != width or at != len(data):
        raise TileMalformed(
            "an entry bundle of another width", expected=f"{width} leaves", found=len(entries)
        )
    return tuple(entries)


class TileNodes:
    """Complete subtrees, read from tiles: ``Nodes``.

    Args:
        size: of the tree that the tiles are of; they hold every subtree of it, and of no larger one.
        read: a tile -> its bytes, ``width`` times 32. Asked once for each; what it gives is believed for nothing until
            a root that is computed from it is compared with a signed one.
    """

    __slots__ = ("_read", "_size", "_tiles")

    def __init__(self, size: int, read: Callable[[Tile], bytes]) -> None:
        self._size = size
        self._read = read
        self._tiles: dict[tuple[int, int], bytes] = {}

    def node(self, level: int, index: int) -> bytes:
        """As ``Nodes.node``.

        Raises:
            TileMalformed: the tree has no such subtree, or a tile has another size.
        """
        tile_level, within = divmod(level, TILE_HEIGHT)
        first, count = index << within, 1 << within
        hashes = self._tile(tile_level, first // TILE_WIDTH)
        at = (first % TILE_WIDTH) * HASH_SIZE
        row = [hashes[offset : offset + HASH_SIZE] for offset in range(at, at + count * HASH_SIZE, HASH_SIZE)]
        if len(row[-1]) != HASH_SIZE:
            raise TileMalformed("the tree has no such subtree", found=f"level {level}, index {index}")
        while len(row) > 1:
            row = [node_hash(left, right) for left, right in zip(row[::2], row[1::2], strict=True)]
        return row[0]

    def _tile(self, level: int, index: int) -> bytes:
        known = self._tiles.get((level, index))
        if known is None:
            width = min(TILE_WIDTH, (self._size >> (TILE_HEIGHT * level)) - index * TILE_WIDTH)
            if width <= 0:
                raise TileMalformed("the tree has no such tile", found=f"level {level}, index {index}")
            known = self._read(Tile(level, index, width))
            if len(known) != width * HASH_SIZE:
                raise TileMalformed(
                    "a tile of another size", expected=f"{width * HASH_SIZE} bytes", found=len(known)
                )
            self._tiles[level, index] = known
        return known


def _place(index: int, width: int) -> str:
    groups = [f"{index % 1000:03d}"]
    while (index := index // 1000) > 0:
        groups.append(f"x{index % 1000:03d}")
    place = "/".join(reversed(groups))
    return place if width == TILE_WIDTH else f"{place}.p/{width}"
