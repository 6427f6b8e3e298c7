"""Formats what ``affiant log monitor`` prints. Names come from the log, so they are escaped and bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from affiant.attestation.log.monitor.proof_files import ProofFiles
from affiant.attestation.log.monitor.report import Report
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.log_reading.show_text import instant
from affiant.attestation.tlog.note import to_base64
from affiant.command_line import printable

__all__ = ["report_document", "report_lines"]


def report_lines(report: Report, files: ProofFiles) -> Iterator[str]:
    """Text for a terminal."""
    if report.checkpoint is not None:
        time = "" if report.time is None else f", cosigned {instant(report.time)}"
        yield printable(f"{report.checkpoint.origin}: {report.checkpoint.size} leaves{time}")
    if not report.remembered:
        yield "this checkpoint was not accepted: the next round starts from the one before"
    yield (
        f"{report.read} new leaves; chains: {report.open_chains} open, {report.ended_chains} ended; "
        f"contradictions so far: {report.contradictions}"
    )
    for chn, seq, iat in report.tails:
        yield f"open     {chn} up to place {seq}, {instant(iat)}"
    for finding in report.findings:
        yield printable(f"{finding.severity}: {finding.message} [{finding.code}]")
        if finding.severity is Severity.CONTRAINDICATED:
            yield f"         {files.place(finding)}"
    for code, count in sorted(report.counts.items()):
        kept = sum(finding.code == code for finding in report.findings)
        if count > kept:
            yield f"and {count - kept} more [{code}]"
    for text in report.not_made:
        yield printable(f"not made: {text}")


def report_document(report: Report, files: ProofFiles) -> Mapping[str, object]:
    """The same for programs."""
    checkpoint = report.checkpoint
    return {
        "typ": "affiant-log-monitor/1",
        "origin": None if checkpoint is None else checkpoint.origin,
        "size": None if checkpoint is None else checkpoint.size,
        "root": None if checkpoint is None else to_base64(checkpoint.root),
        "time": report.time,
        "accepted": report.remembered,
        "read": report.read,
        "chains": {"open": report.open_chains, "ended": report.ended_chains},
        "open": [{"chn": chn, "seq": seq, "iat": iat} for chn, seq, iat in report.tails],
        "verdict": report.severity or "affirming",
        "contradictions": report.contradictions,
        "counts": dict(report.counts),
        "findings": [
            {
                "code": each.code,
                "weight": each.severity,
                "message": each.message,
                "files": str(files.place(each)) if each.severity is Severity.CONTRAINDICATED else None,
            }
            for each in report.findings
        ],
        "not_made": list(report.not_made),
    }
