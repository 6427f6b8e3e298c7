"""CCEL: parsed strictly, replayed by register, contents hashed again, in linear time."""

from __future__ import annotations

import gc
import struct
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.logs import SHA384, ccel, event, extend_all, sha384, spec_id, variable
from tests.raising import raises_code

from affiant.attestation.tdx.event_log.ccel import is_ccel, parse_ccel
from affiant.attestation.tdx.event_log.measured_log import Binding
from affiant.errors import AffiantError

SEPARATOR = event(1, 0x4, bytes(4))


def test_the_register_index_is_that_of_cc_measurement_registers() -> None:
    """0 is MRTD, which no log replays to; 1 to 4 are RTMR0 to 3."""
    log = parse_ccel(ccel(*(event(index, 0x80000007, bytes((index,))) for index in range(5))))
    assert [found.rtmr for found in log.events] == [None, 0, 1, 2, 3]
    assert log.replay() == tuple(extend_all(sha384(bytes((index,)))) for index in range(1, 5))


def test_no_action_is_never_extended() -> None:
    log = parse_ccel(ccel(event(1, 0x3, b"says something", bytes(48)), SEPARATOR))
    assert [found.binding for found in log.events] == [Binding.NONE, Binding.CONTENT]
    assert log.replay()[0] == extend_all(sha384(bytes(4)))


@pytest.mark.parametrize("padding", [b"", b"\xff" * 100, bytes(100), b"\xff" * 5, bytes(3)])
def test_padding_of_one_kind_ends_the_log(padding: bytes) -> None:
    assert len(parse_ccel(ccel(SEPARATOR, padding=padding)).events) == 1


@pytest.mark.parametrize(
    "tail", [b"\xff" * 20 + b"x", bytes(20) + b"\xff", b"\0\xff" * 8, SEPARATOR[:20], b"x"]
)
def test_anything_else_after_the_last_event_is_refused(tail: bytes) -> None:
    with raises_code("eventlog.malformed"):
        parse_ccel(ccel(SEPARATOR, padding=tail))


def test_a_log_hidden_behind_padding_is_refused() -> None:
    with raises_code("eventlog.malformed", match="after the end"):
        parse_ccel(ccel(SEPARATOR, padding=b"\xff" * 64 + SEPARATOR))


@pytest.mark.parametrize(
    ("number", "content", "preimage", "binding"),
    [
        (0x4, bytes(4), bytes(4), Binding.CONTENT),
        (0x80000007, b"Exit Boot Services Invocation", None, Binding.CONTENT),
        (0x80000001, variable("SecureBoot", b"\1"), None, Binding.CONTENT),
        (0x80000002, variable("Boot0000", b"entry"), b"entry", Binding.DATA),
        (0x80000002, variable("Boot0000", b"entry"), None, Binding.CONTENT),
        (0x800000E0, variable("db", b"cert"), None, Binding.CONTENT),
        (0x80000006, b"EFI PART", None, Binding.CONTENT),
        (0xD, b"grub_cmd: set timeout=0\0", b"set timeout=0", Binding.DATA),
        (0xD, b"kernel_cmdline: quiet\0", b"quiet", Binding.DATA),
        (0xD, b"MokList\0", b"anything", Binding.DIGEST),
        (0x80000003, b"device path", b"a PE image", Binding.DIGEST),
        (0x80000003, b"device path", b"device path", Binding.DIGEST),
        (0xA, b"ACPI DATA", b"a table", Binding.DIGEST),
        (0x12345, b"who knows", b"whatever", Binding.DIGEST),
    ],
    ids=lambda value: hex(value) if isinstance(value, int) else None,
)
def test_content_is_proven_as_far_as_its_type_permits(
    number: int, content: bytes, preimage: bytes | None, binding: Binding
) -> None:
    log = parse_ccel(ccel(event(1, number, content, sha384(content if preimage is None else preimage))))
    assert log.events[0].binding is binding


@pytest.mark.parametrize(
    ("number", "content"),
    [
        (0x4, bytes(4)),
        (0x80000007, b"Exit Boot Services Invocation"),
        (0x80000001, variable("SecureBoot", b"\1")),
        (0x80000002, variable("Boot0000", b"entry")),
        (0x80000002, b"no variable"),
        (0xD, b"kernel_cmdline: quiet\0"),
    ],
)
def test_content_that_does_not_hash_to_its_digest_is_refused(number: int, content: bytes) -> None:
    with raises_code("eventlog.preimage", match="event 2"):
        parse_ccel(ccel(SEPARATOR, event(1, number, content, sha384(b"something else"))))


