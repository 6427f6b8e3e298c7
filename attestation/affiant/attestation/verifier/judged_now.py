"""An archived bundle, judged at its own time and again now: the verdict is that of now, with what changed since.

The bundle's own time is the upper bound of its bracket; where neither witnesses nor a timestamp authority speak, the
latest time that its records give themselves, which only says what to compare with: a bundle that dates itself back gets
no better verdict, since that of now counts. What the gateway's results said of a session is held to the quote's worth
at that time; everything else, trust entries included, is judged at the instant of now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial

from affiant.attestation.encoding import sha256_name
from affiant.attestation.tdx.collateral import Collateral
from affiant.attestation.tdx.quote import TDQuote
from affiant.attestation.tdx.reference import ReferenceValues
from affiant.attestation.trust_file import Entry, TrustFile
from affiant.attestation.verifier.bracket import BY_WITNESSES
from affiant.attestation.verifier.case import Case, Newer, Party
from affiant.attestation.verifier.changed import Changed, CheckChanged, Ended, QuoteChanged, Worth
from affiant.attestation.verifier.evidence_checks import appraise_party
from affiant.attestation.verifier.refusals import NotMade
from affiant.attestation.verifier.verdict import Check, Verdict
from affiant.attestation.verifier.verify_bundle import Examined, examine_bundle
from affiant.errors import AffiantError

__all__ = ["examine_now"]

_TEXT = "%Y-%m-%dT%H:%M:%SZ"
_NEEDED = frozenset({"key.bound", "conf.bound", "pol.bound"})
_NAME = 100


def examine_now(
    data: bytes,
    trust: TrustFile,
    *,
    now: datetime,
    at: datetime | None,
    build: str,
    collateral: Callable[[TDQuote], Collateral] | None = None,
    request: bytes | None = None,
    response: bytes | None = None,
    session: str | None = None,
) -> Examined:
    """Judge an archived bundle at ``now``, and say what changed since its own time.

    Args:
        now: the instant of the verdict.
        at: the bundle's own time; None: as it says itself.
        collateral: the reader's own collateral for a quote, or ``NotMade``; None: the archived one again.
        data, trust, build, request, response, session: as of :func:`~.verify_bundle.examine_bundle`.
    """
    judge = partial(
        examine_bundle, data, trust, build=build, request=request, response=response, session=session
    )
    then_at, by = (at, "asked") if at is not None else _own_time(lambda when: judge(at=when), now)
    then = judge(at=then_at)
    if then.case is None:
        return judge(at=now)
    parties = then.case.parties
    newer = Newer(
        collateral=collateral,
        earlier={p.statement.receipt_kid: p.appraisal for p in parties if p.appraisal is not None},
        marks={p.statement.receipt_kid: p.mark for p in parties if p.mark is not None},
    )
    found = judge(at=now, newer=newer)
    changed = Changed(
        then=then_at.astimezone(UTC).strftime(_TEXT),
        by=by,
        tier=str(then.verdict.tier),
        level=then.verdict.level,
        exit_code=then.verdict.exit_code,
        own_collateral=collateral is not None,
        checks=tuple(_checks(then.verdict, found.verdict)),
        quotes=tuple(_quotes(then.case, found.case)),
        ended=tuple(_ended(trust, then_at, now)),
    )
    return replace(found, verdict=replace(found.verdict, changed=changed))


def _own_time(judge: Callable[[datetime], Examined], now: datetime) -> tuple[datetime, str]:
    """The upper bound of the bracket, and whose word it is.

    Who backs it may be accepted no more: then it is looked for at the time that the records give themselves.
    """
    first = judge(now)
    latest = _latest(first.case, now)
    for examined in (first, judge(latest)):
        time = examined.verdict.time
        if time is not None and time.not_after is not None:
            by = examined.verdict.witnesses if time.not_after_by == BY_WITNESSES else time.not_after_by
            return _instant(time.not_after, now), by
    return latest, "signers"


def _latest(case: Case | None, now: datetime) -> datetime:
    return _instant(max((record.iat for record in case.records), default=0), now) if case is not None else now


def _instant(seconds: int, now: datetime) -> datetime:
    """As an instant; never one that is still to come."""
    try:
        return min(now, datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return now


def _checks(then: Verdict, now: Verdict) -> Iterator[CheckChanged]:
    for before, after in zip(then.checks, now.checks, strict=True):
        if _known(before) != _known(after):
            yield CheckChanged(
                before.code,
                str(before.state),
                None if before.tier is None else str(before.tier),
                str(after.state),
                None if after.tier is None else str(after.tier),
                after.reason or before.reason,
                after.detail,
            )


def _known(check: Check) -> tuple[object, ...]:
    return check.state, check.tier, check.reason


def _quotes(then: Case, now: Case | None) -> Iterator[QuoteChanged]:
    """Every quote, also those that the check did not come to because an earlier one was refused."""
    earlier = {party.statement.receipt_kid: party for party in then.judged}
    for party in () if now is None else now.judged:
        assert now is not None
        before = earlier.get(party.statement.receipt_kid)
        yield QuoteChanged(
            party.role,
            party.statement.receipt_kid,
            Worth(refused="not_made") if before is None else _worth(then, before),
            _worth(now, party),
        )


def _worth(case: Case, party: Party) -> Worth:
    refused, detail = None, ""
    if case.established >= _NEEDED:
        try:
            appraise_party(case, party)
        except NotMade as missing:
            refused, detail = missing.code, missing.message
        except AffiantError as error:
            refused, detail = error.code, str(error)
    else:
        refused, detail = "not_made", "what the quote binds does not hold"
    verified, mark = party.verified, party.mark
    return Worth(
        tcb=None if verified is None else verified.statuses.merged.value,
        advisories=frozenset() if verified is None else verified.advisories,
        evaluation=None if mark is None else mark.evaluation_number,
        issued=None if mark is None else f"{min(mark.tcb_info_issued, mark.qe_identity_issued):{_TEXT}}",
        refused=refused,
        detail=detail,
    )


def _ended(trust: TrustFile, then: datetime, now: datetime) -> Iterator[Ended]:
    for name, entry, value in _entries(trust):
        if entry.counts_at(then) and not entry.counts_at(now):
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
