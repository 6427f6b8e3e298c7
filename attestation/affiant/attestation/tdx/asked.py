"""Appraisal of what somebody asks, and of no more: each expectation that is absent is listed as *not made*.

:func:`~affiant.attestation.tdx.appraisal.appraise` is for programs, which must expect everything. This is for a
reader who may know the reference values alone. The same steps refuse; only the tier tells how much was asked:
``affirming`` needs genuine hardware, ``UpToDate``, reference values and every binding expectation; reference
values with less give ``warning``; without them nothing was appraised, and the tier is ``none``. What no
reference value could allow (a debuggable TD, say) is refused in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.tdx.appraisal import (
    Tier,
    appraise_class,
    appraise_configuration,
    appraise_mrconfigid,
    appraise_report_data,
    appraise_tcb,
)
from affiant.attestation.tdx.attributes import appraise_td_configuration
from affiant.attestation.tdx.checks import CHECKLIST, Check, CheckOutcome, not_made
from affiant.attestation.tdx.errors import (
    AppraisalRefused,
    ExpectationInvalid,
    ImageNotAccepted,
    RTMR3EventsRefused,
)
from affiant.attestation.tdx.eventlog import EMPTY_REGISTER
from affiant.attestation.tdx.measured_log import Binding, MeasuredLog, verify_replay
from affiant.attestation.tdx.quote import TDReport
from affiant.attestation.tdx.reference import ImageMeasurement, ImageRole, ReferenceValues
from affiant.attestation.tdx.roots import EvidenceClass
from affiant.attestation.tdx.tcb_status import TCBStatus
from affiant.attestation.tdx.verify import VerifiedQuote

__all__ = ["AskedAppraisal", "Expectations", "appraise_asked"]

_ROLES: Final[tuple[ImageRole, ...]] = ("gateway", "session")
_NO_REFERENCE: Final = "no reference values were given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What a reader expects beside reference values. None: not asked.

    Raises:
        ExpectationInvalid: a value of another length than its field, or an MRCONFIGID of zeros.
    """

    image: ImageRole | None = None
    mrconfigid: bytes | None = None
    report_data: bytes | None = None
    rtmr3: bytes | None = None

    def __post_init__(self) -> None:
        for name, value, size in (
            ("MRCONFIGID", self.mrconfigid, 48),
            ("REPORTDATA", self.report_data, 64),
            ("RTMR3", self.rtmr3, 48),
        ):
            if value is not None and len(value) != size:
                raise ExpectationInvalid(
                    f"expected {name} has another length", expected=f"{size} bytes", found=len(value)
                )
        if self.mrconfigid is not None and not any(self.mrconfigid):
            raise ExpectationInvalid("expected MRCONFIGID is all zero, which binds nothing")


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
        AppraisalRefused: an expectation is not met; of several reference values, the first one's refusal.
        EventLogMismatch: the log does not replay to the registers.
    """
    body = verified.quote.body
    appraise_td_configuration(body)
    reference, images = _accepting(verified, references, expected)
    if expected.mrconfigid is not None:
        appraise_mrconfigid(body, expected.mrconfigid)
    if expected.report_data is not None:
        appraise_report_data(body, expected.report_data)
    rtmr3 = _appraise_rtmr3(body, expected, images)
    replayed = None if log is None else _replay(log, body)
    made = tuple(_made(reference, images, expected, rtmr3=rtmr3, replayed=replayed))
    missing = tuple(_missing(reference, expected, rtmr3=rtmr3, replayed=replayed))
    return AskedAppraisal(
        tier=_tier(verified, reference, bound=_is_bound(expected, rtmr3=rtmr3)),
        reference=reference,
        images=images,
        checks_made=made,
        checks_not_made=missing,
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


def _images(body: TDReport, reference: ReferenceValues, asked: ImageRole | None) -> tuple[ImageRole, ...]:
    # 40: four values that count together only.
    measured = ImageMeasurement(body.mrtd, *body.rtmrs[:3])
    candidates = _ROLES if asked is None else (asked,)
    roles: tuple[ImageRole, ...] = tuple(role for role in candidates if measured in reference.images[role])
    if not roles:
        raise ImageNotAccepted(
            f"the TD runs no accepted {asked or 'gateway or session'} image",
            found=f"MRTD {body.mrtd.hex()}, "
            + ", ".join(f"RTMR{number} {value.hex()}" for number, value in enumerate(body.rtmrs[:3])),
            hint="Pin the reference values of the release that is deployed, or deploy the pinned one.",
        )
    return roles


def _appraise_rtmr3(body: TDReport, expected: Expectations, images: tuple[ImageRole, ...]) -> str | None:
    """44: RTMR3 as expected, or empty where it must be; what held, None if nothing was asked."""
    found = body.rtmrs[3]
    if images == ("gateway",) and found != EMPTY_REGISTER:
        raise RTMR3EventsRefused("a gateway extends nothing into RTMR3", found=found.hex())
    if expected.rtmr3 is not None:
        if found != expected.rtmr3:
            raise RTMR3EventsRefused(
                "RTMR3 is not the expected one", expected=expected.rtmr3.hex(), found=found.hex()
            )
        return "RTMR3 is exactly the expected value"
    return "RTMR3 is empty, as a gateway's must be" if images == ("gateway",) else None


def _replay(log: MeasuredLog, body: TDReport) -> str:
    """44: the log gives the registers; what that proves."""
    registers = ", ".join(f"RTMR{rtmr}" for rtmr in verify_replay(log, body))
    proven = sum(event.binding in (Binding.CONTENT, Binding.DATA) for event in log.events)
    return (
        f"the event log replays to {registers}; the content of {proven} of {len(log.events)} events is proven"
    )


def _is_bound(expected: Expectations, *, rtmr3: str | None) -> bool:
    """Whether everything was asked that ties the TD to its reader: launcher, keys and nonce, run time."""
    return expected.mrconfigid is not None and expected.report_data is not None and rtmr3 is not None


def _made(
    reference: ReferenceValues | None,
    images: tuple[ImageRole, ...],
    expected: Expectations,
    *,
    rtmr3: str | None,
    replayed: str | None,
) -> Iterator[Check]:
    if reference is None:
        yield _row(38, "no debug, profiling, migration or reserved bit; SEPT_VE_DISABLE is set")
        yield _row(39, "XFAM is within its fixed masks")
    else:
        yield _row(37, f"status accepted; evaluation number at least {reference.min_evaluation}")
        yield _row(38, "TD_ATTRIBUTES are exactly as pinned")
        yield _row(39, "XFAM is exactly as pinned")
        yield _row(40, f"MRTD and RTMR0-2 are those of an accepted {' and '.join(images)} image")
    if expected.mrconfigid is not None:
        yield _row(40, "MRCONFIGID is the expected digest")
    if expected.report_data is not None:
        yield _row(41, "REPORTDATA is the expected value, all 64 bytes")
    if rtmr3 is not None:
        yield _row(44, rtmr3)
    if replayed is not None:
        yield _row(44, replayed)


def _row(point: int, detail: str) -> Check:
    return Check(point, CHECKLIST[point][0], CheckOutcome.HELD, detail)


def _missing(
    reference: ReferenceValues | None, expected: Expectations, *, rtmr3: str | None, replayed: str | None
) -> Iterator[Check]:
    if reference is None:
        yield not_made(37, f"whether the status is an accepted one: {_NO_REFERENCE}")
        yield not_made(38, f"the exact TD_ATTRIBUTES: {_NO_REFERENCE}")
        yield not_made(39, f"the exact XFAM: {_NO_REFERENCE}")
        yield not_made(40, f"MRTD and RTMR0-2, that is, which software booted: {_NO_REFERENCE}")
    else:
        yield not_made(37, "grace periods and single advisories: none pinned, the status alone decides")
    if expected.mrconfigid is None:
        yield not_made(40, "MRCONFIGID: no expected value was given")
    yield not_made(40, "MROWNER, MROWNERCONFIG and MRSEAM: no value pinned")
    if expected.report_data is None:
        yield not_made(41, "REPORTDATA: no expected value was given, so nothing ties the quote to any key")
    yield not_made(42, "the platform's flags are reported, none is demanded")
    yield not_made(43, "freshness: a quote has no time; owed by whoever made the nonce in REPORTDATA")
    if rtmr3 is None:
        yield not_made(44, "RTMR3: no expected value was given")
    if replayed is None:
        yield not_made(44, "replay: no event log was given")


def _tier(verified: VerifiedQuote, reference: ReferenceValues | None, *, bound: bool) -> Tier:
    """Simulated evidence is worth nothing, and neither is a quote of a TD that nobody appraised."""
    if verified.evidence_class is not EvidenceClass.HARDWARE or reference is None:
        return Tier.NONE
    up_to_date = verified.statuses.merged is TCBStatus.UP_TO_DATE
    return Tier.AFFIRMING if up_to_date and bound else Tier.WARNING
