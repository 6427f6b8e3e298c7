"""Checks that every file of a log is what its checkpoint implies: it computes the whole tree again from the leaves.

1. Each entry bundle is read in order; its leaves are leaves of this log.
2. From them each tile is computed, on every level, and compared with the one in the log.
3. The root over all of it is the signed one.
4. In a folder: no file is there that no log has; a partial tile of an earlier checkpoint is the beginning of what has
   grown from it.

What is wrong is gathered, up to a bound, and the walk goes on: where a bundle cannot be read, with the hashes of its
tile. Memory: one tile for each level, whatever the size of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from affiant.attestation.anchors.anchor_files import ANCHOR_FILE
from affiant.attestation.encoding.merkle import leaf_hash, node_hash
from affiant.attestation.log.fsck.report import MAX_PROBLEMS, FsckReport, Problem
from affiant.attestation.log_reading.reader import read_bundle, read_tile
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.log_reading.verified_tiles import tile_root
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.errors import EntryMalformed, TileMalformed
from affiant.attestation.tlog.tiles import (
    CHECKPOINT_PATH,
    TILE_HEIGHT,
    TILE_WIDTH,
    EntryBundle,
    Tile,
    bundles_of,
    parse_path,
)
from affiant.attestation.tlog.tree import EMPTY_ROOT, HASH_SIZE
from affiant.errors import AffiantError, UnreachableError

__all__ = ["check_log"]

_MAX_LEVEL: Final = 7


def check_log(source: LogSource, checkpoint: Checkpoint, *, progress: Callable[[int], None]) -> FsckReport:
    """Hold the whole log against ``checkpoint``, which the caller has verified.

    Args:
        progress: called with the number of leaves done, after each bundle.

    Raises:
        UnreachableError: the place cannot be read now.
    """
    walk = _Walk(source, checkpoint)
    for bundle in bundles_of(checkpoint.size):
        walk.bundle(bundle)
        progress(bundle.index * TILE_WIDTH + bundle.width)
    walk.finish()
    paths = getattr(source, "paths", None)
    if paths is not None:
        for path, regular in paths():
            walk.file(path, regular=regular)
    return FsckReport(
        checkpoint, tuple(walk.problems), walk.count, walk.tiles, walk.bundles, walk.ahead, paths is not None
    )


_GATEWAY_FILES: Final = frozenset({"index.sqlite", "index.sqlite-shm", "index.sqlite-wal", "vkey"})
_GATEWAY_KEY: Final = "key.json"


class _Walk:
    """The leaves so far, as the last hashes of each level."""

    def __init__(self, source: LogSource, checkpoint: Checkpoint) -> None:
        self.problems: list[Problem] = []
        self.count = self.tiles = self.bundles = self.ahead = 0
        self._source = source
        self._checkpoint = checkpoint
        self._rows: list[bytearray] = [bytearray() for _ in range(_MAX_LEVEL + 1)]
        self._done = [0] * (_MAX_LEVEL + 1)
        """Full tiles so far, by level."""

    def bundle(self, bundle: EntryBundle) -> None:
        self.bundles += 1
        hashes = self._leaf_hashes(bundle)
        if hashes is None:  # go on with what the tree itself says of these leaves
            hashes = self._stored(Tile(0, bundle.index, bundle.width)) or bytes(HASH_SIZE * bundle.width)
        self._rows[0] += hashes
        if bundle.full:
            self._full(0)

    def finish(self) -> None:
        for level in range(_MAX_LEVEL + 1):
            if row := self._rows[level]:
                self._compare(Tile(level, self._done[level], len(row) // HASH_SIZE), bytes(row))
        found = _root(self._rows)
        if found != self._checkpoint.root:
            self._add(
                "log.root",
                CHECKPOINT_PATH,
                f"the leaves lead to {found.hex()}, signed is {self._checkpoint.root.hex()}",
            )

    def file(self, path: str, *, regular: bool) -> None:
        if not regular:
            self._add("log.path", path, "a link, or no regular file")
            return
        if path == CHECKPOINT_PATH:
            return
        try:
            resource = parse_path(path)
        except TileMalformed:
            if _is_anchor(path) or self._kept_by_a_gateway(path):
                return  # `affiant log anchors` judges the former
            self._add("log.foreign", path, "no file of a log", Severity.WARNING)
            return
        level = resource.level if isinstance(resource, Tile) else 0
        there = (self._checkpoint.size >> (TILE_HEIGHT * level)) - resource.index * TILE_WIDTH
        if resource.width > there:
            self.ahead += 1
        elif not resource.full and resource.width != there:
            self._earlier(resource, min(there, TILE_WIDTH))

    def _kept_by_a_gateway(self, path: str) -> bool:
        """What it keeps in its log's folder; in a copy that others can read the key is a file too many."""
        if path == _GATEWAY_KEY:
            private: Callable[[str], bool] = getattr(self._source, "private", lambda _: False)
            return private(path)
        return path in _GATEWAY_FILES

    def _leaf_hashes(self, bundle: EntryBundle) -> bytes | None:
        try:
            leaves = read_bundle(self._source, bundle)
        except UnreachableError:
            raise
        except AffiantError as error:
            self._add(error.code, bundle.path(), str(error))
            return None
        for leaf in leaves:
            try:
                parse_entry(leaf)
            except EntryMalformed as error:
                self._add(error.code, bundle.path(), str(error))
        return b"".join(map(leaf_hash, leaves))

    def _full(self, level: int) -> None:
        """A row is complete: it is a tile, and one hash of the level above."""
        row = bytes(self._rows[level])
        self._compare(Tile(level, self._done[level]), row)
        self._rows[level].clear()
        self._done[level] += 1
        self._rows[level + 1] += tile_root(row)
        if len(self._rows[level + 1]) == TILE_WIDTH * HASH_SIZE:
            self._full(level + 1)

    def _compare(self, tile: Tile, computed: bytes) -> None:
        self.tiles += 1
        stored = self._stored(tile)
        if stored is not None and stored != computed:
            at = next(at for at in range(tile.width) if _hash(stored, at) != _hash(computed, at))
            below = (
                EntryBundle(tile.index, tile.width).path() if tile.level == 0 else f"level {tile.level - 1}"
            )
            self._add("log.tile_wrong", tile.path(), f"hash {at} is not the one that {below} leads to")

    def _stored(self, tile: Tile) -> bytes | None:
        try:
            return read_tile(self._source, tile)
        except UnreachableError:
            raise
        except AffiantError as error:
            self._add(error.code, tile.path(), str(error))
            return None

    def _earlier(self, resource: Tile | EntryBundle, width: int) -> None:
        """A partial resource of an earlier checkpoint: the beginning of the one that has grown from it."""
        try:
            grown = self._items(resource, width)
        except UnreachableError:
            raise
        except AffiantError:
            return  # named already
        try:
            same = grown[: resource.width] == self._items(resource, resource.width)
        except UnreachableError:
            raise
        except AffiantError as error:
            self._add(error.code, resource.path(), str(error))
            return
        if not same:
            self._add("log.tile_wrong", resource.path(), "not the beginning of what has grown from it")

    def _items(self, resource: Tile | EntryBundle, width: int) -> tuple[bytes, ...]:
        """The hashes or leaves of the resource at this place, with ``width`` of them."""
        if isinstance(resource, EntryBundle):
            return read_bundle(self._source, EntryBundle(resource.index, width))
        hashes = read_tile(self._source, Tile(resource.level, resource.index, width))
        return tuple(_hash(hashes, at) for at in range(width))

    def _add(self, code: str, path: str, detail: str, severity: Severity = Severity.CONTRAINDICATED) -> None:
        self.count += 1
        problem = Problem(code, path, detail, severity)
        if problem in self.problems:
            self.count -= 1
        elif len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        elif severity is Severity.CONTRAINDICATED and all(
            each.severity is Severity.WARNING for each in self.problems
        ):
            self.problems[-1] = problem  # a flood of strange names hides nothing


def _root(rows: list[bytearray]) -> bytes:
    """The root over rows of complete subtrees, the highest level first (RFC 9162, section 2.1.1)."""
    peaks: list[bytes] = []
    for row in reversed(rows):
        hashes = [_hash(row, at) for at in range(len(row) // HASH_SIZE)]
        while hashes:
            count = 1 << (len(hashes).bit_length() - 1)
            peaks.append(_subtree(hashes[:count]))
            hashes = hashes[count:]
    if not peaks:
        return EMPTY_ROOT
    digest = peaks.pop()
    while peaks:
        digest = node_hash(peaks.pop(), digest)
    return digest


def _subtree(hashes: list[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def _hash(row: bytes | bytearray, at: int) -> bytes:
    return bytes(row[at * HASH_SIZE : (at + 1) * HASH_SIZE])


def _is_anchor(path: str) -> bool:
    folder, _, name = path.partition("/")
    return folder == "anchors" and ANCHOR_FILE.match(name) is not None