def broken() -> dict[str, bytes]:
    second = event(1, 0x4, bytes(4), algorithm=0x000B)
    return {
        "nothing": b"",
        "zeros": bytes(200),
        "no spec id": SEPARATOR,
        "cut spec id": spec_id()[:50],
        "register 5": ccel(event(5, 0x4, bytes(4))),
        "register -2": ccel(event(0xFFFFFFFE, 0x4, bytes(4))),
        "other algorithm": ccel(second),
        "no digest": ccel(struct.pack("<IIII", 1, 4, 0, 0)),
        "two digests": ccel(struct.pack("<III", 1, 4, 2) + bytes(100)),
        "huge size": ccel(SEPARATOR[:-8] + b"\xff\xff\xff\x7f" + bytes(4)),
        "cut event": (spec_id() + SEPARATOR)[:-1],
        "sha-256 only": spec_id(((0x000B, 32),)) + b"\xff" * 4,
        "no algorithm": spec_id(()) + b"\xff" * 4,
        "algorithm twice": spec_id(((SHA384, 48), (SHA384, 48))) + b"\xff" * 4,
        "wrong digest size": spec_id(((SHA384, 32),)) + b"\xff" * 4,
        "spec id too long": spec_id()[:28] + struct.pack("<I", 40) + spec_id()[32:] + bytes(7),
        "spec id with a digest": spec_id()[:8] + b"\1" + spec_id()[9:],
    }


@pytest.mark.parametrize("name", list(broken()))
def test_another_form_is_refused(name: str) -> None:
    with raises_code("eventlog.malformed"):
        parse_ccel(broken()[name])


def test_two_algorithms_are_read_and_sha384_counts() -> None:
    both = spec_id(((0x000B, 32), (SHA384, 48)), vendor=b"vendor")
    digests = (
        struct.pack("<IIIH", 1, 0x4, 2, 0x000B) + bytes(32) + struct.pack("<H", SHA384) + sha384(bytes(4))
    )
    log = parse_ccel(both + digests + struct.pack("<I", 4) + bytes(4) + b"\xff" * 9)
    assert log.events[0].digest == sha384(bytes(4))


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    for content in (data, spec_id() + data):
        try:
            parse_ccel(content)
        except AffiantError as refusal:
            assert refusal.code.startswith("eventlog.")


@given(st.data())
def test_a_damaged_log_is_refused_or_replays_to_something_else(data: Any) -> None:
    """No flipped byte of digests, registers or order goes unseen; types and unhashed contents prove nothing."""
    whole = ccel(
        *(event(1 + number % 4, 0x80000007, bytes((number,)) * 9) for number in range(6)), padding=b""
    )
    damaged = bytearray(whole)
    start = len(spec_id())
    position = data.draw(st.integers(start, len(whole) - 1))
    damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    before = parse_ccel(whole)
    try:
        after = parse_ccel(bytes(damaged))
    except AffiantError as refusal:
        assert refusal.code.startswith("eventlog.")
    else:
        changed = [found for found, kept in zip(after.events, before.events, strict=True) if found != kept]
        assert (
            after.replay() != before.replay()
            or all(
                found.binding in (Binding.DIGEST, Binding.NONE) or found.number == 0x80000001
                for found in changed
            )
            or {found.number for found in changed} <= {0x4, 0x5, 0x80000006}
        )


@given(st.integers(0, 400))
def test_a_cut_log_is_refused_unless_cut_between_events(length: int) -> None:
    whole = ccel(SEPARATOR, SEPARATOR, SEPARATOR, padding=b"")
    ends = {len(whole) - n * len(SEPARATOR) for n in range(4)}
    if length in ends:
        assert len(parse_ccel(whole[:length]).events) < 4
    elif length < len(whole):
        with raises_code("eventlog.malformed"):
            parse_ccel(whole[:length])


@pytest.mark.slow
def test_a_hundred_thousand_events_take_linear_time() -> None:
    def seconds(count: int) -> float:
        data = ccel(*[SEPARATOR] * count)
        gc.disable()  # it looks through the more, the more there is
        try:
            start = time.process_time()
            parse_ccel(data).replay()
            return time.process_time() - start
        finally:
            gc.enable()

    seconds(1_000)
    small, large = (min(seconds(count) for _ in range(2)) for count in (5_000, 100_000))
    assert large < 100 * small, "twenty times the events: quadratic would be four hundred times the time"


def test_the_genuine_logs_replay(vectors: Any) -> None:
    for entry in vectors.expected["eventlogs"]:
        if entry["format"] != "ccel":
            continue
        data = vectors.read(entry["file"])
        assert is_ccel(data)
        log = parse_ccel(data)
        assert len(log.events) + 1 == entry["events"], "the collection counts the first event too"
        for register, value in entry["replay"].items():
            assert log.replay()[int(register[-1])].hex() == value
        proven = [found for found in log.events if found.binding in (Binding.CONTENT, Binding.DATA)]
        assert len(proven) > len(log.events) / 2
