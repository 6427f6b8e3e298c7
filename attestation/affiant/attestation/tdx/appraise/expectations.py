"""Describes what a reader expects of one TD besides the accepted values: launcher, keys and nonce, run time, event log.

Each is asked or not; what was not asked is a row of its own. Points 40 (MRCONFIGID), 41, 43 and 44.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from affiant.attestation.tdx.appraise.appraisal import (
    appraise_mrconfigid,
    appraise_report_data,
    require_length,
)
from affiant.attestation.tdx.event_log.eventlog import EMPTY_REGISTER
from affiant.attestation.tdx.event_log.measured_log import Binding, MeasuredLog, verify_replay
from affiant.attestation.tdx.quote.checks import Check, held_as, not_made
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.quote.quote import TDReport

__all__ = ["Expectations", "MetExpectations", "appraise_expectations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What a reader expects of one TD. None: not asked.

    Raises:
        ``appraisal.expectation``: a value of another length than its field, or an MRCONFIGID of zeros.
    """

    image: str | None = None
    """The name of the one image that is accepted."""
    mrconfigid: bytes | None = None
    report_data: bytes | None = None
    rtmr3: bytes | None = None

    def __post_init__(self) -> None:
        for name, value, size in (
            ("MRCONFIGID", self.mrconfigid, 48),
            ("REPORTDATA", self.report_data, 64),
            ("RTMR3", self.rtmr3, 48),
        ):
            if value is not None:
                require_length(name, value, size)


@dataclass(frozen=True, slots=True)
class MetExpectations:
    """Expectations that were met. Only :func:`appraise_expectations` makes one."""

    bound: bool
    """Whether everything was asked that ties the TD to its reader: launcher, keys and nonce, run time."""
    made: tuple[Check, ...]
    missing: tuple[Check, ...]


def appraise_expectations(
    body: TDReport, expected: Expectations, *, log: MeasuredLog | None, extends_nothing: bool
) -> MetExpectations:
    """Hold ``body`` against what is expected of it; the image's name is the caller's matter.

    Args:
        body: of a verified quote.
        expected: what is asked.
        log: an event log that must replay to the registers; None: not asked.
        extends_nothing: the image leaves RTMR3 empty, asked or not.

    Raises:
        AppraisalRefused: an expectation is not met.
        ``eventlog.replay``: the log does not replay to the registers.
    """
    if expected.mrconfigid is not None:
        appraise_mrconfigid(body, expected.mrconfigid)
    if expected.report_data is not None:
        appraise_report_data(body, expected.report_data)
    rtmr3 = _appraise_rtmr3(body, expected, extends_nothing=extends_nothing)
    replayed = None if log is None else _replay(log, body)
    return MetExpectations(
        bound=expected.mrconfigid is not None and expected.report_data is not None and rtmr3 is not None,
        made=tuple(_made(expected, rtmr3=rtmr3, replayed=replayed)),
        missing=tuple(_missing(expected, rtmr3=rtmr3, replayed=replayed)),
    )


def _appraise_rtmr3(body: TDReport, expected: Expectations, *, extends_nothing: bool) -> str | None:
    """44: RTMR3 as expected, or empty where it must be; what held, None if nothing was asked."""
    found = body.rtmrs[3]
    if extends_nothing and found != EMPTY_REGISTER:
        raise AppraisalRefused(
            "a gateway extends nothing into RTMR3", found=found.hex(), code="appraisal.rtmr3"
        )
    if expected.rtmr3 is not None:
        if found != expected.rtmr3:
            raise AppraisalRefused(
                "RTMR3 is not the expected one",
                expected=expected.rtmr3.hex(),
                found=found.hex(),
                code="appraisal.rtmr3",
            )
        return "RTMR3 is exactly the expected value"
    return "RTMR3 is empty, as a gateway's must be" if extends_nothing else None


def _replay(log: MeasuredLog, body: TDReport) -> str:
    """44: the log gives the registers; what that proves."""
    registers = ", ".join(f"RTMR{rtmr}" for rtmr in verify_replay(log, body))
    proven = sum(event.binding in (Binding.CONTENT, Binding.DATA) for event in log.events)
    return (
        f"the event log replays to {registers}; the content of {proven} of {len(log.events)} events is proven"
    )


def _made(expected: Expectations, *, rtmr3: str | None, replayed: str | None) -> Iterator[Check]:
    if expected.mrconfigid is not None:
        yield held_as(40, "MRCONFIGID is the expected digest")
    if expected.report_data is not None:
        yield held_as(41, "REPORTDATA is the expected value, all 64 bytes")
    if rtmr3 is not None:
        yield held_as(44, rtmr3)
    if replayed is not None:
        yield held_as(44, replayed)


def _missing(expected: Expectations, *, rtmr3: str | None, replayed: str | None) -> Iterator[Check]:
    if expected.mrconfigid is None:
        yield not_made(40, "MRCONFIGID: no expected value was given")
    if expected.report_data is None:
        yield not_made(41, "REPORTDATA: no expected value was given, so nothing ties the quote to any key")
    yield not_made(43, "freshness: a quote has no time; owed by whoever made the nonce in REPORTDATA")
    if rtmr3 is None:
        yield not_made(44, "RTMR3: no expected value was given")
    if replayed is None:
        yield not_made(44, "replay: no event log was given")
