"""Defines the findings of a monitor, each with a stable code and a severity.

::

    contraindicated   note.signature      the log's checkpoint is not signed by its key
                      checkpoint.malformed  what the log has signed is no checkpoint
                      log.split_view      two roots over one size, or a tree that another checkpoint is no part of
                      log.consistency     the tree does not begin with the one that was seen before
                      log.rollback        the tree is smaller than the one that was seen before
                      log.root, log.leaf  tiles or leaves are not those of the signed tree
                      log.entry           a leaf that is none of this log
                      chain.boot          a chain begins without its boot, or has another one inside
                      chain.gap           a place of a chain has no record
                      chain.fork          a place of a chain has a second record
                      chain.after_end     a chain goes on after its end
                      chain.reused        a chain's id is used again
    warning           wit.quorum          too few witnesses have cosigned
                      wit.future          witnesses' clocks are ahead
                      log.stale           the newest cosigned checkpoint is too old
                      log.behind          a larger tree was cosigned or shown than the log shows
                      log.missing, log.tile, log.too_large  a resource is not there, or is none; perhaps not yet
                      log.late, log.future  a leaf was added long after its record's time, or before it
                      chain.missing_epoch   a chain was silent for longer than its cadence
                      chain.silent        an open chain has stopped: its tail is not provable

What the log has *signed* and what contradicts it is a property of the log for good: two trees, and the faults of leaves
and chains. The others are of this round: an older checkpoint shown again, or tiles and notes that are not the log's,
could be the work of an attacker on the network.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.log_reading.severity import Severity

__all__ = ["MAX_FINDINGS", "Finding", "Findings"]

MAX_FINDINGS: Final = 200
"""Findings of each severity that one round keeps; further ones are counted by code."""
_PASSING: Final = frozenset(
    {"note.signature", "checkpoint.malformed", "log.rollback", "log.root", "log.leaf"}
)
"""Contraindicated, and not the log's own contradiction by what it has signed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Args:
        documents: file name -> bytes; what a third party judges it by.
        leaves: indexes of leaves whose proofs belong to the documents.
        subject: what it is about, where the message changes from round to round while it lasts.
    """

    code: str
    severity: Severity
    message: str
    documents: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    leaves: tuple[int, ...] = ()
    subject: str = ""

    @property
    def lasting(self) -> bool:
        """Whether the log itself has signed the contradiction."""
        return self.severity is Severity.CONTRAINDICATED and self.code not in _PASSING

    @property
    def identity(self) -> str:
        """The same for the same finding, in every round."""
        about = f"{self.code}\n{self.subject or self.message}"
        return f"{self.code}-{hashlib.sha256(about.encode()).hexdigest()[:16]}"


class Findings:
    """The findings of one round: a bounded number, and how many there were of each code."""

    def __init__(self) -> None:
        self._kept: dict[Severity, list[Finding]] = {severity: [] for severity in Severity}
        self.counts: Counter[str] = Counter()

    def add(self, finding: Finding) -> None:
        """Keep it, or count it."""
        self.counts[finding.code] += 1
        kept = self._kept[finding.severity]
        if len(kept) < MAX_FINDINGS:
            kept.append(finding)

    def contradict(
        self,
        code: str,
        message: str,
        *documents: tuple[str, bytes],
        leaves: tuple[int, ...] = (),
        subject: str = "",
    ) -> None:
        """Add a contradiction."""
        self.add(Finding(code, Severity.CONTRAINDICATED, message, documents, leaves, subject))

    @property
    def contradicted(self) -> bool:
        """Whether there is a contradiction already."""
        return bool(self._kept[Severity.CONTRAINDICATED])

    def warn(self, code: str, message: str, *documents: tuple[str, bytes]) -> None:
        """Add a warning."""
        self.add(Finding(code, Severity.WARNING, message, documents))

    def all(self) -> tuple[Finding, ...]:
        """What was kept, contradictions first."""
        return (*self._kept[Severity.CONTRAINDICATED], *self._kept[Severity.WARNING])
