"""The timeline as CSV: one row a record, in the page's order."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

from affiant.attestation.verdict.verdict import Verdict
from affiant.printable import cell, shown_time

__all__ = ["COLUMNS", "MAX_ROWS", "timeline_csv"]

MAX_ROWS: Final = 100_000
"""Records of all bundles together; some 2 KiB of memory each."""
COLUMNS: Final = (
    *(
        "bundle",
        "session",
        "time",
        "signer",
        "number",
        "kind",
        "what",
        "decision",
        "rules",
        "receipt",
        "members",
    ),
)


def timeline_csv(judged: Iterable[tuple[str, Verdict]]) -> str:
    """The file for verdicts with their bundles' names; a bundle's last row counts its records that are left out."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    room = MAX_ROWS
    for bundle, verdict in judged:
        shown = verdict.timeline[:room]
        room -= len(shown)
        for each in shown:
            members = "; ".join(f"{name}={value}" for name, value in each.facts)
            signer = "gateway" if each.role == "gateway" else "supervisor"
            row = (bundle, each.session, shown_time(each.at), signer, each.seq, each.kind, each.title)
            writer.writerow(map(cell, (*row, each.decision, " ".join(each.rules), each.jti, members)))
        if (left := verdict.population.receipts - len(shown)) > 0:
            writer.writerow(map(cell, (bundle, *[""] * 5, f"{left} records more are not listed")))
    return text.getvalue()
