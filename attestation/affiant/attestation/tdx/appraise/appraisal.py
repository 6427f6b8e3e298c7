"""Appraises a verified quote by reference values: verified quote x reference values -> :class:`Appraisal`.

Points 37 to 44 of the checklist, each an error of its own. There is no switch that turns one off. What is not
checked is said: a value that nobody pinned is listed as not made, never passed over.

Simulated evidence is appraised by the same steps and is worth the tier ``none``, whatever else holds. The nonce
inside of ``report_data`` is the caller's: it made it, uses it once and lets it expire (point 43).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hmac import compare_digest
from typing import Final

from affiant.attestation.tdx.appraise.reference import ImageMeasurement, ImageRole, ReferenceValues
from affiant.attestation.tdx.event_log.eventlog import (
    EMPTY_REGISTER,
    LATER_EVENTS,
    SESSION_EVENT_ORDER,
    Event,
    EventLog,
    event_digest,
    replay,
)
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.quote.attributes import appraise_td_configuration
from affiant.attestation.tdx.quote.checks import APPRAISAL_POINTS, Check, held, not_made
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.quote.quote import TDReport
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.errors import ConfigurationError, NotAuthenticError

__all__ = [
    "SESSION_EVENT_ORDER",
    "Appraisal",
    "Tier",
    "appraise",
    "appraise_mrconfigid",
    "appraise_report_data",
    "measured_image",
    "other_image",
    "other_root",
    "other_status",
    "other_td_attributes",
    "other_xfam",
    "require_class",
    "require_evaluation",
    "require_length",
    "tier_of",
]

_UNBOUND: Final = bytes(48)


class Tier(StrEnum):
    """What an appraisal is worth (AR4SI). Contraindicated evidence is refused, so it has no appraisal."""

    AFFIRMING = "affirming"
    WARNING = "warning"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Appraisal:
    """A TD that is what was pinned, and how much that is worth. Only :func:`appraise` makes one."""

    verified: VerifiedQuote = field(repr=False)
    tier: Tier
    evidence_class: EvidenceClass
    image: ImageRole
    vector: Mapping[str, int]
    """AR4SI trustworthiness vector: 2 affirming, 32 warning, 0 no claim."""
    reference_digest: str
    """``sha256:`` name of the reference values."""
    boot_events: tuple[Event, ...] = field(repr=False)
    """RTMR3 up to and including the barrier; empty for a gateway."""
    later_events: tuple[Event, ...] = field(repr=False)
    """RTMR3 after the barrier: ``affiant-policy`` and ``affiant-fork`` only, in order."""
    checks_made: tuple[Check, ...] = field(repr=False)
    checks_not_made: tuple[Check, ...] = field(repr=False)

    @property
    def checks(self) -> tuple[Check, ...]:
        """All rows for a verdict table, by their number."""
        return tuple(sorted((*self.checks_made, *self.checks_not_made), key=lambda check: check.point))


def appraise(
    verified: VerifiedQuote,
    reference: ReferenceValues,
    *,
    image: ImageRole,
    mrconfigid: bytes,
    report_data: bytes,
    log: EventLog,
    expected_rtmr3: tuple[Event, ...] | None = None,
    expected_later: tuple[Event, ...] | None = (),
) -> Appraisal:
    """Appraise ``verified`` against what was pinned.

    Args:
        verified: the quote, verified at its time.
        reference: the pinned values.
        image: which image the TD must run.
        mrconfigid: 48 bytes, what the launcher must have bound.
        report_data: 64 bytes, the binding that the caller computed from its own nonce and context.
        log: the event log that came with the quote.
        expected_rtmr3: a session's events up to and including the barrier, which must be exactly these; None:
            their names and order are checked, their payloads are not, and the tier is at most ``warning``. A
            gateway extends nothing: None or empty.
        expected_later: a session's events after the barrier, which must be exactly these: the restrictions that the
            caller knows of (``restriction``). None: whatever may follow it, payloads not
            checked, and the tier is at most ``warning``. A gateway extends nothing: None or empty.

    Raises:
        AppraisalRefused: one class for each of the steps below.
        ``eventlog.replay``: the log does not replay to the registers.
        ``appraisal.expectation``: an expected value has another length than its field.
    """
    body = verified.quote.body
    require_length("MRCONFIGID", mrconfigid, 48)
    require_length("REPORTDATA", report_data, 64)
    _require_reference(verified, reference, image)
    appraise_mrconfigid(body, mrconfigid)
    appraise_report_data(body, report_data)
    _appraise_replay(body, log)
    boot, later = _appraise_rtmr3(body, log, image, expected_rtmr3, expected_later)
    bare = image == "session" and (expected_rtmr3 is None or expected_later is None)
    return Appraisal(
        verified=verified,
        tier=tier_of(verified, complete=not bare),
        evidence_class=verified.evidence_class,
        image=image,
        vector=_vector(verified, payloads_checked=not bare),
        reference_digest=reference.digest,
        boot_events=boot,
        later_events=later,
        checks_made=(*verified.checks_made, *_HELD),
        checks_not_made=(
            *(check for check in verified.checks_not_made if check.point not in APPRAISAL_POINTS),
            *_not_made(log, payloads_checked=not bare),
        ),
    )


def require_length(name: str, value: bytes, size: int) -> None:
    """41: an expected value is never padded or cut to fit (known mistake: trailing zeros that match); an MRCONFIGID of
    zeros binds nothing."""
    if len(value) != size:
        raise ConfigurationError(
            f"expected {name} has another length",
            expected=f"{size} bytes",
            found=len(value),
            code="appraisal.expectation",
        )
    if name == "MRCONFIGID" and not any(value):
        raise ConfigurationError(
            "expected MRCONFIGID is all zero, which binds nothing", code="appraisal.expectation"
        )


def _require_reference(verified: VerifiedQuote, reference: ReferenceValues, image: ImageRole) -> None:
    """Hold what is verified against what was pinned, each value by itself."""
    body = verified.quote.body
    require_class(verified, reference.cls)
    if not reference.accepts_root(verified.root_digest):
        raise other_root(verified)
    if verified.statuses.merged not in reference.statuses:
        raise other_status(verified, reference.statuses)
    require_evaluation(verified, reference.min_evaluation)
    # 38 and 39: the fixed rules first, then the exact values.
    appraise_td_configuration(body)
    if body.td_attributes != reference.td_attributes:
        raise other_td_attributes(body, (reference.td_attributes,))
    if body.xfam != reference.xfam:
        raise other_xfam(body, (reference.xfam,))
    accepted = reference.images.get(image)
    if accepted is None:
        raise ConfigurationError(
            "no such image",
            expected="gateway or session",
            found=str(image)[:32],
            code="appraisal.expectation",
        )
    if measured_image(body) not in accepted:
        raise other_image(body, (image,))


def require_class(verified: VerifiedQuote, accepted: EvidenceClass) -> None:
    """Disagreement is refused both ways, never downgraded."""
    if verified.evidence_class is not accepted:
        raise AppraisalRefused(
            "evidence of another class than the accepted one",
            expected=str(accepted),
            found=str(verified.evidence_class),
            code="appraisal.evidence_class",
        )


def require_evaluation(verified: VerifiedQuote, minimum: int) -> None:
    """21: the reader's minimum."""
    if verified.evaluation_number < minimum:
        raise AppraisalRefused(
            "the collateral is from an older TCB evaluation than required",
            expected=f"at least {minimum}",
            found=verified.evaluation_number,
            code="appraisal.evaluation_number",
        )


