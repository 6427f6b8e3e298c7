"""Writes contradictions as files that a third party can judge: one folder ``findings/<code>-<digest>/`` for each.
Findings that the log itself has not signed are in ``findings/passing/``.

Two checkpoints are there as signed notes; leaves as their 66 bytes, each with its proof under the
checkpoint in which they were read. ``finding.json`` is written last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from affiant.attestation.log.monitor.findings import Finding
from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.tlog.note import Note
from affiant.errors import AffiantError, StateError
from affiant.files import sync_folder, write_whole
from affiant.folders import make_private

__all__ = ["ProofFiles"]

MAX_KEPT: Final = 1000
_MAX_PASSING: Final = 100
"""Of findings that an attacker on the network could make: they leave room for the log's own."""
_LAST: Final = "finding.json"


class ProofFiles:
    """The folder ``path``, made when there is something to write."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def place(self, finding: Finding) -> Path:
        """The folder of ``finding``."""
        return (self.path if finding.lasting else self.path / "passing") / finding.identity

    def write(self, finding: Finding, tree: LogTree | None, note: Note | None) -> None:
        """Write ``finding``, durably, unless it is there or too many are.

        Args:
            tree, note: the checkpoint that proofs of its leaves are made under.

        Raises:
            ``monitor.state``: it cannot be written.
        """
        folder = self.place(finding)
        most = MAX_KEPT if finding.lasting else _MAX_PASSING
        if (folder / _LAST).exists() or _count(folder.parent) >= most:
            return
        documents = dict(finding.documents)
        if tree is not None and note is not None:
            for index in finding.leaves:
                documents |= _leaf(tree, note, index)
        members = {"typ": "affiant-monitor-finding/1", "code": finding.code, "message": finding.message}
        try:
            make_private(folder)
            for name, content in documents.items():
                write_whole(folder / name, content)
            write_whole(folder / _LAST, (json.dumps(members, indent=2) + "\n").encode("utf-8"))
            sync_folder(folder.parent)
        except OSError as error:
            raise StateError(
                "a finding cannot be written", where=str(folder), found=error.strerror, code="monitor.state"
            ) from error


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def _leaf(tree: LogTree, note: Note, index: int) -> dict[str, bytes]:
    try:
        leaf = next(content for _, content in tree.leaves(index, index + 1))
        return {
            f"leaf-{index}.bin": leaf,
            f"leaf-{index}.tlog-proof": tree.inclusion(index, note).to_bytes(),
        }
    except AffiantError:
        return {}  # the log does not give it any more; the finding names its place
