"""The part of a log that a period bundle carries: what a verifier will read of it, and nothing else.

Found by reading the tree as a verifier does, and keeping what was read: so it is enough by construction. Every leaf and
tile is held against the checkpoint's root on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import ENTRY_SIZE
from affiant.attestation.tlog.tiles import CHECKPOINT_PATH, TILE_WIDTH, EntryBundle, Tile, parse_path
from affiant.attestation.tlog.tree import HASH_SIZE

__all__ = ["KeepingSource", "keep_log_part"]


class KeepingSource:
    """A log that hands each file that is read of it to ``keep``, under the path that was asked for.

    Args:
        source: the log. keep: path below ``log/`` and content.
    """

    __slots__ = ("_keep", "_source")

    def __init__(self, source: LogSource, keep: Callable[[str, bytes], None]) -> None:
        self._source, self._keep = source, keep

    @property
    def name(self) -> str:
        """The log's."""
        return self._source.name

    def read(self, path: str, *, limit: int) -> bytes | None:
        """As the log's own; a partial file that is gone is cut from the full one, so that nothing beyond is kept."""
        content = self._source.read(path, limit=limit)
        if content is None and path != CHECKPOINT_PATH:
            content = self._narrowed(parse_path(path))
        if content is not None:
            self._keep(path, content)
        return content

    def _narrowed(self, resource: Tile | EntryBundle) -> bytes | None:
        if resource.full:
            return None
        whole: Tile | EntryBundle
        if isinstance(resource, Tile):
            whole, each = Tile(resource.level, resource.index), HASH_SIZE
        else:
            whole, each = EntryBundle(resource.index), 2 + ENTRY_SIZE
        content = self._source.read(whole.path(), limit=TILE_WIDTH * each)
        return None if content is None else content[: resource.width * each]


def keep_log_part(
    source: LogSource,
    checkpoint: Checkpoint,
    *,
    bundles: Iterable[int],
    sizes: Iterable[int],
    keep: Callable[[str, bytes], None],
) -> None:
    """Keep what shows the leaves of ``bundles``, and the roots at ``sizes``, under ``checkpoint``.

    Args:
        bundles: indices of entry bundles, ascending. sizes: of older checkpoints of the same log.

    Raises:
        TreeWrong, LeafWrong, ResourceMissing, TileMalformed: the log is not the checkpoint's, or lacks a file.
    """
    tree = LogTree(KeepingSource(source, keep), checkpoint)
    for index in bundles:
        for _ in tree.leaves(index * TILE_WIDTH, (index + 1) * TILE_WIDTH):
            pass
    for size in sizes:
        if 0 < size <= checkpoint.size:
            tree.root_at(size)