def measured_image(body: TDReport) -> ImageMeasurement:
    """40: four values that count together only; a mix of two accepted images is none."""
    return ImageMeasurement(body.mrtd, *body.rtmrs[:3])


def other_root(verified: VerifiedQuote) -> AppraisalRefused:
    return AppraisalRefused(
        "the quote chains to a root that is not accepted",
        found=f"sha256:{verified.root_digest.hex()}",
        code="appraisal.root",
    )


def other_status(verified: VerifiedQuote, accepted: Iterable[TCBStatus]) -> AppraisalRefused:
    """37: the merged status is none of these; Revoked was refused before and cannot be accepted."""
    return AppraisalRefused(
        "the TCB status is not an accepted one",
        expected=" or ".join(sorted(status.value for status in accepted)),
        found=verified.statuses.merged.value,
        hint="Update the platform; its advisories: " + (", ".join(sorted(verified.advisories)) or "none"),
        code="appraisal.tcb_status",
    )


def other_td_attributes(body: TDReport, accepted: Iterable[bytes]) -> AppraisalRefused:
    return AppraisalRefused(
        "TD_ATTRIBUTES are not an accepted value",
        expected=" or ".join(value.hex() for value in accepted),
        found=body.td_attributes.hex(),
        code="appraisal.td_attributes",
    )


