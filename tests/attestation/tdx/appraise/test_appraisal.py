"""The policy layer: each pinned value has its refusal, and simulated evidence is worth nothing to others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import (
    BOOT_EVENTS,
    MRCONFIGID,
    NOW,
    REPORT_DATA,
    appraise_session,
    log_of,
    quote_of,
    random_bytes,
    reference_of,
    verify,
)
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.simulated.platform.tcb_documents import SVNLevel
from affiant.attestation.tdx.appraise.appraisal import Tier, appraise
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI, EvidenceClass
from affiant.attestation.tdx.quote.checks import CHECKLIST, CheckOutcome
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.tdx.verify.verify import verify_quote

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
VERIFIED = verify(PLATFORM)
FORK = Event("affiant-fork", {"child": 1})
NARROWING = Event("affiant-policy", {"digest": "x"})


def changed_reference(**changes: Any) -> ReferenceValues:
    document: Any = parse_canonical(reference_of(PLATFORM).raw)
    return parse_reference_values(canonical(document | changes))


# -- what holds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", list(QuoteLayout))
def test_an_honest_session_is_what_was_pinned_and_still_worth_nothing(layout: QuoteLayout) -> None:
    appraisal = appraise_session(PLATFORM, quote_of(PLATFORM, layout=layout))
    assert appraisal.tier is Tier.NONE
    assert appraisal.evidence_class is EvidenceClass.SIMULATED
    assert set(appraisal.vector.values()) == {0}
    assert appraisal.boot_events == BOOT_EVENTS
    assert appraisal.later_events == ()


def test_a_gateway_extends_nothing() -> None:
    raw = quote_of(PLATFORM, image=Image.GATEWAY, events=())
    log = log_of((), Image.GATEWAY)
    appraisal = appraise_session(PLATFORM, raw, image="gateway", log=log, expected_rtmr3=None)
    assert appraisal.image == "gateway"
    assert appraisal.boot_events == ()


def test_every_point_has_a_row() -> None:
    appraisal = appraise_session(PLATFORM)
    assert {check.point for check in appraisal.checks} == set(CHECKLIST)
    assert [check.point for check in appraisal.checks] == sorted(check.point for check in appraisal.checks)
    not_made = {check.point for check in appraisal.checks_not_made}
    assert {22, 33, 42, 43} <= not_made
    assert all(check.outcome is CheckOutcome.NOT_MADE for check in appraisal.checks_not_made)
    assert all(set(check.to_json()) == {"point", "code", "outcome", "detail"} for check in appraisal.checks)


# -- hardware -----------------------------------------------------------------------------------------------------


def genuine(v4: Any, **changes: Any) -> Any:
    verified = verify_quote(v4.quote, v4.verified, now=v4.now)
    body = replace(
        v4.quote.body,
        mrconfigid=MRCONFIGID,
        report_data=REPORT_DATA,
        rtmrs=(*v4.quote.body.rtmrs[:3], VERIFIED.quote.body.rtmrs[3]),
        **changes,
    )
    image = {"mrtd": body.mrtd.hex()} | {f"rtmr{n}": body.rtmrs[n].hex() for n in range(3)}
    reference = changed_reference(
        cls="hardware",
        roots=[sha256_name(INTEL_SGX_ROOT_CA_SPKI)],
        images={"gateway": [image], "session": [image]},
        tcb={"statuses": ["UpToDate", "OutOfDate"], "min_evaluation": 17},
        td_attributes=body.td_attributes.hex(),
        xfam=body.xfam.hex(),
    )
    return replace(verified, quote=replace(v4.quote, body=body)), reference


LOG3 = EventLog(tuple(LoggedEvent(3, event) for event in BOOT_EVENTS))


def hardware_appraisal(verified: Any, reference: Any, **changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "image": "session",
        "mrconfigid": MRCONFIGID,
        "report_data": REPORT_DATA,
        "log": LOG3,
        "expected_rtmr3": BOOT_EVENTS,
    }
    return appraise(verified, reference, **(arguments | changes))


def test_hardware_that_is_up_to_date_affirms(v4: Any) -> None:
    """A verified genuine quote; its own software fields are replaced, since nobody here made that TD."""
    appraisal = hardware_appraisal(*genuine(v4))
    assert appraisal.tier is Tier.AFFIRMING
    assert set(appraisal.vector.values()) == {2}
    reasons = [check.detail for check in appraisal.checks_not_made if check.point == 44]
    assert any("RTMR0-2" in reason for reason in reasons)


def test_an_accepted_lesser_status_or_an_unchecked_payload_only_warns(v4: Any) -> None:
    verified, reference = genuine(v4)
    old = replace(verified, statuses=replace(verified.statuses, merged=TCBStatus.OUT_OF_DATE))
    assert hardware_appraisal(old, reference).tier is Tier.WARNING
    assert hardware_appraisal(old, reference).vector["hardware"] == 32
    bare = hardware_appraisal(verified, reference, expected_rtmr3=None)
    assert bare.tier is Tier.WARNING
    assert bare.vector["executables"] == 32
    unread = hardware_appraisal(verified, reference, expected_later=None)
    assert (unread.tier, unread.vector["executables"]) == (Tier.WARNING, 32)
    assert any("payloads" in check.detail for check in unread.checks_not_made)


def test_class_and_root_must_agree_both_ways(v4: Any) -> None:
    verified, reference = genuine(v4)
    with raises_code("appraisal.evidence_class"):
        hardware_appraisal(verified, reference_of(PLATFORM))
    with raises_code("appraisal.evidence_class"):
        appraise_session(PLATFORM, reference=reference)


def test_the_class_is_compared_even_where_everything_else_agrees() -> None:
    hardware = replace(VERIFIED, evidence_class=EvidenceClass.HARDWARE)
    with raises_code("appraisal.evidence_class"):
        hardware_appraisal(hardware, reference_of(PLATFORM))
    pinned = changed_reference(cls="hardware", roots=[sha256_name(INTEL_SGX_ROOT_CA_SPKI)])
    with raises_code("appraisal.evidence_class"):
        hardware_appraisal(VERIFIED, pinned)


def test_another_root_than_the_pinned_one_is_refused(other_platform: SimulatedPlatform) -> None:
    with raises_code("appraisal.root"):
        appraise_session(PLATFORM, reference=reference_of(other_platform))


# -- 37 to 41 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["SWHardeningNeeded", "ConfigurationNeeded", "OutOfDate"])
def test_a_status_that_was_not_accepted_is_refused(status: str) -> None:
    levels = (replace(PLATFORM.tcb_info.levels[0], status=status),)
    platform = replace(PLATFORM, tcb_info=replace(PLATFORM.tcb_info, levels=levels))
    with raises_code("appraisal.tcb_status", match=status):
        appraise_session(platform)
    accepting = changed_reference(tcb={"statuses": ["UpToDate", status], "min_evaluation": 1})
    assert appraise_session(platform, reference=accepting).tier is Tier.NONE


def test_an_old_quoting_enclave_is_an_old_platform() -> None:
    old = replace(PLATFORM.qe_identity, levels=(SVNLevel(isv_svn=0, status="OutOfDate"),))
    with raises_code("appraisal.tcb_status"):
        appraise_session(replace(PLATFORM, qe_identity=old))


def test_an_older_evaluation_than_required_is_refused() -> None:
    with raises_code("appraisal.evaluation_number"):
        appraise_session(
            PLATFORM, reference=changed_reference(tcb={"statuses": ["UpToDate"], "min_evaluation": 2})
        )


@pytest.mark.parametrize(
    ("td", "code"),
    [
        ({"td_attributes": bytes.fromhex("0100001000000000")}, "appraisal.debug"),
        ({"td_attributes": bytes.fromhex("0000003000000000")}, "appraisal.td_attributes"),
        ({"td_attributes": bytes.fromhex("0000005000000000")}, "appraisal.td_attributes"),
        ({"td_attributes": bytes(8)}, "appraisal.td_attributes"),
        ({"xfam": bytes.fromhex("e700060000000000")}, "appraisal.xfam"),
        ({"xfam": bytes(8)}, "appraisal.xfam"),
    ],
)
def test_another_configuration_is_refused_by_default(td: dict[str, bytes], code: str) -> None:
    with raises_code(code):
        appraise_session(PLATFORM, quote_of(PLATFORM, td=td))


def test_no_reference_value_allows_a_debug_td() -> None:
    debug = bytes.fromhex("0100001000000000")
    allowing = changed_reference(td_attributes=debug.hex())
    with raises_code("appraisal.debug"):
        appraise_session(PLATFORM, quote_of(PLATFORM, td={"td_attributes": debug}), reference=allowing)


def test_a_bound_service_td_is_refused() -> None:
    raw = quote_of(PLATFORM, layout=QuoteLayout.V5_TD15, mrservicetd=b"\x01" * 48)
    with raises_code("appraisal.service_td"):
        appraise_session(PLATFORM, raw)


def test_another_image_is_refused() -> None:
    with raises_code("appraisal.image"):
        appraise_session(PLATFORM, quote_of(PLATFORM, mrtd=b"\x01" * 48))
    with raises_code("appraisal.image"):
        appraise_session(PLATFORM, quote_of(PLATFORM, image=Image.GATEWAY), log=log_of(image=Image.GATEWAY))
    with raises_code("appraisal.image"):
        appraise_session(PLATFORM, image="gateway")


def test_an_image_that_does_not_exist_is_refused() -> None:
    with raises_code("appraisal.expectation"):
        appraise_session(PLATFORM, image="witness")


def test_a_mix_of_two_accepted_images_is_none() -> None:
    body = VERIFIED.quote.body
    image = {"mrtd": body.mrtd.hex()} | {f"rtmr{n}": body.rtmrs[n].hex() for n in range(3)}
    halves = [image | {"mrtd": "01" * 48}, image | {"rtmr2": "01" * 48}]
    with raises_code("appraisal.image"):
        appraise_session(PLATFORM, reference=changed_reference(images={"gateway": halves, "session": halves}))


def test_an_unbound_mrconfigid_is_never_a_match() -> None:
    raw = quote_of(PLATFORM, mrconfigid=bytes(48))
    with raises_code("appraisal.mrconfigid_unbound"):
        appraise_session(PLATFORM, raw)
    with raises_code("appraisal.expectation"):
        appraise_session(PLATFORM, raw, mrconfigid=bytes(48))


def test_another_mrconfigid_is_refused() -> None:
    with raises_code("appraisal.mrconfigid"):
        appraise_session(PLATFORM, mrconfigid=b"\x01" * 48)


@given(st.integers(0, 511))
def test_every_bit_of_report_data_counts(bit: int) -> None:
    expected = int.from_bytes(REPORT_DATA, "big") ^ 1 << bit
    with raises_code("appraisal.report_data"):
        appraise_session(PLATFORM, report_data=expected.to_bytes(64, "big"))


@pytest.mark.parametrize("size", [0, 32, 48, 63, 65, 128])
def test_an_expected_value_is_never_padded_or_cut(size: int) -> None:
    padded = quote_of(PLATFORM, report_data=REPORT_DATA[:32] + bytes(32))
    with raises_code("appraisal.expectation"):
        appraise_session(PLATFORM, padded, report_data=(REPORT_DATA * 2)[:size])
    if size != 48:
        with raises_code("appraisal.expectation"):
            appraise_session(PLATFORM, mrconfigid=(MRCONFIGID * 3)[:size])


# -- 44 -----------------------------------------------------------------------------------------------------------


def session(events: tuple[Event, ...], **options: Any) -> Any:
    """A session that really extended ``events`` and says so."""
    return appraise_session(PLATFORM, quote_of(PLATFORM, events=events), log=log_of(events), **options)


LATER = (NARROWING, FORK, FORK)


@pytest.mark.parametrize("expected", [LATER, None])
def test_a_narrowing_and_a_fork_may_follow_the_barrier(expected: tuple[Event, ...] | None) -> None:
    appraisal = session((*BOOT_EVENTS, *LATER), expected_later=expected)
    assert appraisal.boot_events == BOOT_EVENTS
    assert appraisal.later_events == LATER


@pytest.mark.parametrize("expected", [(), LATER[:1], LATER[1:], (FORK, NARROWING, FORK), (*LATER, FORK)])
def test_what_follows_the_barrier_is_what_the_caller_knows_of(expected: tuple[Event, ...]) -> None:
    for boot in (BOOT_EVENTS, None):
        with raises_code("appraisal.rtmr3"):
            session((*BOOT_EVENTS, *LATER), expected_rtmr3=boot, expected_later=expected)


def test_a_known_narrowing_counts_by_its_payload_and_has_to_be_there() -> None:
    other = Event(NARROWING.name, {"digest": "y"})
    with raises_code("appraisal.rtmr3"):
        session((*BOOT_EVENTS, NARROWING), expected_later=(other,))
    with raises_code("appraisal.rtmr3"):
        session(BOOT_EVENTS, expected_later=(NARROWING,))


def test_nothing_follows_the_barrier_unless_the_caller_says_so() -> None:
    for event in LATER:
        with raises_code("appraisal.rtmr3", match="more or fewer"):
            session((*BOOT_EVENTS, event))
    assert session(BOOT_EVENTS).later_events == ()


@pytest.mark.parametrize(
    "events",
    [
        (),
        BOOT_EVENTS[:-1],
        BOOT_EVENTS[1:],
        (BOOT_EVENTS[1], BOOT_EVENTS[0], *BOOT_EVENTS[2:]),
        (*BOOT_EVENTS[:4], BOOT_EVENTS[3], BOOT_EVENTS[4]),
        (*BOOT_EVENTS, BOOT_EVENTS[3]),
        (*BOOT_EVENTS, BOOT_EVENTS[4]),
        (*BOOT_EVENTS, Event("other", {})),
        (*BOOT_EVENTS[:4], FORK, BOOT_EVENTS[4]),
        (FORK, *BOOT_EVENTS),
        (*BOOT_EVENTS, FORK, Event("affiant-activate", {})),
    ],
    ids=lambda events: ",".join(event.name.removeprefix("affiant-") for event in events) or "none",
)
def test_any_other_event_order_or_count_is_refused(events: tuple[Event, ...]) -> None:
    for expected in (BOOT_EVENTS, None):
        with raises_code("appraisal.rtmr3"):
            session(events, expected_rtmr3=expected, expected_later=None)


@pytest.mark.parametrize("index", range(5))
def test_each_expected_payload_counts(index: int) -> None:
    other = Event(BOOT_EVENTS[index].name, {"number": 99})
    events = (*BOOT_EVENTS[:index], other, *BOOT_EVENTS[index + 1 :])
    with raises_code("appraisal.rtmr3"):
        session(events)
    appraisal = session(events, expected_rtmr3=None)
    assert any("payloads" in check.detail for check in appraisal.checks_not_made)


@pytest.mark.parametrize("expected", [(), BOOT_EVENTS[:-1], (*BOOT_EVENTS, FORK)])
def test_expected_events_are_those_up_to_the_barrier(expected: tuple[Event, ...]) -> None:
    with raises_code("appraisal.expectation"):
        session(BOOT_EVENTS, expected_rtmr3=expected)


@pytest.mark.parametrize(
    "log",
    [
        EventLog(()),
        log_of(()),
        log_of(BOOT_EVENTS[:-1]),
        log_of((*BOOT_EVENTS, FORK)),
        log_of(tuple(reversed(BOOT_EVENTS))),
        log_of((*BOOT_EVENTS[:4], Event("affiant-ready", {"number": 5}))),
        EventLog((*log_of(()).entries[1:], *LOG3.entries, LoggedEvent(0, FORK))),
        EventLog((*log_of().entries, LoggedEvent(2, FORK))),
        EventLog(tuple(reversed(log_of(()).entries)) + LOG3.entries + (LoggedEvent(1, FORK),)),
    ],
)
def test_a_log_that_does_not_replay_proves_nothing(log: EventLog) -> None:
    with raises_code("eventlog.replay"):
        appraise_session(PLATFORM, log=log)


def test_a_gateway_with_an_event_is_refused() -> None:
    raw = quote_of(PLATFORM, image=Image.GATEWAY, events=(FORK,))
    with raises_code("appraisal.rtmr3"):
        appraise_session(
            PLATFORM, raw, image="gateway", log=log_of((FORK,), Image.GATEWAY), expected_rtmr3=None
        )
    with raises_code("eventlog.replay"):
        appraise_session(PLATFORM, raw, image="gateway", log=log_of((), Image.GATEWAY), expected_rtmr3=None)
    honest = quote_of(PLATFORM, image=Image.GATEWAY, events=())
    for expectation in (
        {"expected_rtmr3": BOOT_EVENTS},
        {"expected_rtmr3": (), "expected_later": (NARROWING,)},
    ):
        with raises_code("appraisal.rtmr3"):
            appraise_session(PLATFORM, honest, image="gateway", log=log_of((), Image.GATEWAY), **expectation)
