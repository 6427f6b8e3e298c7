"""Two notes of one log that contradict each other, kept as files that anybody can judge.

``evidence/<id>/held.note`` and ``submitted.note``, and ``about.json``, which is written last. The id is a digest of
both, so that the same contradiction is kept once. Whoever holds a checkpoint of the log can submit it; so their number
is bounded, and what is beyond it is named in the log line alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from affiant.attestation.witness.protocol import Contradiction
from affiant.files import sync_folder, write_whole
from affiant.folders import make_private

__all__ = ["EvidenceFolder"]

MAX_KEPT: Final = 1000
_KINDS: Final = {True: "two roots over one size", False: "a proof of consistency that does not hold"}


class EvidenceFolder:
    """The folder ``path``, made when there is something to keep."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, found: Contradiction, *, origin: str, seconds: int) -> Path | None:
        """Where both notes stand now, durably; None if too many are kept already.

        Raises:
            OSError: they cannot be written.
        """
        digest = hashlib.sha256(found.held + b"\0" + found.submitted).hexdigest()[:32]
        folder = self.path / digest
        if (folder / "about.json").exists():
            return folder
        if self.count() >= MAX_KEPT:
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

    def count(self) -> int:
        """How many are kept."""
        return sum(1 for _ in self.path.iterdir()) if self.path.is_dir() else 0