def other_xfam(body: TDReport, accepted: Iterable[bytes]) -> AppraisalRefused:
    return AppraisalRefused(
        "XFAM is not an accepted value",
        expected=" or ".join(value.hex() for value in accepted),
        found=body.xfam.hex(),
        code="appraisal.xfam",
    )


def other_image(body: TDReport, accepted: Iterable[str]) -> AppraisalRefused:
    return AppraisalRefused(
        f"the TD runs no accepted image ({', '.join(accepted)})",
        found=f"MRTD {body.mrtd.hex()}, "
        + ", ".join(f"RTMR{number} {value.hex()}" for number, value in enumerate(body.rtmrs[:3])),
        hint="Pin the measurements of the release and the VM shape that are deployed, or deploy the pinned ones.",
        code="appraisal.image",
    )


def appraise_mrconfigid(body: TDReport, expected: bytes) -> None:
    """MRCONFIGID, as the launcher must have bound it."""
    # 40: all zero is unbound, never a match.
    if body.mrconfigid == _UNBOUND:
        raise AppraisalRefused(
            "MRCONFIGID is all zero: the launcher bound nothing",
            expected=expected.hex(),
            code="appraisal.mrconfigid_unbound",
        )
    if body.mrconfigid != expected:
        raise AppraisalRefused(
            "MRCONFIGID is not the expected digest",
            expected=expected.hex(),
            found=body.mrconfigid.hex(),
            code="appraisal.mrconfigid",
        )


def appraise_report_data(body: TDReport, expected: bytes) -> None:
    """REPORTDATA, as the caller's own nonce and context give it."""
    # 41: all 64 bytes, in constant time.
    if not compare_digest(body.report_data, expected):
        raise AppraisalRefused(
            "REPORTDATA is not the expected binding of keys, context and nonce",
            expected=expected.hex(),
            found=body.report_data.hex(),
            code="appraisal.report_data",
        )


def _appraise_replay(body: TDReport, log: EventLog) -> None:
    """44: what the log says of a register must give that register. RTMR0-2 may be without events (they are
    pinned by value, and a hardware boot's log has another form); RTMR3 may not: without events it is zero."""
    for rtmr in range(4):
        events = log.events(rtmr)
        if (events or rtmr == 3) and replay(events) != body.rtmrs[rtmr]:
            raise NotAuthenticError(
                f"the event log does not replay to RTMR{rtmr}",
                expected=body.rtmrs[rtmr].hex(),
                found=f"{replay(events).hex()} after {len(events)} events",
                code="eventlog.replay",
            )


