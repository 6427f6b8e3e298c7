"""Segments: what holds is read, and the first byte that does not ends it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.gateway.store.journal_format import (
    ERASED,
    HEAD_SIZE,
    MAX_PAYLOAD,
    PAYLOAD_AT,
    STATE_AT,
    SegmentWriter,
    payload_size,
    read_frame,
    scan,
)
from affiant.gateway.wire.errors import EntryErased, JournalMalformed

BOOT, LINK = bytes(range(16)), bytes(range(32))
payloads = st.lists(st.binary(max_size=200), max_size=8)


def segment(entries: list[bytes]) -> tuple[bytes, SegmentWriter]:
    writer = SegmentWriter(boot=BOOT, number=7, link=LINK)
    return writer.head + b"".join(writer.frame(entry) for entry in entries), writer


@given(payloads)
@thorough(60)
def test_what_was_written_is_read(entries: list[bytes]) -> None:
    data, writer = segment(entries)
    found = scan(data)
    assert found.payloads == tuple(entries)
    assert (found.boot, found.number, found.before) == (BOOT, 7, LINK)
    assert (found.link, found.size) == (writer.link, writer.size) and found.size == len(data)


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5), st.data())
@thorough(80)
def test_a_cut_anywhere_keeps_exactly_the_whole_entries_before_it(
    entries: list[bytes], data: st.DataObject
) -> None:
    whole, _ = segment(entries)
    cut = data.draw(st.integers(HEAD_SIZE, len(whole)))
    found = scan(whole[:cut])
    assert found.payloads == tuple(entries)[: len(found.payloads)]
    assert found.size <= cut
    assert scan(whole[: found.size]) == found


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5), st.data())
@thorough(80)
def test_a_flipped_bit_ends_the_segment_at_its_entry(entries: list[bytes], data: st.DataObject) -> None:
    whole, _ = segment(entries)
    at = data.draw(st.integers(HEAD_SIZE, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    found = scan(bytes(changed))
    assert len(found.payloads) < len(entries)
    assert found.payloads == tuple(entries)[: len(found.payloads)]
    assert found.size <= at


def test_an_entry_moved_to_another_segment_does_not_hold() -> None:
    first, _ = segment([b"one"])
    other = SegmentWriter(boot=BOOT, number=8, link=LINK).head + first[HEAD_SIZE:]
    assert scan(other).payloads == ()


@pytest.mark.parametrize("data", [b"", b"affiant-journal/1\n", b"x" * 100])
def test_what_does_not_begin_as_a_segment_is_refused(data: bytes) -> None:
    with pytest.raises(JournalMalformed):
        scan(data)


def test_a_frame_is_read_back_alone() -> None:
    writer = SegmentWriter(boot=BOOT, number=0, link=LINK)
    frame = writer.frame(b"payload")
    assert read_frame(frame) == b"payload"
    for broken in (frame[:-1], frame + b"x", b""):
        with pytest.raises(JournalMalformed):
            read_frame(broken)


def test_an_entry_beyond_its_limit_is_refused() -> None:
    with pytest.raises(JournalMalformed):
        SegmentWriter(boot=BOOT, number=0, link=LINK).frame(bytes(MAX_PAYLOAD + 1))


def erased(data: bytes, offset: int, size: int) -> bytes:
    """As the eraser leaves it: another state, zeros for the payload."""
    zeros = bytes(size - PAYLOAD_AT - 32)
    marked = data[: offset + STATE_AT] + bytes([ERASED]) + data[offset + STATE_AT + 1 :]
    return marked[: offset + PAYLOAD_AT] + zeros + marked[offset + size - 32 :]


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=6), st.data())
@thorough(60)
def test_an_erased_entry_moves_nothing_and_breaks_no_link(entries: list[bytes], data: st.DataObject) -> None:
    whole, writer = segment(entries)
    gone = data.draw(st.sets(st.integers(0, len(entries) - 1)))
    changed = whole
    for number in gone:
        entry = scan(whole).entries[number]
        changed = erased(changed, entry.offset, entry.size)
    found = scan(changed)
    assert found.payloads == tuple(e for n, e in enumerate(entries) if n not in gone)
    assert len(found.erased) == len(gone)
    assert (found.link, found.size) == (writer.link, writer.size) and len(changed) == len(whole)
    assert {e.offset for e in found.entries} | {e.offset for e in found.erased} == {
        e.offset for e in scan(whole).entries
    }


@given(st.integers(0, 255))
def test_no_other_state_holds(state: int) -> None:
    whole, _ = segment([b"one"])
    found = scan(whole[: HEAD_SIZE + STATE_AT] + bytes([state]) + whole[HEAD_SIZE + STATE_AT + 1 :])
    assert found.payloads == ((b"one",) if state == 0 else ())
    assert len(found.erased) == (state == ERASED)


def test_an_erased_entry_is_not_given_out_even_before_it_is_overwritten() -> None:
    frame = SegmentWriter(boot=BOOT, number=0, link=LINK).frame(b"payload")
    marked = frame[:STATE_AT] + bytes([ERASED]) + frame[STATE_AT + 1 :]
    with pytest.raises(EntryErased):
        read_frame(marked)


def test_a_frame_with_other_bytes_than_were_written_is_refused() -> None:
    frame = SegmentWriter(boot=BOOT, number=0, link=LINK).frame(b"payload")
    with pytest.raises(JournalMalformed):
        read_frame(frame.replace(b"pay", b"pax"))


def test_another_builds_journal_is_refused_and_not_called_garbage() -> None:
    whole, _ = segment([b"one"])
    with raises_code("journal.version", match="written by another build"):
        scan(whole.replace(b"affiant-journal/2", b"affiant-journal/1"))


@pytest.mark.parametrize("head", [b"", bytes(36), b"\xff" * 37, bytes(4) + b"\x01" + bytes(32)])
def test_what_begins_no_entry_has_no_payload(head: bytes) -> None:
    with pytest.raises(JournalMalformed):
        payload_size(head)
