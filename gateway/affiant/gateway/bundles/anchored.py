"""The anchors beside the log's files that say something of a period: those within it, and the first that covers it all.

Like everything in the store they are untrusted. One counts if the log has signed its checkpoint and that is of the
exported tree; another is left out, and said in the log of the process. Whom to believe is the reader's choice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.signatures.timestamps.errors import AnchorAbsent, AnchorUnproven
from affiant.attestation.signatures.timestamps.response import parse_response
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.errors import AffiantError
from affiant.gateway.bundles.period_store import Store
from affiant.gateway.log.transparency_log import log_folder

__all__ = ["Anchored", "PeriodAnchors"]

_log = logging.getLogger("affiant.gateway")


@dataclass(frozen=True, slots=True)
class Anchored:
    """One checkpoint that is anchored: its note, and the anchors over it by the ending of their file."""

    size: int
    note: bytes
    files: Mapping[str, bytes]


class PeriodAnchors:
    """Those of a store's log for one period.

    Args:
        first: the first leaf of the range. needed: leaves that a checkpoint over all that is exported has at least.
    """

    __slots__ = ("_folder", "_signed", "_sizes", "_stamped", "_store", "covering")

    def __init__(self, store: Store, *, first: int, needed: int) -> None:
        self._store = store
        self._folder = AnchorFolder(log_folder(store.folder, store.log.origin) / "anchors")
        try:
            self._stamped = frozenset(self._folder.sizes())
            self._signed = frozenset(self._folder.signed_sizes())
        except AffiantError as error:
            _log.warning("the anchors of the log are left out: %s [%s]", error, error.code)
            self._stamped = self._signed = frozenset()
        there = sorted(self._stamped | self._signed)
        self.covering = next((size for size in there if size >= needed), 0)
        """Leaves of the first that covers everything; 0: none does."""
        self._sizes = [size for size in there if first < size < needed or size == self.covering]

    def under(self, checkpoint: Checkpoint) -> Iterator[Anchored]:
        """Those that are shown to be of the tree of ``checkpoint``, the smallest first."""
        tree = LogTree(self._store.source, checkpoint)
        for size in self._sizes:
            if size > checkpoint.size:
                return
            try:
                yield self._read(size, tree)
            except AffiantError as error:
                _log.warning("the anchor over %d leaves is left out: %s [%s]", size, error, error.code)

    def _read(self, size: int, tree: LogTree) -> Anchored:
        files: dict[str, bytes] = {}
        note = self._folder.read_note(size)
        if size in self._stamped:
            tokens = self._folder.read(size).tokens
            if not tokens:
                raise AnchorAbsent("the anchor has no token", where=f"{size}.tsr")
            for token in tokens:
                parse_response(token)
            files[".tsr"] = b"".join(tokens)
        if size in self._signed:
            files[".sigstore.json"] = self._folder.read_signed(size).bundle
        anchored = self._store.verified(parse_note(note))
        if anchored.origin != tree.checkpoint.origin or anchored.root != tree.root_at(size):
            raise AnchorUnproven("the anchored checkpoint is not of the exported tree", where=str(size))
        return Anchored(size, note, files)