def _appraise_rtmr3(
    body: TDReport,
    log: EventLog,
    image: ImageRole,
    expected: tuple[Event, ...] | None,
    expected_later: tuple[Event, ...] | None,
) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
    """44: exactly the permitted events, in their order and count; those before and those after the barrier."""
    events = log.events(3)
    if image == "gateway":
        if expected or expected_later or events or body.rtmrs[3] != EMPTY_REGISTER:
            raise AppraisalRefused(
                "a gateway extends nothing into RTMR3", found=f"{len(events)} events", code="appraisal.rtmr3"
            )
        return (), ()
    count = len(SESSION_EVENT_ORDER)
    boot, later = events[:count], events[count:]
    names = tuple(event.name for event in boot)
    if names != SESSION_EVENT_ORDER:
        raise AppraisalRefused(
            "RTMR3 does not begin with the session's events in their order",
            expected=", ".join(SESSION_EVENT_ORDER),
            found=", ".join(names) or "no events",
            code="appraisal.rtmr3",
        )
    for event in later:
        if event.name not in LATER_EVENTS:
            raise AppraisalRefused(
                "an event after the barrier that may not be there",
                expected=" or ".join(sorted(LATER_EVENTS)),
                found=event.name,
                code="appraisal.rtmr3",
            )
    if expected is not None:
        if len(expected) != count:
            raise ConfigurationError(
                "expected events are not those up to the barrier",
                expected=f"{count} events",
                found=len(expected),
                code="appraisal.expectation",
            )
        _compare_events(boot, expected)
    if expected_later is not None:
        if len(expected_later) != len(later):
            raise AppraisalRefused(
                "RTMR3 holds more or fewer events after the barrier than are known",
                expected=len(expected_later),
                found=len(later),
                code="appraisal.rtmr3",
            )
        _compare_events(later, expected_later)
    return boot, later


def _compare_events(events: tuple[Event, ...], expected: tuple[Event, ...]) -> None:
    for found, wanted in zip(events, expected, strict=True):
        if event_digest(found) != event_digest(wanted):
            raise AppraisalRefused(
                "an event in RTMR3 is not the expected one", where=found.name, code="appraisal.rtmr3"
            )


_HELD: Final = held((37, 38, 39, 40, 41, 44))


def _not_made(log: EventLog, *, payloads_checked: bool) -> tuple[Check, ...]:
    rows = [
        not_made(37, "grace periods and single advisories: none pinned, the status alone decides"),
        not_made(40, "MROWNER, MROWNERCONFIG and MRSEAM: no value pinned"),
        not_made(42, "the platform's flags are reported, none is demanded"),
        not_made(43, "owed by whoever made the nonce: a quote has no time of its own"),
    ]
    if not payloads_checked:
        rows.append(not_made(44, "the payloads of RTMR3's events, or of some: no expected values given"))
    if not any(entry.rtmr < 3 for entry in log.entries):
        rows.append(
            not_made(44, "replay of RTMR0-2: the log has no events of theirs; they are pinned by value")
        )
    return tuple(rows)


def tier_of(verified: VerifiedQuote, *, complete: bool) -> Tier:
    """What holds is worth; ``complete``: everything was asked that is to be asked, and no exception was needed.

    Simulated evidence is worth nothing to a third party; a status short of UpToDate warns.
    """
    if verified.evidence_class is not EvidenceClass.HARDWARE:
        return Tier.NONE
    up_to_date = verified.statuses.merged is TCBStatus.UP_TO_DATE
    return Tier.AFFIRMING if up_to_date and complete else Tier.WARNING


def _vector(verified: VerifiedQuote, *, payloads_checked: bool) -> Mapping[str, int]:
    """AR4SI: 2 affirming, 32 warning, 0 no claim. On simulated evidence there is no claim about hardware."""
    hardware = verified.evidence_class is EvidenceClass.HARDWARE
    up_to_date = verified.statuses.merged is TCBStatus.UP_TO_DATE
    return {
        "instance-identity": 2 if hardware else 0,
        "configuration": 2 if hardware else 0,
        "executables": (2 if payloads_checked else 32) if hardware else 0,
        "hardware": (2 if up_to_date else 32) if hardware else 0,
        "runtime-opaque": 2 if hardware else 0,
    }
