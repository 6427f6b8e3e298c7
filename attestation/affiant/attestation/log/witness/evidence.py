"""Keeps two notes of one log that contradict each other as files that a third party can judge.

``evidence/<id>/held.note`` and ``submitted.note``, and ``about.json``, which is written last. The id is a digest of
both, so that the same contradiction is kept once. Their number is bounded, and what is beyond it is named in the log
line alone. Anyone with a checkpoint of the log can submit it with a wrong proof: such pairs, ``unproven-<id>``, have
a bound of their own and leave room for proofs.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from affiant.attestation.log.witness.protocol import Contradiction
from affiant.files import sync_folder, write_whole
from affiant.folders import make_private

__all__ = ["EvidenceFolder"]

MAX_KEPT: Final = 1000
MAX_UNPROVEN: Final = 100
_UNPROVEN: Final = "unproven-"
_KINDS: Final = {True: "two roots over one size", False: "a proof of consistency that does not hold"}


class EvidenceFolder:
    """The folder ``path``, made when there is something to keep."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, found: Contradiction, *, origin: str, seconds: int) -> Path | None:
        """Where both notes are now, durably; None if too many are kept already.

        Raises:
            OSError: they cannot be written.
        """
        digest = hashlib.sha256(found.held + b"\0" + found.submitted).hexdigest()[:32]
        folder = self.path / (digest if found.certain else _UNPROVEN + digest)
        if (folder / "about.json").exists():
            return folder
        certain, unproven = self.counts()
        if (certain >= MAX_KEPT) if found.certain else (unproven >= MAX_UNPROVEN):
            return None
        about = {
            "typ": "affiant-witness-evidence/1",
            "origin": origin,
            "kind": _KINDS[found.certain],
            "certain": found.certain,
            "seen": seconds,
        }
        make_private(folder)
        write_whole(folder / "held.note", found.held)
        write_whole(folder / "submitted.note", found.submitted)
        write_whole(folder / "about.json", (json.dumps(about, indent=2) + "\n").encode("utf-8"))
        sync_folder(self.path)
        return folder

    def counts(self) -> tuple[int, int]:
        """How many are kept: certain ones, and unproven ones."""
        names = [each.name for each in self.path.iterdir()] if self.path.is_dir() else []
        unproven = sum(name.startswith(_UNPROVEN) for name in names)
        return len(names) - unproven, unproven
