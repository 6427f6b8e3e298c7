"""Holds what one round of a monitor has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from affiant.attestation.log.monitor.findings import Finding
from affiant.attestation.log.monitor.proof_files import ProofFiles
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import to_base64

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

    def to_json(self, files: ProofFiles) -> Mapping[str, object]:
        """The result document of ``affiant log monitor``; ``files`` has the proofs of its contradictions."""
        checkpoint = self.checkpoint
        return {
            "typ": "affiant-log-monitor/1",
            "origin": None if checkpoint is None else checkpoint.origin,
            "size": None if checkpoint is None else checkpoint.size,
            "root": None if checkpoint is None else to_base64(checkpoint.root),
            "time": self.time,
            "accepted": self.remembered,
            "read": self.read,
            "chains": {"open": self.open_chains, "ended": self.ended_chains},
            "open": [{"chn": chn, "seq": seq, "iat": iat} for chn, seq, iat in self.tails],
            "verdict": self.severity or "affirming",
            "contradictions": self.contradictions,
            "counts": dict(self.counts),
            "findings": [
                {
                    "code": each.code,
                    "weight": each.severity,
                    "message": each.message,
                    "files": str(files.place(each)) if each.severity is Severity.CONTRAINDICATED else None,
                }
                for each in self.findings
            ],
            "not_made": list(self.not_made),
        }
