"""One reconciliation from files to its outcome: the record is read once, into a store, and judged from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from affiant.attestation.audit.reconcile.claim_index import Anchor, ClaimIndex
from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.item_store import open_item_store
from affiant.attestation.audit.reconcile.matching import Matching
from affiant.attestation.audit.reconcile.outcome import Outcome, Source
from affiant.attestation.audit.reconcile.reconciling import bucket_receipts, bucket_results, claims_for
from affiant.attestation.audit.reconcile.results import Result, State
from affiant.attestation.audit.reconcile.tally import Tally, count_receipts, unexplained
from affiant.attestation.audit.reconcile.verified_records import Records
from affiant.attestation.audit.reconcile_report.options import RecordOptions
from affiant.attestation.audit.reconcile_report.report_csv import write_csv
from affiant.attestation.audit.records_of_others.item import Read
from affiant.attestation.audit.records_of_others.line_file import opened
from affiant.attestation.audit.records_of_others.record_reading import (
    RecordFile,
    bill_rows,
    billed_spans,
    proxy_rows,
    span_rows,
)
from affiant.attestation.audit.records_of_others.scope import Scope

__all__ = ["follow"]


def follow(
    record: RecordOptions,
    known: Sequence[Records],
    scope: Scope,
    *,
    tolerance: int,
    most_shown: int,
    csv_path: Path | None,
    progress: Callable[[int], None],
) -> Outcome:
    """Follow every item of ``record`` into ``known``.

    Args:
        tolerance: milliseconds that clocks may differ by.
        most_shown: findings kept of each kind.
        csv_path: where every item is written to, if anywhere.
        progress: called with how many bytes of the record were read.

    Raises:
        SettingsInvalid: the record or the output cannot be read or written.
        ``reconcile.scratch``: there is no room for the temporary store.
    """
    tally = Tally(most_shown)
    claims = claims_for(record.kind, known)
    with opened(record.path) as file:
        source = RecordFile(file, progress)
        if record.bill is not None and record.span is not None:
            results, ends = bucket_results(
                billed_spans(source, record.bill), claims, scope, span=record.span, tolerance=tolerance
            )
            receipts, without = bucket_receipts(ends, most_shown=most_shown)
            _tell(_counted(results, tally), without, csv_path)
        else:
            anchor = Anchor.HOST if record.kind == "proxy-log" else Anchor.MODEL
            index = ClaimIndex(claims, anchor=anchor, tolerance=tolerance)
            _match(_rows(record, source), index, scope, tally, csv_path)
            receipts = count_receipts(index, scope, most_shown=most_shown)
    described = Source(record.kind, record.form, record.path.name, source.digest)
    return Outcome(known, described, scope, tolerance, tally, receipts)


def _match(
    rows: Iterator[tuple[int, Read]], index: ClaimIndex, scope: Scope, tally: Tally, csv_path: Path | None
) -> None:
    with open_item_store() as store:
        matching = Matching(store, index)
        tally.other_work = matching.load(rows, scope)
        matching.run()
        tally.short = matching.short()
        is_shown = tally.has_room if csv_path is None else _every
        _tell(_counted(matching.results(is_shown), tally), unexplained(index, scope), csv_path)


def _every(_state: State) -> bool:
    return True


def _tell(results: Iterator[Result], without: Iterable[Claim], csv_path: Path | None) -> None:
    """Walk the results to their end, into the file if there is one."""
    if csv_path is not None:
        write_csv(csv_path, results, without)
    else:
        for _ in results:
            pass


def _counted(results: Iterable[Result], tally: Tally) -> Iterator[Result]:
    for result in results:
        tally.add(result)
        yield result


def _rows(record: RecordOptions, file: RecordFile) -> Iterator[tuple[int, Read]]:
    if record.kind == "spans":
        return span_rows(file)
    if record.bill is not None:
        return bill_rows(file, record.bill)
    return proxy_rows(file, record.form, record.host)
