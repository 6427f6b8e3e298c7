"""A reconciliation from claims and a filled store to its outcome; the order of the steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from affiant.attestation.audit.reconcile.buckets import BucketEnd, judge_buckets
from affiant.attestation.audit.reconcile.claims import Claim, claims_of
from affiant.attestation.audit.reconcile.results import Result, Rule, State
from affiant.attestation.audit.reconcile.tally import Receipts
from affiant.attestation.audit.reconcile.verified_records import Records
from affiant.attestation.audit.records_of_others.bill import BilledSpan
from affiant.attestation.audit.records_of_others.item import OTHER_TIME, Unreadable
from affiant.attestation.audit.records_of_others.scope import Scope

__all__ = ["bucket_receipts", "bucket_results", "claims_for"]


def claims_for(kind: str, bundles: Sequence[Records]) -> tuple[Claim, ...]:
    """The claims that a record of this kind could be about; a receipt that is in two bundles counts once.

    A proxy sees what left a gateway or a session, a bill what an upstream answered, spans what a caller asked for. A
    caller's log may name the receipt of a refusal, which is no request of ours: it explains, and is never expected.
    """
    found: dict[tuple[str, int], Claim] = {}
    for records in bundles:
        count: dict[str, int] = {}
        for claim in claims_of(records.records, records.configurations):
            number = count[claim.rh] = count.get(claim.rh, -1) + 1
            found.setdefault((claim.rh, number), claim)
    if kind == "proxy-log":
        return tuple(found.values())
    if kind == "bill":
        return tuple(each for each in found.values() if _is_billed(each))
    called = {each.rh: each for each in found.values() if each.kind in ("inference", "refusal")}
    return tuple(map(_as_called, called.values()))  # of several attempts the last, whose answer was passed on


def _is_billed(claim: Claim) -> bool:
    """Errors are not billed."""
    return claim.kind == "inference" and claim.answered and (claim.facts.status or 200) < 400


def _as_called(claim: Claim) -> Claim:
    """Without what only the upstream's side knows."""
    return replace(claim, authority=None, facts=replace(claim.facts, path=None))


def bucket_results(
    rows: Iterable[tuple[int, BilledSpan | Unreadable]],
    claims: Sequence[Claim],
    scope: Scope,
    *,
    span: int,
    tolerance: int,
) -> tuple[list[Result], list[BucketEnd]]:
    """A result for each row of a bill over time spans; and each span of the range, of the bill or of receipts."""
    results: list[Result] = []
    billed: list[tuple[int, BilledSpan]] = []
    for line, row in rows:
        if isinstance(row, Unreadable):
            results.append(Result(line, State.UNREADABLE, reason=row.reason))
        elif row.begun % span:
            results.append(Result(line, State.UNREADABLE, reason="a time that begins no such span"))
        elif not scope.has_time(row.begun):
            results.append(Result(line, State.OUT_OF_RANGE, reason=OTHER_TIME))
        else:
            billed.append((line, row))
    ends = [
        end
        for end in judge_buckets(billed, claims, span=span, tolerance=tolerance)
        if scope.has_time(end.begun)
    ]
    results += [
        Result(line, end.state, rule=Rule.BUCKET, reason=f"{end.model}: {'; '.join(end.notes)}")
        for end in ends
        for line in end.lines
    ]
    return sorted(results, key=lambda each: each.line), ends


def bucket_receipts(ends: Sequence[BucketEnd], *, most_shown: int) -> tuple[Receipts, list[Claim]]:
    """The other direction of a bill over time spans; and every request of a span that the bill does not have."""
    counts = {"explained": 0, "contested": 0, "unexplained": 0}
    without: list[Claim] = []
    for end in ends:
        expected = [claim for claim in end.claims if claim.expected]
        if not end.lines:
            counts["unexplained"] += len(expected)
            without += expected
        else:
            counts["explained" if end.state is State.MATCHED else "contested"] += len(expected)
    shown = tuple(without[:most_shown])
    return Receipts(sum(counts.values()), undisclosed={}, shown=shown, **counts), without
