"""What is compared of then and now, of single bundles and periods alike: a quote's worth, rows, trust entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.tdx.appraise.reference import ReferenceValues
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.accepted_values import Entry, TrustFile
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.since_archived import (
    Changed,
    CheckChanged,
    Ended,
    QuoteChanged,
    QuotesCounted,
    Worth,
)
from affiant.attestation.verdict.verdict import Check, Verdict
from affiant.attestation.verifier.case.case import Case, Newer, Party
from affiant.attestation.verifier.case.question import Comparison
from affiant.attestation.verifier.case.signer_evidence import Quoted
from affiant.attestation.verifier.checks.evidence_checks import appraised_once
from affiant.errors import AffiantError

__all__ = [
    "NOT_JUDGED",
    "changed_since",
    "check_changed",
    "ended_since",
    "held_against",
    "instant_of",
    "known_of",
    "quotes_of",
    "worth_of",
]

NOT_JUDGED: Final = Worth(refused="not_made")
"""Of a quote that was not come to."""
_TEXT: Final = "%Y-%m-%dT%H:%M:%SZ"
_NEEDED: Final = frozenset({"key.bound", "conf.bound", "pol.bound"})
_NAME: Final = 100


def quotes_of(case: Case) -> Mapping[tuple[str, int], tuple[Party, Quoted | None]]:
    """Key of a signer whose quotes are judged, and epoch -> the quote; None: not even its evidence was read."""
    return {
        (party.statement.receipt_kid, 0 if quoted is None else quoted.epoch): (party, quoted)
        for party in case.judged
        for quoted in (party.quoted or (None,))
    }


def worth_of(case: Case, party: Party, quoted: Quoted | None) -> Worth:
    """What a quote of a signer is worth; also where the check did not come to it because an earlier one was refused."""
    refused, detail = None, ""
    if quoted is not None and case.established >= _NEEDED:
        try:
            appraised_once(case, party, quoted)
        except NotMade as missing:
            refused, detail = missing.code, missing.message
        except AffiantError as error:
            refused, detail = error.code, str(error)
    else:
        refused, detail = "not_made", "what the quote binds does not hold"
    verified, mark = (None, None) if quoted is None else (quoted.verified, quoted.mark)
    return Worth(
        tcb=None if verified is None else verified.statuses.merged.value,
        advisories=frozenset() if verified is None else verified.advisories,
        evaluation=None if mark is None else mark.evaluation_number,
        issued=None if mark is None else f"{min(mark.tcb_info_issued, mark.qe_identity_issued):{_TEXT}}",
        refused=refused,
        detail=detail,
    )


def held_against(case: Case, collateral: Callable[[TDQuote], Collateral] | None) -> Newer:
    """What a case is judged against again, of which this one found the quotes' worth at its own time."""
    quotes = [quoted for party in case.parties for quoted in party.quoted]
    return Newer(
        collateral=collateral,
        earlier={each.evd: each.appraisal for each in quotes if each.appraisal is not None},
        marks={each.evd: each.mark for each in quotes if each.mark is not None},
    )


def changed_since(
    then: Verdict,
    *,
    by: str,
    compared: Comparison,
    checks: Iterable[CheckChanged],
    quotes: Iterable[QuoteChanged],
    ended: Iterable[Ended],
    counted: QuotesCounted | None = None,
) -> Changed:
    """What changed since ``then``, the verdict at the bundle's own time; members as of ``Changed``."""
    return Changed(
        then=then.at,
        by=by,
        tier=str(then.tier),
        level=then.level,
        exit_code=then.exit_code,
        own_collateral=compared.collateral is not None,
        checks=tuple(checks),
        quotes=tuple(quotes),
        ended=tuple(ended),
        counted=counted,
    )


def known_of(check: Check) -> tuple[object, ...]:
    """What makes a row another one: not its words."""
    return check.state, check.tier, check.reason


def check_changed(before: Check, after: Check) -> CheckChanged:
    """A row that came out otherwise."""
    return CheckChanged(
        before.code,
        str(before.state),
        None if before.tier is None else str(before.tier),
        str(after.state),
        None if after.tier is None else str(after.tier),
        after.reason or before.reason,
        after.detail,
    )


def ended_since(trust: TrustFile, then: Collection[datetime], now: datetime) -> Iterator[Ended]:
    """Entries that counted at one of ``then``, and do not now."""
    for name, entry, value in _entries(trust):
        if any(entry.counts_at(each) for each in then) and not entry.counts_at(now):
            revoked = entry.revoked_at is not None and entry.revoked_at <= now
            when = entry.revoked_at if revoked else entry.until
            if when is not None:
                yield Ended(name, value, "revoked_at" if revoked else "until", when.strftime(_TEXT))


def _entries(trust: TrustFile) -> Iterator[tuple[str, Entry, str]]:
    """Every entry of every list, with what it is called: a text that is long by its digest."""
    for member in fields(trust):
        entries = getattr(trust, member.name)
        for item in entries if isinstance(entries, tuple) else ():
            entry, what = item if isinstance(item, tuple) else (item, None)
            if isinstance(entry, Entry):
                text = what.digest if isinstance(what, ReferenceValues) else entry.value
                short = text if len(text) <= _NAME else sha256_name(text.encode("utf-8", "backslashreplace"))
                yield member.name, entry, short


def instant_of(seconds: int, now: datetime) -> datetime:
    """As an instant; never one that is still to come."""
    try:
        return min(now, datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return now
