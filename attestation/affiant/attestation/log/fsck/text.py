"""Formats what ``affiant log fsck`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from affiant.attestation.log.fsck.report import FsckReport
from affiant.command_line import printable

__all__ = ["fsck_document", "fsck_lines"]


def fsck_lines(name: str, report: FsckReport) -> Iterator[str]:
    """Text for a terminal."""
    yield printable(
        f"{name}: {report.checkpoint.origin}, {report.checkpoint.size} leaves, {report.bundles} bundles, "
        f"{report.tiles} tiles"
    )
    for problem in report.problems:
        yield printable(f"{problem.severity}: {problem.path}: {problem.detail} [{problem.code}]")
    if report.count > len(report.problems):
        yield f"and {report.count - len(report.problems)} more"
    if report.ahead:
        yield f"{report.ahead} files of a larger tree, not signed yet: not checked"
    if not report.listed:
        yield "files too many: not checked, an address cannot be listed"
    yield "everything is as signed" if not report.problems else f"verdict: {report.severity}"


def fsck_document(name: str, report: FsckReport) -> Mapping[str, object]:
    """The same for programs."""
    return {
        "typ": "affiant-log-fsck/1",
        "log": name,
        "origin": report.checkpoint.origin,
        "size": report.checkpoint.size,
        "bundles": report.bundles,
        "tiles": report.tiles,
        "ahead": report.ahead,
        "listed": report.listed,
        "count": report.count,
        "verdict": report.severity or "affirming",
        "problems": [
            {"code": each.code, "path": each.path, "detail": each.detail, "weight": each.severity}
            for each in report.problems
        ],
    }
