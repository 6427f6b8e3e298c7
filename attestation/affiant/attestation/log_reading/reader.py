"""Reads a log's resources and the tree of one checkpoint from a folder, HTTP or S3.

A tree is read under a checkpoint, and everything that it gives is bound to that checkpoint's root first. Whether the
checkpoint itself counts, ``log_trust`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.log_reading.errors import LeafWrong, LogAbsent, ResourceMissing
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.log_reading.verified_tiles import VerifiedTiles
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import ENTRY_SIZE, LogEntry, parse_entry
from affiant.attestation.tlog.errors import EntryMalformed, ProofMalformed, TileMalformed
from affiant.attestation.tlog.note import MAX_NOTE_BYTES, Note, parse_note
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tiles import (
    CHECKPOINT_PATH,
    TILE_WIDTH,
    EntryBundle,
    Tile,
    bundles_of,
    decode_bundle,
)
from affiant.attestation.tlog.tree import HASH_SIZE
from affiant.attestation.tlog.tree_paths import consistency_path, inclusion_path, range_hash
from affiant.errors import StateError

__all__ = ["LogTree", "read_bundle", "read_checkpoint", "read_tile"]

_BUNDLED: Final = 2 + ENTRY_SIZE
"""Bytes of one leaf in a bundle: length and content."""
_NAMED: Final = 5


def read_checkpoint(source: LogSource) -> Note:
    """The log's newest checkpoint; nothing in it is verified.

    Raises:
        LogAbsent: none is there.
        NoteMalformed: it is no signed note.
    """
    content = source.read(CHECKPOINT_PATH, limit=MAX_NOTE_BYTES)
    if content is None:
        below: Callable[[], tuple[str, ...]] = getattr(source, "logs_below", tuple)
        raise LogAbsent(
            "no checkpoint is there",
            where=source.name,
            expected="a log of C2SP tlog-tiles",
            hint=f"There is one in: {', '.join(below()[:_NAMED])}" if below() else None,
        )
    return parse_note(content)


def read_tile(source: LogSource, tile: Tile) -> bytes:
    """The hashes of ``tile``; of the full one, where it has replaced the partial one. Nothing is verified.

    Raises:
        ResourceMissing: neither is there.
        TileMalformed: another size.
    """
    content, width = _partial_or_full(source, tile, HASH_SIZE)
    if len(content) != width * HASH_SIZE:
        raise TileMalformed(
            "a tile of another size",
            where=tile.path(),
            expected=f"{width * HASH_SIZE} bytes",
            found=len(content),
        )
    return content[: tile.width * HASH_SIZE]


def read_bundle(source: LogSource, bundle: EntryBundle) -> tuple[bytes, ...]:
    """The leaves of ``bundle``, in the same way.

    Raises:
        ResourceMissing: neither is there.
        TileMalformed: another number of leaves.
    """
    content, width = _partial_or_full(source, bundle, _BUNDLED)
    try:
        return decode_bundle(content, width)[: bundle.width]
    except TileMalformed as error:
        error.where = bundle.path()
        raise


def _partial_or_full(source: LogSource, resource: Tile | EntryBundle, each: int) -> tuple[bytes, int]:
    """The content and its width: a log may remove a partial resource once the full one is there (tlog-tiles)."""
    content = source.read(resource.path(), limit=resource.width * each)
    if content is not None:
        return content, resource.width
    if not resource.full:
        full = (
            Tile(resource.level, resource.index)
            if isinstance(resource, Tile)
            else EntryBundle(resource.index)
        )
        content = source.read(full.path(), limit=TILE_WIDTH * each)
        if content is not None:
            return content, TILE_WIDTH
    raise ResourceMissing(
        "what the checkpoint implies is not there", where=resource.path(), found=f"nothing in {source.name}"
    )


class LogTree:
    """The tree of one checkpoint.

    Raises:
        TreeWrong: the log's tiles are those of another tree.
        ResourceMissing, TileMalformed: tiles are missing, or no tiles.
    """

    __slots__ = ("_source", "_tiles", "checkpoint")

    def __init__(self, source: LogSource, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._source = source
        self._tiles = VerifiedTiles(
            checkpoint.size, checkpoint.root, lambda tile: read_tile(self._source, tile)
        )

    def root_at(self, size: int) -> bytes:
        """The root over the first ``size`` leaves of this tree."""
        return range_hash(self._tiles.nodes(), 0, size)

    def inclusion(self, index: int, note: Note) -> LogProof:
        """The proof that leaf ``index`` is in the tree, carried by ``note``, which holds this tree's checkpoint.

        Raises:
            ``log.no_such_leaf``: there is no such leaf.
        """
        if not 0 <= index < self.checkpoint.size:
            raise StateError(
                "the log has no such leaf",
                expected=f"an index below {self.checkpoint.size}",
                found=index,
                code="log.no_such_leaf",
            )
        return LogProof(index, inclusion_path(self._tiles.nodes(), index, self.checkpoint.size), note)

    def consistency(self, old: int, new: int | None = None) -> tuple[bytes, ...]:
        """The proof that this tree, or the one of its first ``new`` leaves, begins with that of ``old`` leaves.

        Raises:
            ProofMalformed: ``old`` is the larger, or ``new`` is larger than this tree.
        """
        size = self.checkpoint.size if new is None else new
        if size > self.checkpoint.size:
            raise ProofMalformed("the log has fewer leaves", expected=f"{size}", found=self.checkpoint.size)
        return consistency_path(self._tiles.nodes(), old, size)

    def leaves(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Index and bytes of each leaf from ``start`` to before ``end``, held against the tree.

        Raises:
            LeafWrong: a bundle holds another leaf.
            ResourceMissing, TileMalformed, TreeWrong: as named.
        """
        last = self.checkpoint.size if end is None else min(end, self.checkpoint.size)
        for bundle in bundles_of(self.checkpoint.size, start):
            first = bundle.index * TILE_WIDTH
            if first >= last:
                return
            found = read_bundle(self._source, bundle)
            _demand_same(found, self._tiles.leaf_hashes(bundle.index), bundle)
            for index, leaf in enumerate(found, start=first):
                if start <= index < last:
                    yield index, leaf

    def entries(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, LogEntry]]:
        """The same, as what they say.

        Raises:
            EntryMalformed: a leaf that is none of this log, beside what :meth:`leaves` raises.
        """
        for index, leaf in self.leaves(start, end):
            try:
                entry = parse_entry(leaf)
            except EntryMalformed as error:
                error.where = f"leaf {index}"
                raise
            yield index, entry

    def find(self, rh: bytes) -> int:
        """The index of the leaf of the receipt with hash ``rh``, 32 bytes: the first, if there are two.

        Raises:
            ``log.no_such_leaf``: there is none.
        """
        for index, leaf in self.leaves():
            if leaf[-HASH_SIZE:] == rh:
                return index
        raise StateError(
            "the log has no leaf of this receipt",
            found=f"{self.checkpoint.size} leaves of other records",
            hint="A receipt is logged within the log's merge delay; ask again after it.",
            code="log.no_such_leaf",
        )


def _demand_same(leaves: tuple[bytes, ...], hashes: bytes, bundle: EntryBundle) -> None:
    if b"".join(map(leaf_hash, leaves)) == hashes:
        return
    for at, leaf in enumerate(leaves):
        if leaf_hash(leaf) != hashes[at * HASH_SIZE : (at + 1) * HASH_SIZE]:
            raise LeafWrong(
                "an entry bundle holds another leaf than the tree",
                where=f"{bundle.path()}, leaf {bundle.index * TILE_WIDTH + at}",
                expected=hashes[at * HASH_SIZE : (at + 1) * HASH_SIZE].hex(),
                found=leaf_hash(leaf).hex(),
            )
