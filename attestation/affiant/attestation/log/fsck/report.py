"""Holds the result of checking a whole log against its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.tlog.checkpoint import Checkpoint

__all__ = ["MAX_PROBLEMS", "FsckReport", "Problem"]

MAX_PROBLEMS: Final = 100
"""Problems that are kept; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as the checkpoint implies."""

    code: str
    path: str
    detail: str
    severity: Severity = Severity.CONTRAINDICATED


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What was found.

    Args:
        problems: the first :data:`MAX_PROBLEMS`; ``count`` is of all.
        ahead: files of a larger tree than the checkpoint's, which a log writes before its next checkpoint.
        listed: whether the place could be listed, and so was searched for files too many.
    """

    checkpoint: Checkpoint
    problems: tuple[Problem, ...]
    count: int
    tiles: int
    bundles: int
    ahead: int
    listed: bool

    @property
    def severity(self) -> Severity | None:
        """The heaviest problem's; None where there is none."""
        severities = {problem.severity for problem in self.problems}
        return max(severities, default=None, key=list(Severity).index)

    def to_json(self, name: str) -> Mapping[str, object]:
        """The result document of ``affiant log fsck`` for the log that is called ``name``."""
        return {
            "typ": "affiant-log-fsck/1",
            "log": name,
            "origin": self.checkpoint.origin,
            "size": self.checkpoint.size,
            "bundles": self.bundles,
            "tiles": self.tiles,
            "ahead": self.ahead,
            "listed": self.listed,
            "count": self.count,
            "verdict": self.severity or "affirming",
            "problems": [
                {"code": each.code, "path": each.path, "detail": each.detail, "weight": each.severity}
                for each in self.problems
            ],
        }
