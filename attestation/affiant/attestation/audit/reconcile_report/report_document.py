"""The same for programs: one JSON document, ``affiant-reconciliation/1``."""

from __future__ import annotations

from collections.abc import Mapping

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.outcome import Outcome
from affiant.attestation.audit.reconcile.results import Result, State
from affiant.attestation.audit.reconcile.verified_records import Records
from affiant.attestation.audit.reconcile_report.report_text import about, shown_time
from affiant.attestation.audit.records_of_others.scope import Scope

__all__ = ["report_document"]


def report_document(outcome: Outcome) -> Mapping[str, object]:
    """The result document; examples are as many as were asked for, counts are of everything."""
    tally, receipts = outcome.tally, outcome.receipts
    return {
        "typ": "affiant-reconciliation/1",
        "bundles": [_bundle(records) for records in outcome.bundles],
        "record": {
            "kind": outcome.source.kind,
            "form": outcome.source.form,
            "name": outcome.source.name,
            "digest": outcome.source.digest,
        },
        "scope": _scope(outcome.scope),
        "tolerance_ms": outcome.tolerance,
        "items": {str(state): count for state, count in tally.states.items()},
        "matched_by": {str(rule): count for rule, count in tally.rules.items() if count},
        "other_work": tally.other_work,
        "without_receipt_at_least": tally.states[State.MISSING] + tally.short,
        "receipts": {
            "compared": receipts.compared,
            "explained": receipts.explained,
            "contested": receipts.contested,
            "unexplained": receipts.unexplained,
            "undisclosed": dict(receipts.undisclosed),
        },
        "shown": {str(state): [_result(each) for each in shown] for state, shown in tally.shown.items()},
        "unexplained": [_claim(claim) for claim in receipts.shown],
        "exit_code": tally.exit_code,
    }


def _bundle(records: Records) -> Mapping[str, object]:
    verdict = records.verdict
    return {
        "bundle": verdict.bundle,
        "at": verdict.at,
        "trust": verdict.trust,
        "build": verdict.build,
        "tier": str(verdict.tier),
        "level": verdict.level,
        "simulated": verdict.simulated,
        "exit_code": verdict.exit_code,
        "unverified": records.unverified,
        "left_out": records.left_out,
        "receipts": len(records.records),
    }


def _scope(scope: Scope) -> Mapping[str, object]:
    return {
        "from": None if scope.begin is None else shown_time(scope.begin),
        "to": None if scope.end is None else shown_time(scope.end),
        "hosts": None if scope.hosts is None else sorted(map(str, scope.hosts)),
    }


def _result(result: Result) -> Mapping[str, object]:
    group = result.group
    return {
        "line": result.line,
        "item": None if result.item is None else about(result.item),
        "rule": None if result.rule is None else str(result.rule),
        "candidates": list(result.receipts),
        "group": None if group is None else {"items": group.items, "requests": group.receipts},
        "reason": result.reason,
    }


def _claim(claim: Claim) -> Mapping[str, object]:
    return {
        "receipt": claim.receipt,
        "at": shown_time(claim.at),
        "kind": claim.kind,
        "host": None if claim.authority is None else str(claim.authority),
        "model": claim.facts.model,
        "session": claim.session,
    }
