"""Holds what one round of a monitor has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from affiant.attestation.log.monitor.findings import Finding
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.tlog.checkpoint import Checkpoint

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """What one round has seen.

    Args:
        checkpoint: the log's; None where it has shown none that it signed.
        time: seconds since 1970 that the quorum backs.
        remembered: whether this checkpoint is where the next round starts.
        read: leaves that were read.
        open_chains, ended_chains: chains known so far.
        tails: open chains, the latest first: id, last place, last time.
        counts: findings of this round, by code; those that were kept are ``findings``.
        contradictions: that the log has signed, of this and all earlier rounds.
        not_made: checks that could not be made, and why.
    """

    checkpoint: Checkpoint | None
    time: int | None
    remembered: bool
    read: int
    open_chains: int
    ended_chains: int
    tails: tuple[tuple[str, int, int], ...]
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    contradictions: int
    not_made: tuple[str, ...]

    @property
    def severity(self) -> Severity | None:
        """The heaviest finding's; a log that has contradicted itself once has done so for good."""
        if self.contradictions or any(each.severity is Severity.CONTRAINDICATED for each in self.findings):
            return Severity.CONTRAINDICATED
        return Severity.WARNING if self.findings else None
