"""The log of a period bundle under its checkpoint: which leaves it shows, which other checkpoints are of its tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from affiant.attestation.bundle.period.archive_reader import LogFolder, PeriodBundle
from affiant.attestation.bundle.period.layout import CHECKPOINT, checkpoint_name
from affiant.attestation.log_reading.errors import ResourceMissing
from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.statements.statement import LogIdentity
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import Note, parse_note, verify_note
from affiant.attestation.tlog.tiles import TILE_HEIGHT, TILE_WIDTH, EntryBundle, Tile, parse_path
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verifier.checks.log_checks import LogUnbound, SplitView

__all__ = ["Leaf", "LogView", "Noted", "demand_one_tree", "noted_at", "open_log"]

_ENTRIES = "log/tile/entries/"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: index, 66 bytes, and whether the one before it is not here."""

    index: int
    data: bytes
    new: bool


@dataclass(frozen=True, slots=True)
class Noted:
    """A checkpoint that the log has signed, and that is one of this tree's."""

    note: Note
    checkpoint: Checkpoint


class LogView:
    """Leaves in their order; every one is held against the checkpoint's root.

    Args:
        tree: of the checkpoint. bundles: which entry bundles are here, ascending.
    """

    __slots__ = ("_bundles", "_tree", "newest")

    def __init__(self, tree: LogTree, newest: Noted, bundles: tuple[int, ...]) -> None:
        self._tree, self.newest, self._bundles = tree, newest, bundles

    @property
    def size(self) -> int:
        """Leaves under the checkpoint."""
        return self.newest.checkpoint.size

    def leaves(self, start: int = 0) -> Iterator[Leaf]:
        """The leaves from index ``start`` on, as far as they are here.

        Raises:
            TreeWrong, LeafWrong, TileMalformed, ResourceMissing: not what the checkpoint says.
        """
        before = -1
        for index in self._bundles:
            first = index * TILE_WIDTH
            if first + TILE_WIDTH <= start:
                before = index
                continue
            new = before != index - 1 or before < 0
            for at, data in self._tree.leaves(first, first + TILE_WIDTH):
                if at >= start:
                    yield Leaf(at, data, new and at == first)
            before = index

    def find(self, data: bytes, start: int) -> int | None:
        """The index of the leaf ``data``, from ``start`` on."""
        return next((leaf.index for leaf in self.leaves(start) if leaf.data == data), None)

    def root_at(self, size: int) -> bytes:
        """As ``LogTree.root_at``."""
        return self._tree.root_at(size)


def open_log(bundle: PeriodBundle, log: LogIdentity) -> LogView:
    """The log part of ``bundle``, as the key of ``log`` has signed it.

    Raises:
        NotMade: the archive has none. NoteSignatureInvalid, LogUnbound: it is signed by another, or of another log.
        TreeWrong, TileMalformed: the tiles are another tree's.
    """
    if CHECKPOINT not in bundle.archive.members:
        raise NotMade("the archive has no checkpoint of the log")
    newest = _noted(bundle.read(CHECKPOINT), log)
    try:
        tree = LogTree(LogFolder(bundle), newest.checkpoint)
    except ResourceMissing as error:
        raise NotMade(f"the archive lacks a tile of the log: {error.where}") from error
    names = (name for name in bundle.archive.members if name.startswith(_ENTRIES))
    found = (parse_path(name.removeprefix("log/")) for name in names)
    indices = {each.index for each in found if isinstance(each, EntryBundle)}
    held = (index for index in indices if _shown(bundle, index, newest.checkpoint.size))
    return LogView(tree, newest, tuple(sorted(held)))


def _shown(bundle: PeriodBundle, index: int, size: int) -> bool:
    """Whether an entry bundle of a tree of ``size`` leaves is here, and every tile that leads from it to the root."""
    if index * TILE_WIDTH >= size:
        return False
    entries = EntryBundle(index, min(TILE_WIDTH, size - index * TILE_WIDTH))
    if not {f"log/{entries.path()}", f"log/{EntryBundle(index).path()}"} & bundle.archive.members.keys():
        return False
    for level in range(8):
        count = size >> (TILE_HEIGHT * level)
        at = index >> (TILE_HEIGHT * level)
        if at * TILE_WIDTH >= count:  # the edge of the tree, which was read with it
            return True
        tile = Tile(level, at, min(TILE_WIDTH, count - at * TILE_WIDTH))
        if not {f"log/{tile.path()}", f"log/{Tile(level, at).path()}"} & bundle.archive.members.keys():
            return False
    return True


def noted_at(bundle: PeriodBundle, log: LogIdentity, size: int) -> Noted:
    """The checkpoint ``checkpoints/<size>.note``, as the log has signed it.

    Raises:
        LogUnbound: it is of another log or size. NoteSignatureInvalid, MalformedError: it is none of this log's.
    """
    noted = _noted(bundle.read(checkpoint_name(size)), log)
    if noted.checkpoint.size != size:
        raise LogUnbound(
            "a checkpoint of another size than its name says", expected=size, found=noted.checkpoint.size
        )
    return noted


def demand_one_tree(view: LogView, noted: Noted) -> None:
    """``noted`` is of the tree of the archive's checkpoint.

    Raises:
        SplitView: it has another root than the tree had then. NotMade: that cannot be told here.
    """
    size, origin = noted.checkpoint.size, noted.checkpoint.origin
    if size > view.size:
        raise NotMade("a checkpoint that is newer than the archive's log")
    try:
        root = view.root_at(size)
    except ResourceMissing as error:
        raise NotMade(f"the archive lacks a tile of the log: {error.where}") from error
    if root != noted.checkpoint.root:
        raise SplitView("two roots over the same number of leaves", found=f"{size} leaves", where=origin)


def _noted(raw: bytes, log: LogIdentity) -> Noted:
    note = parse_note(raw)
    verify_note(note, [log.key])
    checkpoint = parse_checkpoint(note.text)
    if checkpoint.origin != log.origin:
        raise LogUnbound(
            "a checkpoint of another log", expected=repr(log.origin), found=repr(checkpoint.origin[:60])
        )
    return Noted(note, checkpoint)
