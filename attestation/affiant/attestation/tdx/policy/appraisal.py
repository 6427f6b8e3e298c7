"""Appraises a verified quote by a policy: verified quote x appraisal policy -> :class:`PolicyAppraisal`.

``affirming`` needs genuine hardware, ``UpToDate``, no exception used, and every binding expectation; what is
accepted with less is a ``warning``. Simulated evidence is worth ``none``, whatever else holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from affiant.attestation.tdx.appraise.appraisal import Tier
from affiant.attestation.tdx.appraise.expectations import Expectations, appraise_expectations
from affiant.attestation.tdx.event_log.measured_log import MeasuredLog
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.policy.node_outcomes import (
    Decision,
    PolicyOutcome,
    UsedException,
    first_end,
    judge_policies,
    require_accepted,
)
from affiant.attestation.tdx.policy.policies import POLICIES
from affiant.attestation.tdx.policy.settings import AcceptedImage, AppraisalPolicy
from affiant.attestation.tdx.policy.td import accepted_images
from affiant.attestation.tdx.quote.checks import Check, held_as, not_made
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import ConfigurationError

__all__ = ["PolicyAppraisal", "appraise_by_policy", "judge_by_policy"]


@dataclass(frozen=True, slots=True)
class PolicyAppraisal:
    """A TD that every policy accepts. Only :func:`appraise_by_policy` makes one."""

    tier: Tier
    policy: AppraisalPolicy
    outcomes: tuple[PolicyOutcome, ...] = field(repr=False)
    images: tuple[AcceptedImage, ...]
    """The entries whose measurements the TD has."""
    holds_until: datetime
    """The first time at which a part of the evidence, or an entry that was used, ends. What relies on this
    result must not outlive it."""
    checks_made: tuple[Check, ...] = field(repr=False)
    checks_not_made: tuple[Check, ...] = field(repr=False)

    @property
    def exceptions(self) -> tuple[UsedException, ...]:
        """The exceptions without which the TD would have been refused."""
        return tuple(used for outcome in self.outcomes for used in outcome.exceptions)


def judge_by_policy(
    verified: VerifiedQuote, policy: AppraisalPolicy, expected: Expectations
) -> tuple[PolicyOutcome, ...]:
    """What every policy decides, errors included: a report for a reader, and no acceptance.

    Raises:
        ``appraisal.expectation``: the policy knows no image of the expected name.
    """
    return judge_policies(verified, _narrowed(policy, expected), POLICIES)


def appraise_by_policy(
    verified: VerifiedQuote,
    policy: AppraisalPolicy,
    expected: Expectations,
    *,
    log: MeasuredLog | None = None,
) -> PolicyAppraisal:
    """Appraise ``verified`` by every policy, and against what is expected of this one TD.

    Args:
        verified: the quote, verified at the time at which the policy's entries are judged, too.
        policy: what is accepted.
        expected: what else is expected. What is not asked is a row that was not made.
        log: an event log that must replay to the registers; None: not asked.

    Raises:
        AppraisalRefused: the first policy's error, or that of an expectation.
        ``eventlog.replay``: the log does not replay to the registers.
        ``appraisal.expectation``: the policy knows no image of the expected name.
    """
    settings = _narrowed(policy, expected)
    outcomes = judge_policies(verified, settings, POLICIES)
    require_accepted(outcomes)
    met = appraise_expectations(verified.quote.body, expected, log=log, extends_nothing=False)
    ends = first_end((verified.earliest_expiry, *(outcome.until for outcome in outcomes)))
    return PolicyAppraisal(
        tier=_tier(verified, outcomes, bound=met.bound),
        policy=policy,
        outcomes=outcomes,
        images=accepted_images(verified, settings),
        holds_until=verified.earliest_expiry if ends is None else ends,
        checks_made=(*_made(outcomes), *met.made),
        checks_not_made=(*_missing(outcomes), *met.missing),
    )


def _narrowed(policy: AppraisalPolicy, expected: Expectations) -> AppraisalPolicy:
    if expected.image is None:
        return policy
    if expected.image not in policy.image_names:
        raise ConfigurationError(
            "the policy knows no such image",
            expected=" or ".join(policy.image_names),
            found=repr(expected.image[:64]),
            code="appraisal.expectation",
        )
    return policy.for_image(expected.image)


def _made(outcomes: Sequence[PolicyOutcome]) -> Iterator[Check]:
    for outcome in outcomes:
        if outcome.policy.point is not None and outcome.decision is not Decision.NOT_LIMITED:
            yield held_as(outcome.policy.point, outcome.detail)


def _missing(outcomes: Sequence[PolicyOutcome]) -> Iterator[Check]:
    for outcome in outcomes:
        if outcome.policy.point is not None and outcome.decision is Decision.NOT_LIMITED:
            yield not_made(outcome.policy.point, f"{outcome.policy.name}: {outcome.detail}")
    yield not_made(40, "MROWNER and MROWNERCONFIG: no value pinned")


def _tier(verified: VerifiedQuote, outcomes: Sequence[PolicyOutcome], *, bound: bool) -> Tier:
    if verified.evidence_class is not EvidenceClass.HARDWARE:
        return Tier.NONE
    excepted = any(outcome.exceptions for outcome in outcomes)
    up_to_date = verified.statuses.merged is TCBStatus.UP_TO_DATE
    return Tier.AFFIRMING if up_to_date and bound and not excepted else Tier.WARNING
