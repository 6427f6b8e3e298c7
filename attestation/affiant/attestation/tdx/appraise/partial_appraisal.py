"""Appraises only what the reader asks; each absent expectation is listed as *not made*.

``appraise`` is for programs, which must expect everything. This is for a
reader who may know the reference values alone. The same steps refuse; only the tier tells how much was asked:
``affirming`` needs genuine hardware, ``UpToDate``, reference values and every binding expectation; reference
values with less give ``warning``; without them nothing was appraised, and the tier is ``none``. What no
reference value could allow (a debuggable TD, say) is refused in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.tdx.appraise.appraisal import (
    Tier,
    appraise_class,
    appraise_configuration,
    appraise_tcb,
)
from affiant.attestation.tdx.appraise.expectations import Expectations, appraise_expectations
from affiant.attestation.tdx.appraise.reference import ImageMeasurement, ImageRole, ReferenceValues
from affiant.attestation.tdx.event_log.measured_log import MeasuredLog
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.quote.attributes import appraise_td_configuration
from affiant.attestation.tdx.quote.checks import Check, held_as, not_made
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.quote.quote import TDReport
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import ConfigurationError

__all__ = ["AskedAppraisal", "appraise_asked"]

_ROLES: Final[tuple[ImageRole, ...]] = ("gateway", "session")
_NO_REFERENCE: Final = "no reference values were given"


@dataclass(frozen=True, slots=True)
class AskedAppraisal:
    """What was asked and held. Only :func:`appraise_asked` makes one."""

    tier: Tier
    reference: ReferenceValues | None
    images: tuple[ImageRole, ...]
    """The images whose measurements the TD has; empty without reference values."""
    checks_made: tuple[Check, ...]
    checks_not_made: tuple[Check, ...]


def appraise_asked(
    verified: VerifiedQuote,
    references: Sequence[ReferenceValues],
    expected: Expectations,
    *,
    log: MeasuredLog | None = None,
) -> AskedAppraisal:
    """Appraise ``verified`` against what is expected of it.

    Args:
        verified: the quote, verified at its time.
        references: the pinned values; one of them must accept it. None given: not made.
        expected: what else is expected.
        log: an event log that must replay to the registers; None: not asked.

    Raises:
        AppraisalRefused: an expectation is not met; of several reference values, the first one's error.
        ``eventlog.replay``: the log does not replay to the registers.
    """
    body = verified.quote.body
    appraise_td_configuration(body)
    reference, images = _accepting(verified, references, expected)
    met = appraise_expectations(body, expected, log=log, extends_nothing=images == ("gateway",))
    return AskedAppraisal(
        tier=_tier(verified, reference, bound=met.bound),
        reference=reference,
        images=images,
        checks_made=(*_made(reference, images), *met.made),
        checks_not_made=(*_missing(reference), *met.missing),
    )


def _accepting(
    verified: VerifiedQuote, references: Sequence[ReferenceValues], expected: Expectations
) -> tuple[ReferenceValues | None, tuple[ImageRole, ...]]:
    """The first of ``references`` that accepts the quote, and as which image."""
    first: AppraisalRefused | None = None
    for reference in references:
        try:
            appraise_class(verified, reference)
            appraise_tcb(verified, reference)
            appraise_configuration(verified.quote.body, reference)
            return reference, _images(verified.quote.body, reference, expected.image)
        except AppraisalRefused as refusal:
            first = first or refusal
    if first is not None:
        raise first
    return None, ()


def _images(body: TDReport, reference: ReferenceValues, asked: str | None) -> tuple[ImageRole, ...]:
    # 40: four values that count together only.
    measured = ImageMeasurement(body.mrtd, *body.rtmrs[:3])
    candidates: tuple[ImageRole, ...] = tuple(role for role in _ROLES if asked is None or asked == role)
    if not candidates:
        raise ConfigurationError(
            "no such image",
            expected="gateway or session",
            found=str(asked)[:32],
            code="appraisal.expectation",
        )
    roles: tuple[ImageRole, ...] = tuple(role for role in candidates if measured in reference.images[role])
    if not roles:
        raise AppraisalRefused(
            f"the TD runs no accepted {asked or 'gateway or session'} image",
            found=f"MRTD {body.mrtd.hex()}, "
            + ", ".join(f"RTMR{number} {value.hex()}" for number, value in enumerate(body.rtmrs[:3])),
            hint="Pin the reference values of the release that is deployed, or deploy the pinned one.",
            code="appraisal.image",
        )
    return roles


def _made(reference: ReferenceValues | None, images: tuple[ImageRole, ...]) -> Iterator[Check]:
    if reference is None:
        yield held_as(38, "no debug, profiling, migration or reserved bit; SEPT_VE_DISABLE is set")
        yield held_as(39, "XFAM is within its fixed masks")
    else:
        yield held_as(37, f"status accepted; evaluation number at least {reference.min_evaluation}")
        yield held_as(38, "TD_ATTRIBUTES are exactly as pinned")
        yield held_as(39, "XFAM is exactly as pinned")
        yield held_as(40, f"MRTD and RTMR0-2 are those of an accepted {' and '.join(images)} image")


def _missing(reference: ReferenceValues | None) -> Iterator[Check]:
    if reference is None:
        yield not_made(37, f"whether the status is an accepted one: {_NO_REFERENCE}")
        yield not_made(38, f"the exact TD_ATTRIBUTES: {_NO_REFERENCE}")
        yield not_made(39, f"the exact XFAM: {_NO_REFERENCE}")
        yield not_made(40, f"MRTD and RTMR0-2, that is, which software booted: {_NO_REFERENCE}")
    else:
        yield not_made(37, "grace periods and single advisories: none pinned, the status alone decides")
    yield not_made(40, "MROWNER, MROWNERCONFIG and MRSEAM: no value pinned")
    yield not_made(42, "the platform's flags are reported, none is demanded")


def _tier(verified: VerifiedQuote, reference: ReferenceValues | None, *, bound: bool) -> Tier:
    """Simulated evidence is worth nothing, and neither is a quote of a TD that nobody appraised."""
    if verified.evidence_class is not EvidenceClass.HARDWARE or reference is None:
        return Tier.NONE
    up_to_date = verified.statuses.merged is TCBStatus.UP_TO_DATE
    return Tier.AFFIRMING if up_to_date and bound else Tier.WARNING
