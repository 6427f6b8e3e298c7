"""Narrowings: one event each, epochs without gap, each of the profile before, and never back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.raising import raises_code

from affiant.attestation.statements.restriction import (
    MAX_NARROWINGS,
    Narrowing,
    demand_next,
    logged_narrowings,
    parse_narrowings,
)
from affiant.attestation.tdx.event_log.eventlog import (
    SESSION_EVENT_ORDER,
    Event,
    EventLog,
    LoggedEvent,
    event_digest,
)


def profile(number: int) -> str:
    return f"sha384:{number:096x}"


def file(number: int) -> str:
    return f"sha256:{number:064x}"


def narrowings(count: int) -> tuple[Narrowing, ...]:
    """``count`` narrowings of profile 0: to 1, to 2 ..."""
    return tuple(Narrowing(k, profile(k), file(k), old=profile(k - 1)) for k in range(1, count + 1))


def events(count: int) -> tuple[Event, ...]:
    return tuple(each.event for each in narrowings(count))


def changed(event: Event, **members: object) -> Event:
    return Event(event.name, {**event.payload, **members})


def refused(parts: tuple[Event, ...], code: str) -> None:
    with raises_code(code):
        parse_narrowings(parts, first=profile(0))


@pytest.mark.parametrize("count", [0, 1, 2, MAX_NARROWINGS])
def test_narrowings_are_read_as_they_were_made(count: int) -> None:
    assert parse_narrowings(events(count), first=profile(0)) == narrowings(count)


def test_the_payload_is_exactly_four_members() -> None:
    (event,) = events(1)
    assert event.name == "affiant-policy"
    assert event.payload == {"dig": profile(1), "epoch": 1, "fil": file(1), "old": profile(0)}


@pytest.mark.parametrize("member", ["dig", "epoch", "fil", "old"])
def test_each_member_changes_what_is_extended(member: str) -> None:
    (event,) = events(1)
    assert event_digest(changed(event, **{member: "x"})) != event_digest(event)


@pytest.mark.parametrize(
    "name", ["affiant-fork", "affiant-ready", "affiant-profile", "affiant-policy2", "policy"]
)
def test_an_event_of_another_name_is_no_narrowing(name: str) -> None:
    first, second = events(2)
    refused((Event(name, first.payload),), "narrowing.event")
    refused((first, Event(name, second.payload)), "narrowing.event")


def test_one_more_than_a_session_may_have_is_refused() -> None:
    refused(events(MAX_NARROWINGS + 1), "narrowing.event")
    *before, last = narrowings(MAX_NARROWINGS + 1)
    with raises_code("narrowing.event"):
        demand_next(last, before, first=profile(0))
    demand_next(before[-1], before[:-1], first=profile(0))


@pytest.mark.parametrize(
    "members",
    [
        {"more": 1},
        {"dig": profile(1).upper()},
        {"dig": file(1)},
        {"dig": profile(1) + "\n"},
        {"fil": profile(1)},
        {"fil": None},
        {"old": ""},
        {"epoch": 0},
        {"epoch": True},
        {"epoch": "1"},
        {"epoch": -1},
        {"epoch": MAX_NARROWINGS + 1},
        {"epoch": 1.0},
    ],
)
def test_a_payload_of_another_form_is_refused(members: dict[str, object]) -> None:
    refused((changed(events(1)[0], **members),), "narrowing.malformed")


@pytest.mark.parametrize("member", ["dig", "epoch", "fil", "old"])
def test_a_payload_without_a_member_is_refused(member: str) -> None:
    (event,) = events(1)
    payload = {name: value for name, value in event.payload.items() if name != member}
    refused((Event(event.name, payload),), "narrowing.malformed")


def test_an_epoch_skipped_doubled_or_out_of_order_is_refused() -> None:
    first, second, third = events(3)
    for order in [(second,), (first, third), (first, first), (second, first), (first, second, second)]:
        refused(order, "narrowing.order")


def test_what_is_replaced_is_the_profile_in_force() -> None:
    first, second = events(2)
    refused((changed(first, old=profile(9)),), "narrowing.order")
    refused((first, changed(second, old=profile(0))), "narrowing.order")
    with raises_code("narrowing.order"):
        parse_narrowings((first,), first=profile(7))


@pytest.mark.parametrize("back", [0, 1, 2])
def test_a_profile_that_the_session_had_does_not_come_back(back: int) -> None:
    first, second, third = events(3)
    refused((first, second, changed(third, dig=profile(back))), "narrowing.order")


def test_of_an_event_log_what_follows_the_barrier_is_read() -> None:
    boot = tuple(Event(name, {}) for name in SESSION_EVENT_ORDER)
    log = EventLog(
        (
            LoggedEvent(0, Event("firmware", {})),
            *(LoggedEvent(3, event) for event in (*boot, *events(2))),
            LoggedEvent(2, Event("kernel", {})),
        )
    )
    assert logged_narrowings(log, first=profile(0)) == narrowings(2)
    assert logged_narrowings(EventLog(log.entries[:6]), first=profile(0)) == ()


@given(st.integers(1, 6), st.data())
def test_any_one_member_that_is_changed_is_refused(count: int, data: st.DataObject) -> None:
    parts = list(narrowings(count))
    index = data.draw(st.integers(0, count - 1))
    member = data.draw(st.sampled_from(["epoch", "old", "profile_digest"]))
    number = data.draw(st.integers(0, count))
    value: object = number if member == "epoch" else profile(number)
    altered = replace(parts[index], **{member: value})
    if altered != parts[index]:
        parts[index] = altered
        with raises_code("narrowing.order", "narrowing.malformed"):
            parse_narrowings(tuple(each.event for each in parts), first=profile(0))
