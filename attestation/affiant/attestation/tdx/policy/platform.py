"""Decides on the platform: its root, TCB, machine and flags (points 21, 37 and 42)."""

from __future__ import annotations

from datetime import datetime, timedelta

from affiant.attestation.tdx.appraise.appraisal import (
    other_root,
    other_status,
    require_class,
    require_evaluation,
)
from affiant.attestation.tdx.policy.node_outcomes import (
    Finding,
    accepting,
    excepting,
    first_end,
    lapses,
    longest,
    used_exception,
)
from affiant.attestation.tdx.policy.settings import AcceptedStatus, AppraisalPolicy, Grace, counting
from affiant.attestation.tdx.quote.errors import (
    AppraisalRefused,
)
from affiant.attestation.tdx.verify.verify import VerifiedQuote

__all__ = ["advisories", "evaluation_number", "machine", "pck_flags", "root", "tcb_status"]


def root(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    require_class(verified, settings.evidence_class)
    named = (root for root in settings.roots if root.digest == verified.root_digest)
    root = accepting(named, verified.judged_at, other_root(verified))
    return Finding(detail=f"{verified.evidence_class}, by an accepted root key", until=root.end)


def tcb_status(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    """37: the merged status; Revoked was refused before and cannot be accepted."""
    status, at = verified.statuses.merged, verified.judged_at
    accepted = _accepted_status(verified, settings)
    if accepted is not None:
        return Finding(detail=f"{status.value} is an accepted status", until=accepted.end)
    named = [entry for entry in settings.statuses if entry.status is status]
    refusal = other_status(verified, (entry.status for entry in counting(settings.statuses, at)))
    refusal.hint = lapses(named, at) or refusal.hint
    entries = [entry for entry in settings.grace if entry.status is status]
    grace = excepting(entries, at, refusal, f"grace of {status.value}")
    end = _end_of(grace, verified)
    if end is None:
        refusal.hint = "No grace: the collateral lists no newer level to count it from."
        raise refusal
    if at >= end:
        raise AppraisalRefused(
            f"the grace of {status.value} is over",
            where=grace.where,
            expected=f"an update before {_instant(end)}, {grace.days} days after it became due",
            found=f"{status.value} at {_instant(at)}",
            code="appraisal.grace_over",
        )
    used = used_exception(f"grace of {status.value}", grace, until=end)
    return Finding(
        detail=f"{status.value}, within {grace.days} days of grace, which end at {_instant(end)}",
        exceptions=(used,),
        until=used.until,
    )


def _accepted_status(verified: VerifiedQuote, settings: AppraisalPolicy) -> AcceptedStatus | None:
    status = verified.statuses.merged
    named = [entry for entry in settings.statuses if entry.status is status]
    return longest(counting(named, verified.judged_at))


def _end_of(grace: Grace, verified: VerifiedQuote) -> datetime | None:
    """When a grace ends: so many days after an update became due, by the collateral's own dates; None: nothing to
    count it from."""
    since = verified.newer_level_since
    return None if since is None else since + timedelta(days=grace.days)


def _in_grace(verified: VerifiedQuote, settings: AppraisalPolicy) -> bool:
    """Whether the status stands by a grace, and by nothing else."""
    named = [entry for entry in settings.grace if entry.status is verified.statuses.merged]
    grace = longest(counting(named, verified.judged_at))
    end = None if grace is None else _end_of(grace, verified)
    return end is not None and verified.judged_at < end and _accepted_status(verified, settings) is None


def advisories(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    """37: an open advisory refuses, unless it is excepted by its id, or the status stands by its grace: the time
    that is given for the update is given for what the update closes, and for nothing else (a platform that needs
    software hardening as well has advisories that no update closes)."""
    if settings.advisories is None:
        return Finding(detail="none is judged by itself: the TCB status alone decides", limited=False)
    if not verified.advisories:
        return Finding(detail="no advisory is open")
    covered: frozenset[str] = verified.due_advisories if _in_grace(verified, settings) else frozenset()
    if not (left := verified.advisories - covered):
        return Finding(detail="open advisories are covered by the grace of the TCB status")
    used = []
    for advisory in sorted(left):
        refusal = AppraisalRefused(
            "an advisory is open",
            found=advisory,
            hint="Update the platform, or except it by its id with an end and a reason.",
            code="appraisal.advisory",
        )
        entries = [entry for entry in settings.advisories if entry.advisory == advisory]
        used.append(used_exception(advisory, excepting(entries, verified.judged_at, refusal, advisory)))
    return Finding(
        detail=f"every open advisory ({len(left)}) is excepted by its id"
        + (f", but for {len(covered)} that the grace of the TCB status covers" if covered else ""),
        exceptions=tuple(used),
        until=first_end(exception.until for exception in used),
    )


def evaluation_number(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    require_evaluation(verified, settings.minimum_evaluation)
    return Finding(detail=f"evaluation {verified.evaluation_number}, at least {settings.minimum_evaluation}")


def machine(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    if settings.machines is None:
        return Finding(detail="any genuine machine is accepted", limited=False)
    accepted = accepting(
        (
            machine
            for machine in settings.machines
            if machine.ppid in (None, verified.ppid) and machine.fmspc in (None, verified.fmspc)
        ),
        verified.judged_at,
        AppraisalRefused(
            "the machine is not on the list",
            found=f"PPID {verified.ppid.hex()}, FMSPC {verified.fmspc.hex()}",
            code="appraisal.machine",
        ),
    )
    return Finding(detail="the machine is on the list", until=accepted.end)


def pck_flags(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    """42: what the PCK certificate does not say is not as demanded."""
    demanded = settings.flags
    if demanded.demands_nothing:
        return Finding(detail="the platform's flags may be any", limited=False)
    pck = verified.pck
    flags = (
        ("dynamic_platform", demanded.dynamic_platform, pck.dynamic_platform),
        ("cached_keys", demanded.cached_keys, pck.cached_keys),
        ("smt", demanded.smt, pck.smt_enabled),
    )
    words = {True: "true", False: "false", None: "not said"}
    for name, wanted, found in flags:
        if wanted is not None and found is not wanted:
            raise AppraisalRefused(
                f"the platform's flag {name} is not as demanded",
                expected=words[wanted],
                found=words[found],
                code="appraisal.pck_flags",
            )
    names = ", ".join(f"{name} {words[wanted]}" for name, wanted, _ in flags if wanted is not None)
    return Finding(detail=f"as demanded: {names}")


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
