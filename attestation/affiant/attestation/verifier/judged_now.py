"""An archived bundle, judged at its own time and again now: the verdict is that of now, with what changed since.

The bundle's own time is the upper one of its time bounds; where neither witnesses nor a timestamp authority speak, the
latest time that its records give themselves, which only says what to compare with: a bundle that dates itself back gets
no better verdict, since that of now counts. What the gateway's results said of a session is held to the quote's worth
at that time; everything else, trust entries included, is judged at the instant of now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from affiant.attestation.verdict.since_archived import CheckChanged, QuoteChanged
from affiant.attestation.verdict.time_bounds import BY_WITNESSES
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.comparing import (
    NOT_JUDGED,
    changed_since,
    check_changed,
    ended_since,
    held_against,
    instant_of,
    known_of,
    quotes_of,
    worth_of,
)
from affiant.attestation.verifier.verify_bundle import Examined, examine_bundle

__all__ = ["examine_now"]


def examine_now(data: bytes, question: Question) -> Examined:
    """Judge an archived bundle at the time of ``question``, and say what changed since its own time."""
    now, trust, compared = question.at, question.trust, question.compared or Comparison()
    question = replace(question, compared=None)
    if compared.since is not None:
        then_at, by = compared.since, "asked"
    else:
        question = replace(question, seen=now)
        then_at, by = _own_time(data, question)
    then = examine_bundle(data, replace(question, at=then_at))
    if then.case is None:
        return examine_bundle(data, question)
    newer = held_against(then.case, compared.collateral)
    found = examine_bundle(data, replace(question, seen=None), newer=newer)
    changed = changed_since(
        then.verdict,
        by=by,
        compared=compared,
        checks=_checks(then.verdict, found.verdict),
        quotes=_quotes(then.case, found.case),
        ended=ended_since(trust, (then_at,), now),
    )
    return replace(found, verdict=replace(found.verdict, changed=changed))


def _own_time(data: bytes, question: Question) -> tuple[datetime, str]:
    """The upper time bound, and whose word it is.

    Who backs it may be accepted no more: then it is looked for at the time that the records give themselves.
    """
    now = question.at
    first = examine_bundle(data, question)
    latest = _latest(first.case, now)
    for examined in (first, examine_bundle(data, replace(question, at=latest))):
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
