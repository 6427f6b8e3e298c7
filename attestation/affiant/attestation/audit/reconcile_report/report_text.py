"""What `affiant reconcile` prints. Everything in it may be hostile: escaped, bounded, on one line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.outcome import Outcome
from affiant.attestation.audit.reconcile.results import Result, State
from affiant.attestation.audit.reconcile.verified_records import Records
from affiant.attestation.audit.records_of_others.item import Item
from affiant.attestation.verdict.lines import one_line
from affiant.attestation.verifier.report.text import head_lines

__all__ = ["about", "report_lines", "shown_time"]

_LIMIT: Final = 160
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FACTS: Final = {
    "target": "target",
    "sent": "request length",
    "received": "answer length",
    "tokens_in": "input tokens",
    "tokens_out": "output tokens",
}
_LIMITS: Final = (
    "A match says that a receipt and an item agree in what the rule compares, and that no other of either does.",
    "It does not say that the record is complete: whoever keeps it must be somebody else than the operator.",
)


def report_lines(outcome: Outcome) -> Iterator[str]:
    """Text for a terminal."""
    for records in outcome.bundles:
        yield from head_lines(records.verdict)
        yield _standing(records)
        yield ""
    yield from _source(outcome)
    yield ""
    yield from _counts(outcome)
    for state, title in _TITLES.items():
        yield from _listed(outcome, state, title)
    yield from _other_direction(outcome)
    yield ""
    yield from _LIMITS
    yield _end(outcome)


def _standing(records: Records) -> str:
    verdict = records.verdict
    text = f"verdict          tier {verdict.tier}, level {verdict.level or 'none reached'}"
    if verdict.simulated:
        text += ", SIMULATED: nothing here is evidence of hardware"
    if records.unverified:
        text += f"\nUNVERIFIED       the bundle does not hold; {records.left_out} receipts left out as not authentic"
    return text


def _source(outcome: Outcome) -> Iterator[str]:
    source, scope = outcome.source, outcome.scope
    yield f"record           {source.kind}, read as {source.form}: {one_line(source.name, limit=_LIMIT)}"
    yield f"                 {source.digest}"
    begin = "its beginning" if scope.begin is None else shown_time(scope.begin)
    end = "its end" if scope.end is None else shown_time(scope.end)
    yield f"range            from {begin} to {end}"
    if scope.hosts is not None:
        yield f"hosts            {one_line(', '.join(sorted(map(str, scope.hosts))), limit=_LIMIT)}"
    yield f"tolerance        {outcome.tolerance / 1000:g} s between the clocks"


def _counts(outcome: Outcome) -> Iterator[str]:
    tally = outcome.tally
    rules = ", ".join(f"{count:,} by {rule}" for rule, count in tally.rules.items() if count)
    yield f"{tally.items:,} items were followed"
    yield f"  matched        {tally.states[State.MATCHED]:,}" + (f"  ({rules})" if rules else "")
    short = f"  (at least {tally.short:,} of them have no receipt)" if tally.short else ""
    yield f"  ambiguous      {tally.states[State.AMBIGUOUS]:,}{short}"
    yield f"  missing        {tally.states[State.MISSING]:,}"
    yield f"out of range     {tally.states[State.OUT_OF_RANGE]:,}"
    yield f"unreadable       {tally.states[State.UNREADABLE]:,}"
    if tally.other_work:
        yield f"other work       {tally.other_work:,} spans that are no requests to a model"


_TITLES: Final = {
    State.MISSING: "MISSING: no receipt explains these",
    State.AMBIGUOUS: "ambiguous: more than one of items or receipts fits",
    State.UNREADABLE: "unreadable",
}


def _listed(outcome: Outcome, state: State, title: str) -> Iterator[str]:
    results, count = outcome.tally.shown[state], outcome.tally.states[state]
    if not count:
        return
    yield ""
    yield title
    for result in results:
        yield f"  line {result.line}: {one_line(_said(result), limit=400)}"
    if count > len(results):
        yield f"  and {count - len(results):,} more; --csv FILE has them all"


def _said(result: Result) -> str:
    parts = [] if result.item is None else [about(result.item)]
    if result.group is not None:
        parts.append(f"{result.group.items} items, {result.group.receipts} requests of receipts")
    if result.receipts:
        parts.append(f"could be {', '.join(result.receipts)}")
    if result.reason is not None:
        parts.append(result.reason)
    return "; ".join(parts)


def about(item: Item) -> str:
    """An item in a few words, unescaped."""
    facts = item.facts
    tokens = None if facts.tokens_in is None else f"{facts.tokens_in}+{facts.tokens_out or 0} tokens"
    words = (
        shown_time(item.ended),
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


def _other_direction(outcome: Outcome) -> Iterator[str]:
    receipts = outcome.receipts
    yield ""
    yield (
        f"{receipts.compared:,} requests stand in receipts of the range: {receipts.explained:,} explain an item, "
        f"{receipts.contested:,} could, {receipts.unexplained:,} have no item"
    )
    if receipts.undisclosed:
        counts = ", ".join(
            f"{_FACTS[name]} of {count:,}" for name, count in sorted(receipts.undisclosed.items())
        )
        yield f"  not disclosed, and so not compared: {counts}"
    for claim in receipts.shown:
        yield f"  {one_line(_claimed(claim), limit=400)}"
    if receipts.unexplained > len(receipts.shown):
        yield f"  and {receipts.unexplained - len(receipts.shown):,} more; --csv FILE has them all"


def _claimed(claim: Claim) -> str:
    place = claim.authority or "host not disclosed"
    return f"{claim.receipt} {shown_time(claim.at)} {claim.kind} {place} {claim.facts.model or ''}".rstrip()


def _end(outcome: Outcome) -> str:
    tally = outcome.tally
    without = tally.states[State.MISSING] + tally.short
    if without:
        return f"MISSING  at least {without:,} items have no receipt"
    if not tally.items:
        return "NOTHING  no item was followed: this proves nothing"
    if tally.exit_code:
        return "NOT DECIDED  no item is known to lack a receipt; not every item has one of its own"
    return f"MATCHED  each of {tally.items:,} items has a receipt of its own"


def shown_time(milliseconds: int) -> str:
    """RFC 3339 in UTC, with milliseconds where there are any."""
    try:
        at = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{at:%Y-%m-%dT%H:%M:%S}{f'.{at.microsecond // 1000:03}' if at.microsecond else ''}Z"
