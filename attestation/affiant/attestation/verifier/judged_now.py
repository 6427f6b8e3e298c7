"""An archived bundle, judged at its own time and again now: the verdict is that of now, with what changed since.

The bundle's own time is the upper one of its time bounds; where neither witnesses nor a timestamp authority speak, the
latest time that its records give themselves, which only says what to compare with: a bundle that dates itself back gets
no better verdict, since that of now counts. What the gateway's results said of a session is held to the quote's worth
at that time; everything else, trust entries included, is judged at the instant of now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.since_archived import Changed, CheckChanged, QuoteChanged
from affiant.attestation.verdict.time_bounds import BY_WITNESSES
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers
from affiant.attestation.verifier.comparing import (
    NOT_JUDGED,
    check_changed,
    ended_since,
    held_against,
    instant_of,
    known_of,
    quotes_of,
    told,
    worth_of,
)
from affiant.attestation.verifier.verify_bundle import Examined, examine_bundle

__all__ = ["examine_now"]


def examine_now(
    data: bytes,
    trust: TrustFile,
    *,
    verifiers: StatementVerifiers,
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
        data, trust, verifiers, build, request, response, session: as of :func:`~.verify_bundle.examine_bundle`.
    """
    judge = partial(
        examine_bundle,
        data,
        trust,
        verifiers=verifiers,
        build=build,
        request=request,
        response=response,
        session=session,
    )
    if at is not None:
        then_at, by, seen = at, "asked", None
    else:
        (then_at, by), seen = _own_time(lambda when: judge(at=when, seen=now), now), now
    then = judge(at=then_at, seen=seen)
    if then.case is None:
        return judge(at=now)
    found = judge(at=now, newer=held_against(then.case, collateral))
    changed = Changed(
        then=told(then_at),
        by=by,
        tier=str(then.verdict.tier),
        level=then.verdict.level,
        exit_code=then.verdict.exit_code,
        own_collateral=collateral is not None,
        checks=tuple(_checks(then.verdict, found.verdict)),
        quotes=tuple(_quotes(then.case, found.case)),
        ended=tuple(ended_since(trust, (then_at,), now)),
    )
    return replace(found, verdict=replace(found.verdict, changed=changed))


def _own_time(judge: Callable[[datetime], Examined], now: datetime) -> tuple[datetime, str]:
    """The upper time bound, and whose word it is.

    Who backs it may be accepted no more: then it is looked for at the time that the records give themselves.
    """
    first = judge(now)
    latest = _latest(first.case, now)
    for examined in (first, judge(latest)):
        time = examined.verdict.time
        if time is not None and time.not_after is not None:
            by = examined.verdict.witnesses if time.not_after_by == BY_WITNESSES else time.not_after_by
            return instant_of(time.not_after, now), by
    return latest, "signers"


def _latest(case: Case | None, now: datetime) -> datetime:
    return (
        instant_of(max((record.iat for record in case.records), default=0), now) if case is not None else now
    )


def _checks(then: Verdict, now: Verdict) -> Iterator[CheckChanged]:
    for before, after in zip(then.checks, now.checks, strict=True):
        if known_of(before) != known_of(after):
            yield check_changed(before, after)


def _quotes(then: Case, now: Case | None) -> Iterator[QuoteChanged]:
    """Every quote, also those that the check did not come to because an earlier one was refused."""
    earlier = quotes_of(then)
    for (key, epoch), (party, quoted) in () if now is None else quotes_of(now).items():
        assert now is not None
        before = earlier.get((key, epoch))
        worth = NOT_JUDGED if before is None else worth_of(then, *before)
        yield QuoteChanged(party.role, key, worth, worth_of(now, party, quoted), epoch=epoch)
