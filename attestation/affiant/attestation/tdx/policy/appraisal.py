"""Appraises a verified quote for a reader: verified quote x what is accepted -> :class:`PolicyAppraisal`.

What is accepted is an appraisal policy, or reference values: a policy in which each value has one entry that always
counts, nothing is excepted, and advisories and machines may be any. What the reader does not ask is listed as *not
made*.

``affirming`` needs genuine hardware, ``UpToDate``, no exception used, and every binding expectation; what is
accepted with less is a ``warning``. Simulated evidence is worth ``none``, whatever else holds, and so is a quote of a
TD that nobody appraised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from affiant.attestation.tdx.appraise.appraisal import Tier, tier_of
from affiant.attestation.tdx.appraise.expectations import Expectations, appraise_expectations
from affiant.attestation.tdx.event_log.measured_log import MeasuredLog
from affiant.attestation.tdx.policy.node_outcomes import (
    Decision,
    PolicyOutcome,
    UsedException,
    first_end,
    judge_policies,
    require_accepted,
)
from affiant.attestation.tdx.policy.policies import POLICIES, REFERENCE_POLICIES
from affiant.attestation.tdx.policy.settings import AcceptedImage, AppraisalPolicy
from affiant.attestation.tdx.policy.td import accepted_images
from affiant.attestation.tdx.quote.attributes import appraise_td_configuration
from affiant.attestation.tdx.quote.checks import Check, held_as, not_made
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import ConfigurationError

__all__ = ["PolicyAppraisal", "appraise_by_policy", "judge_by_policy"]

_NO_REFERENCE: Final = "no reference values were given"


@dataclass(frozen=True, slots=True)
class PolicyAppraisal:
    """A TD that every policy accepts. Only this module makes one."""

    tier: Tier
    policy: AppraisalPolicy | None
    """None: neither a policy nor reference values were given, and only the fixed rules hold."""
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
    rules = REFERENCE_POLICIES if policy.is_reference else POLICIES
    return judge_policies(verified, _narrowed(policy, expected), rules)


def appraise_by_policy(
    verified: VerifiedQuote,
    policies: Sequence[AppraisalPolicy],
    expected: Expectations,
    *,
    log: MeasuredLog | None = None,
) -> PolicyAppraisal:
    """Appraise ``verified`` by what is accepted, and against what is expected of this one TD.

    Args:
        verified: the quote, verified at the time at which the entries of policies are judged, too.
        policies: what is accepted; one of them must accept the quote. None given: only the fixed rules hold.
        expected: what else is expected. What is not asked is a row that was not made.
        log: an event log that must replay to the registers; None: not asked.

    Raises:
        AppraisalRefused: no policy accepts the quote, with the first one's first error; or an expectation is not met.
        ``eventlog.replay``: the log does not replay to the registers.
        ``appraisal.expectation``: a policy knows no image of the expected name.
    """
    body = verified.quote.body
    if all(policy.is_reference for policy in policies):
        appraise_td_configuration(body)
    policy, outcomes = _accepting(verified, policies, expected)
    images = () if policy is None else accepted_images(verified, _narrowed(policy, expected))
    gateway = policy is not None and policy.is_reference and {image.name for image in images} == {"gateway"}
    met = appraise_expectations(body, expected, log=log, extends_nothing=gateway)
    made, missing = (_made(outcomes), _missing(outcomes)) if policy is not None else _fixed_rules()
    if policy is not None and policy.is_reference:
        made, missing = _by_point(made), _by_point(missing)
    bound = met.bound and not any(outcome.exceptions for outcome in outcomes)
    ends = first_end((verified.earliest_expiry, *(outcome.until for outcome in outcomes)))
    return PolicyAppraisal(
        tier=Tier.NONE if policy is None else tier_of(verified, complete=bound),
        policy=policy,
        outcomes=outcomes,
        images=images,
        holds_until=verified.earliest_expiry if ends is None else ends,
        checks_made=(*made, *met.made),
        checks_not_made=(*missing, *met.missing),
    )


def _accepting(
    verified: VerifiedQuote, policies: Sequence[AppraisalPolicy], expected: Expectations
) -> tuple[AppraisalPolicy | None, tuple[PolicyOutcome, ...]]:
    """The first of ``policies`` that accepts the quote, and what it decided."""
    first: AppraisalRefused | None = None
    for policy in policies:
        outcomes = judge_by_policy(verified, policy, expected)
        try:
            require_accepted(outcomes)
        except AppraisalRefused as refusal:
            first = first or refusal
        else:
            return policy, outcomes
    if first is not None:
        raise first
    return None, ()


def _narrowed(policy: AppraisalPolicy, expected: Expectations) -> AppraisalPolicy:
    if expected.image is None:
        return policy
    if expected.image not in policy.image_names:
        raise ConfigurationError(
            "no such image",
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


def _fixed_rules() -> tuple[Iterable[Check], Iterable[Check]]:
    made = (
        held_as(38, "no debug, profiling, migration or reserved bit; SEPT_VE_DISABLE is set"),
        held_as(39, "XFAM is within its fixed masks"),
    )
    missing = (
        not_made(37, f"whether the status is an accepted one: {_NO_REFERENCE}"),
        not_made(38, f"the exact TD_ATTRIBUTES: {_NO_REFERENCE}"),
        not_made(39, f"the exact XFAM: {_NO_REFERENCE}"),
        not_made(40, f"MRTD and RTMR0-2, that is, which software booted: {_NO_REFERENCE}"),
        not_made(40, "MROWNER, MROWNERCONFIG and MRSEAM: no value pinned"),
        not_made(42, "the platform's flags are reported, none is demanded"),
    )
    return made, missing


def _by_point(rows: Iterable[Check]) -> Iterable[Check]:
    """One row for each point: reference values are pinned as a whole."""
    found: dict[int, Check] = {}
    for row in rows:
        before = found.get(row.point)
        found[row.point] = row if before is None else replace(row, detail=f"{before.detail}; {row.detail}")
    return found.values()
