"""dstack's log: what is shown is what was hashed is what is replayed."""

from __future__ import annotations

import gc
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import log_of, quote_of
from tests.attestation.tdx.logs import array, extend_all, runtime, sha384, tcg
from tests.raising import raises_code

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.event_log.eventlog import EventLog
from affiant.attestation.tdx.event_log.measured_log import Binding, MeasuredLog, measured, verify_replay
from affiant.attestation.tdx.event_log.runtime_log import parse_runtime_log
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError

NAMES = st.text(st.characters(exclude_characters=":", exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=20)), min_size=1, max_size=6, unique_by=lambda item: item[0])
)
def test_a_runtime_log_replays_to_rtmr3_and_its_contents_are_proven(events: list[tuple[str, bytes]]) -> None:
    log = parse_runtime_log(array(*(runtime(*item) for item in events)))
    digests = [bytes.fromhex(runtime(*item)["digest"]) for item in events]
    assert log.replay() == (bytes(48), bytes(48), bytes(48), extend_all(*digests))
    assert {event.binding for event in log.events} == {Binding.CONTENT}
    assert log.is_runtime_only


@pytest.mark.parametrize("name", ["a:b", ":", "", "compose-hash:"])
def test_a_name_with_the_delimiter_is_refused(name: str) -> None:
    """("a:b", "c") and ("a", "b:c") have one digest: neither may be claimed."""
    assert runtime("a:b", b"c")["digest"] == runtime("a", b"b:c")["digest"]
    with raises_code("eventlog.ambiguous"):
        parse_runtime_log(array(runtime(name, b"c")))
    assert parse_runtime_log(array(runtime("a", b"b:c"))).events[0].content == b"b:c"


@pytest.mark.parametrize(
    "changes", [{"event_payload": "00"}, {"event": "compose-hasi"}, {"digest": "00" * 48}], ids=str
)
def test_a_payload_or_name_that_was_not_hashed_is_refused(changes: Any) -> None:
    with raises_code("eventlog.preimage"):
        parse_runtime_log(array(runtime("compose-hash", b"\1" * 32, **changes)))


def test_another_type_in_rtmr3_and_a_runtime_event_elsewhere_are_refused() -> None:
    for entry in (
        runtime("compose-hash", event_type=1),
        runtime("compose-hash", event_type=3),
        runtime("compose-hash", imr=2),
    ):
        with raises_code("eventlog.malformed", match="RTMR3"):
            parse_runtime_log(array(entry))


def test_a_system_event_counts_once_and_before_the_application() -> None:
    parse_runtime_log(array(runtime("app-id"), runtime("system-ready"), runtime("mine"), runtime("mine")))
    for entries in (
        (runtime("app-id"), runtime("app-id", b"\1")),
        (runtime("compose-hash"), runtime("system-ready"), runtime("compose-hash", b"\1")),
        (runtime("system-ready"), runtime("compose-hash", b"\1")),
        (runtime("system-ready"), runtime("system-ready")),
    ):
        with raises_code("eventlog.duplicate"):
            parse_runtime_log(array(*entries))


def test_tcg_events_of_the_other_registers_are_hashed_again() -> None:
    log = parse_runtime_log(
        array(tcg(0, 0x4, bytes(4)), tcg(1, 0x3, b"x"), tcg(2, 0x6, b"tagged", sha384(b"?")))
    )
    assert [event.binding for event in log.events] == [Binding.CONTENT, Binding.NONE, Binding.DIGEST]
    assert [event.rtmr for event in log.events] == [0, None, 2]
    with raises_code("eventlog.preimage"):
        parse_runtime_log(array(tcg(0, 0x4, bytes(4), sha384(b"?"))))


def lite(entry: dict[str, Any]) -> dict[str, Any]:
    """As dstack's agent hands it out: a boot event without payload, a runtime event without digest."""
    return {**entry, "digest": ""} if entry["imr"] == 3 else {**entry, "event_payload": ""}


def test_a_lite_log_replays_to_what_the_whole_log_replays_to() -> None:
    entries = [tcg(0, 0x4, bytes(4)), tcg(0, 0xA, b"ACPI DATA", sha384(b"a table")), tcg(1, 0x3, b"x")]
    entries += [tcg(2, 0x80000002, b"a variable", sha384(b"a variable")), runtime("app-id", b"\1" * 20)]
    whole, less = (parse_runtime_log(array(*told)) for told in (entries, map(lite, entries)))
    assert less.replay() == whole.replay()
    assert [event.binding for event in less.events] == [
        Binding.DIGEST,
        Binding.DIGEST,
        Binding.NONE,
        Binding.DIGEST,
        Binding.CONTENT,
    ]
    assert less.events[-1] == whole.events[-1]


def test_what_a_lite_log_leaves_out_does_not_open_another_log() -> None:
    said = lite(runtime("compose-hash", b"\1" * 32))
    changed = parse_runtime_log(array({**said, "event_payload": "02" * 32}))
    assert changed.replay() != parse_runtime_log(array(said)).replay()
    with raises_code("eventlog.preimage"):  # a runtime event keeps its payload
        parse_runtime_log(array(runtime("compose-hash", b"\1" * 32, event_payload="")))
    with raises_code("eventlog.malformed"):  # a boot event keeps its digest
        parse_runtime_log(array(tcg(0, 0x4, bytes(4)) | {"digest": ""}))
    with raises_code("eventlog.ambiguous"):
        parse_runtime_log(array(runtime("a:b", digest="")))


