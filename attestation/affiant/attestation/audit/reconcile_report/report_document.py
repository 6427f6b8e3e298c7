"""What `affiant reconcile` found, as one document: ``affiant-reconciliation/1``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.outcome import Outcome
from affiant.attestation.audit.reconcile.results import Result, State
from affiant.attestation.audit.reconcile.verified_records import Records
from affiant.attestation.audit.records_of_others.item import Item
from affiant.attestation.audit.records_of_others.scope import Scope
from affiant.attestation.audit.records_of_others.timestamps import rfc3339_text

__all__ = ["ending", "report_document"]

_LIMIT: Final = 160


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


def ending(outcome: Outcome) -> Iterator[str]:
    """What the document means, for a person."""
    tally = outcome.tally
    yield ""
    yield "A match says that a receipt and an item agree in what the rule compares, and that no other of either does."
    yield "It does not say that the record is complete: the operator of the gateway must not be the one who keeps it."
    if any(records.verdict.simulated for records in outcome.bundles):
        yield "SIMULATED  nothing here is evidence of hardware"
    receipts = outcome.receipts
    if receipts.unexplained > len(receipts.shown) or any(
        tally.states[state] > len(shown) for state, shown in tally.shown.items()
    ):
        yield "Not all findings are shown; --csv FILE has them all."
    if without := tally.states[State.MISSING] + tally.short:
        yield f"MISSING  at least {without:,} items have no receipt"
    elif not tally.items:
        yield "NOTHING  no item was followed: this proves nothing"
    elif tally.exit_code:
        yield "NOT DECIDED  no item is known to lack a receipt; not every item has one of its own"
    else:
        yield f"MATCHED  each of {tally.items:,} items has a receipt of its own"


def _bundle(records: Records) -> Mapping[str, object]:
    verdict = records.verdict
    return {
        "bundle": verdict.bundle,
        "at": verdict.at,
        "trust": verdict.trust,
        "build": verdict.build,
        "outcome": str(verdict.outcome),
        "platform_class": str(verdict.platform),
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
        "from": None if scope.begin is None else rfc3339_text(scope.begin),
        "to": None if scope.end is None else rfc3339_text(scope.end),
        "hosts": None if scope.hosts is None else sorted(map(str, scope.hosts)),
    }


def _result(result: Result) -> Mapping[str, object]:
    group = result.group
    return {
        "line": result.line,
        "item": None if result.item is None else _about(result.item),
        "rule": None if result.rule is None else str(result.rule),
        "candidates": list(result.receipts),
        "group": None if group is None else {"items": group.items, "requests": group.receipts},
        "reason": result.reason,
    }


def _claim(claim: Claim) -> Mapping[str, object]:
    return {
        "receipt": claim.receipt,
        "at": rfc3339_text(claim.at),
        "kind": claim.kind,
        "host": None if claim.authority is None else str(claim.authority),
        "model": claim.facts.model,
        "session": claim.session,
    }


def _about(item: Item) -> str:
    """An item in a few words."""
    facts = item.facts
    tokens = None if facts.tokens_in is None else f"{facts.tokens_in}+{facts.tokens_out or 0} tokens"
    words = (
        rfc3339_text(item.ended),
        facts.method,
        None if item.authority is None else f"{item.authority}{facts.path or ''}",
        facts.model,
        None if facts.status is None else str(facts.status),
        tokens,
        None if item.reference is None else f"({item.reference})",
    )
    return " ".join(_cut(word) for word in words if word is not None)


def _cut(word: str) -> str:
    return word if len(word) <= _LIMIT else word[:_LIMIT] + "..."
