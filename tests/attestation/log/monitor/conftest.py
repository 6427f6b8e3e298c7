"""A log with two witnesses and a monitor's state, judged at a fixed time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.attestation.log_builder import NOW, ORIGIN, LogBuilder, chain, cosigner, log_signer, mldsa_cosigner

from affiant.attestation.log.monitor.proof_files import ProofFiles
from affiant.attestation.log.monitor.signer_chains import Rules
from affiant.attestation.log.monitor.state import open_monitor_state
from affiant.attestation.log.monitor.watching import Report, Round
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.log_trust import LogTrust, trust_of
from affiant.attestation.tlog.note import Note

POLICY = (
    f"log {log_signer().verifier.vkey()}\n"
    f"witness a {cosigner(1).verifier.vkey()}\n"
    f"witness b {mldsa_cosigner(2).verifier.vkey()}\n"
    "group both 2 a b\nquorum both\n"
).encode()


def trust() -> LogTrust:
    return trust_of([], POLICY)


@dataclass
class Watched:
    """A log in ``folder/log`` and its monitor in ``folder/state``."""

    folder: Path
    log: LogBuilder
    others: list[tuple[str, Note]] = field(default_factory=list)
    trust: LogTrust = field(default_factory=trust)

    @property
    def findings(self) -> list[Path]:
        """The folders of findings, wherever they stand."""
        path = self.folder / "state" / "findings"
        return sorted(each.parent for each in path.rglob("finding.json"))

    def sign(self, at: int, *, log: LogBuilder | None = None, size: int | None = None) -> Note:
        return (log or self.log).sign(cosigner(1, at), mldsa_cosigner(2, at + 1), size=size)

    def round(self, now: int, rules: Rules | None = None) -> Report:
        assert self.trust.policy is not None
        with open_monitor_state(self.folder / "state") as state:
            return Round(
                FolderLog(self.folder / "log"),
                trust=self.trust,
                policy=self.trust.policy,
                state=state,
                files=ProofFiles(self.folder / "state" / "findings"),
                rules=rules or Rules(),
                others=self.others,
                not_made=[],
                now=now,
                progress=lambda _done, _total: None,
            ).run()


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def entries(*chains: Sequence[object]) -> list[object]:
    return [each for found in chains for each in found]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """400 leaves of two chains, cosigned when the last of them was made."""
    log = LogBuilder(tmp_path / "log", chain("one", 200))
    log.add(chain("two", 200, start=NOW + 100, end=True))
    return Watched(tmp_path, log)


__all__ = ["NOW", "ORIGIN", "POLICY", "Watched", "codes", "entries", "trust"]
