"""Every line of the record and every receipt that none is about, as CSV that a spreadsheet does not run."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.results import Result
from affiant.attestation.audit.records_of_others.errors import SettingsInvalid
from affiant.attestation.audit.records_of_others.timestamps import rfc3339_text
from affiant.files import refuse_stream
from affiant.printable import cell

__all__ = ["COLUMNS", "write_csv"]

COLUMNS: Final = (
    *("line", "state", "rule", "receipts", "reason", "begun", "ended", "host", "method", "path", "status"),
    *("request_bytes", "response_bytes", "model", "input_tokens", "output_tokens", "reference"),
)


def write_csv(path: Path, results: Iterable[Result], unexplained: Iterable[Claim]) -> None:
    """Write the file whole; the file that was there before stays until then.

    Raises:
        SettingsInvalid: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        refuse_stream(path)
        with draft.open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(_row(result) for result in results)
            writer.writerows(_claim(claim) for claim in unexplained)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise SettingsInvalid("the file cannot be written", where=str(path), found=error.strerror) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _row(result: Result) -> Sequence[str]:
    head = (result.line, result.state, result.rule, " ".join(result.receipts), result.reason)
    item = result.item
    if item is None:
        return [*map(cell, head), *[""] * (len(COLUMNS) - len(head))]
    facts = item.facts
    values = (
        *head,
        *(rfc3339_text(item.begun), rfc3339_text(item.ended), item.authority),
        *(facts.method, facts.path, facts.status, facts.sent, facts.received),
        *(facts.model, facts.tokens_in, facts.tokens_out, item.reference),
    )
    return [cell(value) for value in values]


def _claim(claim: Claim) -> Sequence[str]:
    facts = claim.facts
    values = (
        *(None, "receipt without item", None, claim.receipt, claim.kind, None, rfc3339_text(claim.at)),
        *(claim.authority, facts.method, facts.path, facts.status, facts.sent, facts.received),
        *(facts.model, facts.tokens_in, facts.tokens_out, None),
    )
    return [cell(value) for value in values]
