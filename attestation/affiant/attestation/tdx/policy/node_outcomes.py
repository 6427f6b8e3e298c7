"""Combines what policies decide.

A policy is a pure function, verified quote x settings -> :class:`Finding`, that refuses by raising. Every one is
judged at the time at which the quote was verified. :func:`judge_policies` runs them all, also after an error, so
that a reader sees every reason at once; :func:`require_accepted` turns the outcomes into an error or into nothing.

An accepted entry that has expired is no entry. An *exception* that has expired refuses with a code of its own: what
it excepted is still so, and somebody has to decide anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from affiant.attestation.tdx.policy.settings import AppraisalPolicy, Entry, counting
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import ConfigurationError

__all__ = [
    "Decision",
    "Finding",
    "NamedPolicy",
    "PolicyOutcome",
    "UsedException",
    "accepting",
    "excepting",
    "first_end",
    "judge_policies",
    "lapses",
    "longest",
    "require_accepted",
    "used_exception",
]

_E = TypeVar("_E", bound=Entry)


class Decision(StrEnum):
    """What a policy decided."""

    HELD = "held"
    EXCEPTED = "held_by_exception"
    NOT_LIMITED = "not_limited"
    """The author accepts anything here, and wrote so."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class UsedException:
    """An exception without which the policy would have refused."""

    name: str
    reason: str
    until: datetime | None
    where: str
    """``file:line:column``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What held, by which exceptions, and until when (None: no entry that was used ends)."""

    detail: str
    exceptions: tuple[UsedException, ...] = ()
    until: datetime | None = None
    limited: bool = True


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """One question. ``code`` is stable; ``point`` is that of the checklist, where there is one."""

    name: str
    code: str
    point: int | None
    judge: Callable[[VerifiedQuote, AppraisalPolicy], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """What one policy decided about one quote."""

    policy: NamedPolicy
    decision: Decision
    detail: str
    exceptions: tuple[UsedException, ...] = ()
    until: datetime | None = None
    refusal: AppraisalRefused | None = None


def judge_policies(
    verified: VerifiedQuote, settings: AppraisalPolicy, policies: Sequence[NamedPolicy]
) -> tuple[PolicyOutcome, ...]:
    """What each of ``policies`` decides, in their order; an error does not keep the next from being judged.

    Raises:
        ``appraisal.no_policy``: none are given.
    """
    if not policies:
        raise ConfigurationError(
            "an empty set of policies would hold of everything", code="appraisal.no_policy"
        )
    return tuple(_judge(policy, verified, settings) for policy in policies)


def require_accepted(outcomes: Sequence[PolicyOutcome]) -> None:
    """Refuse unless every outcome holds.

    Raises:
        ``appraisal.no_policy``: there are no outcomes.
        AppraisalRefused: the first policy's that refused.
    """
    if not outcomes:
        raise ConfigurationError("no policy was applied", code="appraisal.no_policy")
    for outcome in outcomes:
        if outcome.refusal is not None:
            raise outcome.refusal


def _judge(policy: NamedPolicy, verified: VerifiedQuote, settings: AppraisalPolicy) -> PolicyOutcome:
    try:
        finding = policy.judge(verified, settings)
    except AppraisalRefused as refusal:
        return PolicyOutcome(
            policy=policy, decision=Decision.REFUSED, detail=refusal.message, refusal=refusal
        )
    decision = Decision.HELD if finding.limited else Decision.NOT_LIMITED
    return PolicyOutcome(
        policy=policy,
        decision=Decision.EXCEPTED if finding.exceptions else decision,
        detail=finding.detail,
        exceptions=finding.exceptions,
        until=finding.until,
    )


# -- choosing entries ------------------------------------------------------------------------------------------------


def accepting(entries: Iterable[_E], at: datetime, refusal: AppraisalRefused) -> _E:
    """The entry among ``entries`` (all of them for what was found) that lasts longest.

    Raises:
        AppraisalRefused: ``refusal``: none counts at this time.
    """
    named = tuple(entries)
    found = longest(counting(named, at))
    if found is None:
        refusal.hint = lapses(named, at) or refusal.hint
        raise refusal
    return found


def excepting(entries: Iterable[_E], at: datetime, refusal: AppraisalRefused, what: str) -> _E:
    """The exception among ``entries`` (all of them for what was found) that lasts longest.

    Raises:
        ``appraisal.exception_lapsed``: there are only some that do not count at this time.
        AppraisalRefused: ``refusal``, where there are none.
    """
    candidates = tuple(entries)
    if not candidates:
        raise refusal
    if found := longest(counting(candidates, at)):
        return found
    last = candidates[-1]
    raise AppraisalRefused(
        f"the exception for {what} {last.lapse(at)}",
        where=last.where,
        found=f"{refusal.code} at {at:%Y-%m-%dT%H:%M:%SZ}",
        hint="What it excepted is still so: close it, or decide anew and write a new end.",
        code="appraisal.exception_lapsed",
    )


def longest(entries: Iterable[_E]) -> _E | None:
    """The entry that ends last; one without an end before all others."""
    chosen: _E | None = None
    for entry in entries:
        if chosen is None or (chosen.end is not None and (entry.end is None or entry.end > chosen.end)):
            chosen = entry
    return chosen


def used_exception(name: str, entry: Entry, *, until: datetime | None = None) -> UsedException:
    ends = [end for end in (until, entry.end) if end is not None]
    return UsedException(name, entry.reason or "", min(ends, default=None), entry.where)


def lapses(entries: Iterable[Entry], at: datetime) -> str | None:
    """Why entries that would have accepted do not count."""
    said = [f"the entry at {entry.where} {lapse}" for entry in entries if (lapse := entry.lapse(at))]
    return "; ".join(said) or None


def first_end(ends: Iterable[datetime | None]) -> datetime | None:
    return min((end for end in ends if end is not None), default=None)