def test_a_name_beside_a_tcg_event_is_not_shown_because_nothing_covers_it() -> None:
    entry = tcg(0, 0x4, bytes(4)) | {"event": "everything is fine"}
    assert parse_runtime_log(array(entry)).events[0].name == ""


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b"[]",
        b"[7]",
        array({}),
        array(runtime("a") | {"more": 1}),
        array(runtime("a", imr=4)),
        array(runtime("a", imr=True)),
        array(runtime("a", imr="3")),
        array(runtime("a", event_type=-1)),
        array(runtime("a", event_type=1 << 32)),
        array(runtime("a", event=7)),
        array(runtime("a", digest="00")),
        array(runtime("a", digest="zz" * 48)),
        array(runtime("a", event_payload="AA")),
        array(runtime("a", event_payload="0 0")),
        array(runtime("a", event="\ud800")),
        array(runtime("a"))[:-1],
        b'[{"imr":3,"imr":3,"event_type":1,"digest":"","event":"","event_payload":""}]',
        b"[" * 10_000,
    ],
    ids=lambda document: str(document)[:50],
)
def test_another_form_is_refused(document: bytes) -> None:
    with raises_code("eventlog.malformed"):
        parse_runtime_log(document)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    with pytest.raises(AffiantError):
        parse_runtime_log(data)


@pytest.mark.slow
def test_a_hundred_thousand_events_take_linear_time() -> None:
    def seconds(count: int) -> float:
        data = b"[" + b",".join([json.dumps(runtime("tick", b"1")).encode()] * count) + b"]"
        gc.disable()  # it looks through the more, the more there is
        try:
            start = time.process_time()
            parse_runtime_log(data).replay()
            return time.process_time() - start
        finally:
            gc.enable()

    seconds(1_000)
    small, large = (min(seconds(count) for _ in range(2)) for count in (5_000, 100_000))
    assert large < 100 * small, "twenty times the events: quadratic would be four hundred times the time"


# -- against a quote -------------------------------------------------------------------------------------------


def changed(events: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Dropped first, dropped last, doubled, the last two swapped."""
    return [events[1:], events[:-1], (*events, events[-1]), (*events[:-2], events[-1], events[-2])]


def test_our_own_log_replays_and_no_changed_one_does(platform: SimulatedPlatform) -> None:
    body = parse_quote(quote_of(platform)).body
    log = measured(log_of())
    assert verify_replay(log, body) == (0, 1, 2, 3)
    only3 = measured(EventLog(tuple(entry for entry in log_of().entries if entry.rtmr == 3)))
    assert verify_replay(only3, body) == (3,)
    for events in (*changed(log.events), log.of(3)[:-1], ()):
        with raises_code("eventlog.replay"):
            verify_replay(replace(log, events=events), body)


def test_a_log_that_speaks_of_the_boot_must_speak_of_all_of_it(platform: SimulatedPlatform) -> None:
    """All events of one register left out: the register is not 'unpinned', the log is cut."""
    body = parse_quote(quote_of(platform)).body
    log = measured(log_of())
    for rtmr in range(4):
        less = MeasuredLog(log.form, tuple(event for event in log.events if event.rtmr != rtmr))
        with raises_code("eventlog.replay", match=f"RTMR{rtmr}"):
            verify_replay(less, body)


def test_the_collection_of_logs_agrees(vectors: Any) -> None:
    """Genuine ones replay to their quotes; reordered, cut, doubled, moved, retyped and edited ones are refused."""
    from affiant.attestation.quote.judge.event_log_file import parse_event_log_file

    accepted = refused = 0
    for entry in vectors.expected["eventlogs"]:
        if entry["quote"] is None:
            continue
        body = parse_quote(vectors.read(entry["quote"])).body
        content = vectors.read(entry["file"])
        if entry.get("expected_accept", True):
            log = parse_event_log_file(content)
            assert verify_replay(log, body) == (0, 1, 2, 3)
            shown = [[event.name, event.content.hex()] for event in log.of(3)]
            assert shown == entry.get("runtime_events", shown)
            accepted += 1
        else:
            with pytest.raises(AffiantError) as refusal:
                verify_replay(parse_event_log_file(content), body)
            assert refusal.value.code in {"eventlog.replay", "eventlog.preimage", "eventlog.malformed"}
            refused += 1
    assert (accepted, refused) == (3, 6)


def test_a_document_is_one_form_alone() -> None:
    from affiant.attestation.quote.judge.event_log_file import parse_event_log_file

    with raises_code("eventlog.malformed", match="not an event log"):
        parse_event_log_file(b"\x04\0\2\0")
    assert parse_event_log_file(log_of().to_bytes()).form == "affiant-eventlog/1"
    assert parse_event_log_file(array(runtime("a"))).form == "dstack"
    with raises_code("eventlog.malformed"):
        parse_event_log_file(json.dumps({"typ": "other"}).encode())
