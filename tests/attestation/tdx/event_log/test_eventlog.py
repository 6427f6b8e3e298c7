"""Digests are recomputed, names cannot run into payloads, and replay is linear."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.tdx.event_log.eventlog import (
    EMPTY_REGISTER,
    Event,
    EventLog,
    LoggedEvent,
    event_digest,
    extend,
    parse_event_log,
    replay,
)

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
PAYLOADS = st.dictionaries(st.text(max_size=5), st.integers(-5, 5) | st.text(max_size=8), max_size=3)
EVENTS = st.builds(Event, NAMES, PAYLOADS)
LOGS = st.lists(st.builds(LoggedEvent, st.integers(0, 3), EVENTS), max_size=8).map(
    lambda entries: EventLog(tuple(entries))
)


def test_a_digest_is_of_the_canonical_event() -> None:
    text = b'{"name":"affiant-ready","payload":{"a":1},"typ":"affiant-event/1"}'
    assert event_digest(Event("affiant-ready", {"a": 1})) == hashlib.sha384(text).digest()


def test_replay_extends_from_zero() -> None:
    event = Event("one", {})
    once = hashlib.sha384(bytes(48) + event_digest(event)).digest()
    assert replay(()) == EMPTY_REGISTER == bytes(48)
    assert replay((event,)) == once
    assert replay((event, event)) == extend(once, event_digest(event))


@given(LOGS)
def test_a_log_survives_its_document(log: EventLog) -> None:
    assert parse_event_log(log.to_bytes()) == log


@given(LOGS)
def test_each_register_replays_its_own_events_in_order(log: EventLog) -> None:
    for rtmr in range(4):
        assert replay(log, rtmr) == replay(log.events(rtmr))


@given(st.lists(EVENTS, min_size=1, max_size=6), st.data())
def test_a_changed_dropped_doubled_or_moved_event_shows(events: list[Event], data: Any) -> None:
    index = data.draw(st.integers(0, len(events) - 1))
    before = replay(events)
    assert replay(events[:index] + events[index + 1 :]) != before
    assert replay([*events[: index + 1], *events[index:]]) != before
    changed = Event(
        events[index].name, {**events[index].payload, "more": 1, "x": data.draw(st.integers(0, 9))}
    )
    if changed.payload != events[index].payload:
        assert replay([*events[:index], changed, *events[index + 1 :]]) != before
    moved = [*events[:index], *events[index + 1 :], events[index]]
    if moved != events:
        assert replay(moved) != before


def test_name_and_payload_cannot_be_confused() -> None:
    """Two readings of the same text under a delimiter, in other formats."""
    assert event_digest(Event("a", {"b": "c"})) != event_digest(Event("a.b", {"": "c"}))
    for name in ("a:b", 'a","payload":{}', "", "A", "a b", "a\n", "-a", "a" * 65, "é"):
        with raises_code("eventlog.malformed"):
            Event(name, {})


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"typ": "affiant-eventlog/1"},
        {"typ": "affiant-eventlog/2", "events": []},
        {"typ": "affiant-eventlog/1", "events": {}},
        {"typ": "affiant-eventlog/1", "events": [], "more": 1},
        {"typ": "affiant-eventlog/1", "events": [1]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 3, "name": "a"}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 4, "name": "a", "payload": {}}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": -1, "name": "a", "payload": {}}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": True, "name": "a", "payload": {}}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": "3", "name": "a", "payload": {}}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 3, "name": 1, "payload": {}}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 3, "name": "a", "payload": []}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 3, "name": "a", "payload": None}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 3, "name": "a", "payload": {}, "digest": "00"}]},
        {"typ": "affiant-eventlog/1", "events": [{"rtmr": 3, "name": "a", "payload": {}}] * 10_001},
    ],
    ids=lambda document: str(document)[:60],
)
def test_another_form_is_refused(document: Any) -> None:
    with raises_code("eventlog.malformed"):
        parse_event_log(canonical(document))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    with raises_code("eventlog.malformed"):
        parse_event_log(data)


def test_a_log_that_could_not_be_read_again_is_not_written() -> None:
    many = EventLog((LoggedEvent(3, Event("a", {})),) * 10_001)
    with raises_code("eventlog.malformed"):
        many.to_bytes()
    with raises_code("eventlog.malformed"):
        EventLog((LoggedEvent(3, Event("a", {"x": "y" * (9 * 1024 * 1024)})),)).to_bytes()
    with raises_code("eventlog.malformed"):
        EventLog((LoggedEvent(3, Event("a", {"x": 1.5})),)).to_bytes()


def test_a_whole_log_needs_a_register_and_a_register_has_48_bytes() -> None:
    with raises_code("eventlog.malformed"):
        replay(EventLog(()))
    for register, digest in ((bytes(47), bytes(48)), (bytes(48), bytes(49))):
        with raises_code("eventlog.malformed"):
            extend(register, digest)


def test_each_event_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that began anew for each event would hash their square."""
    count = 0

    def counted(register: bytes, digest: bytes) -> bytes:
        nonlocal count
        count += 1
        return extend(register, digest)

    monkeypatch.setattr("affiant.attestation.tdx.event_log.eventlog.extend", counted)
    replay(Event("a", {"n": number}) for number in range(10_000))
    assert count == 10_000
