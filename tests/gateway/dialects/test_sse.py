"""Events are split by their bytes alone, whatever the chunking and whatever the line ends."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._streaming import SSEDecoder
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.statements.gateway_config import EVENT_MAX
from affiant.errors import AffiantError
from affiant.gateway.dialects.sse import EventShapes, EventSplitter, event_data, varying_texts
from affiant.gateway.dialects.strict_json import parse_json

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.lists(
    st.one_of(
        st.text(alphabet="ab{}:é \u2028\x85", max_size=8).map(lambda t: b"data: " + t.encode()),
        st.sampled_from([b": comment", b"event: x", b"id: 1", b"data", b"data:", b"retry: 5", b"data:x"]),
    ),
    max_size=4,
)
streams = st.lists(st.tuples(lines, ENDS), max_size=6).map(
    lambda events: b"".join(b"".join(line + end for line in found) + end for found, end in events)
)


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in zip(places, places[1:], strict=False)]


def split(chunks: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    last = splitter.finish()
    return [*events, *([last] if last else []), *([splitter.pending] if splitter.pending else [])]


@given(streams, st.lists(st.integers(0, 500), max_size=20))
@thorough(300)
def test_every_chunking_gives_the_same_events_and_no_byte_is_lost(data: bytes, cuts: list[int]) -> None:
    whole = split([data])
    assert split(chunked(data, cuts)) == whole
    assert split([data[i : i + 1] for i in range(len(data))]) == whole
    assert b"".join(whole) == data


@given(streams)
@thorough(300)
def test_the_openai_client_sees_the_same_data(data: bytes) -> None:
    """What the filter judges is what the client will read: the same events, the same data."""
    decoder = SSEDecoder()
    theirs = [sse.data.encode() for sse in decoder.iter_bytes(iter([data])) if sse.data]
    mine = [found for event in split([data]) if (found := event_data(event))]
    assert theirs == mine


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"data: a\n\n", b"data: b\n\n"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"data: a\r\n\r\n", b"data: b\r\n\r\n"]),
        (b"data: a\r\rdata: b\r\r", [b"data: a\r\r", b"data: b\r\r"]),
        (b"data: a\n\r\ndata: b\r\n\n", [b"data: a\n\r\n", b"data: b\r\n\n"]),
        (b"\n\ndata: a\n\n", [b"\n", b"\n", b"data: a\n\n"]),
        (b"data: a\r\n\n", [b"data: a\r\n\n"]),
        (b"data: a\r\n", [b"data: a\r\n"]),
    ],
)
def test_line_ends_in_every_mixture(data: bytes, events: list[bytes]) -> None:
    assert split([data]) == events


def test_an_event_is_not_finished_by_half_a_line_end() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\r\n\r") == ()
    assert splitter.feed(b"\n") == (b"data: a\r\n\r\n",)


def test_an_endless_event_is_refused() -> None:
    splitter = EventSplitter()
    with raises_code("upstream.event_too_large"):
        for _ in range(EVENT_MAX // 4096 + 2):
            splitter.feed(b"x" * 4096)


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("size", [1, 1000])
def test_an_event_is_bounded_however_it_arrives(size: int, beyond: int) -> None:
    splitter, event = EventSplitter(event_max=100), b"data: " + b"x" * (92 + beyond) + b"\n\n"
    chunks = [event[start : start + size] for start in range(0, len(event), size)]
    if not beyond:
        assert [each for chunk in chunks for each in splitter.feed(chunk)] == [event]
        return
    with raises_code("upstream.event_too_large"):
        for chunk in chunks:
            splitter.feed(chunk)


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\ndata: y\n\n", b"x\ny"),
        (b"\xef\xbb\xbfdata: x\n\n", b"x"),
        (b"data\n\n", b""),
        (b": comment\n\n", None),
        (b"datax: y\n\n", None),
        (b"data:  two spaces\n\n", b" two spaces"),
    ],
)
def test_data_is_read_as_a_client_reads_it(event: bytes, data: bytes | None) -> None:
    assert event_data(event) == data


def test_an_event_that_comes_in_small_pieces_costs_what_it_weighs() -> None:
    event = b"data: " + b"x" * ((1 << 20) - 8) + b"\n\n"
    splitter, started = EventSplitter(), time.monotonic()
    found = [out for at in range(0, len(event), 4) for out in splitter.feed(event[at : at + 4])]
    assert found == [event]
    assert time.monotonic() - started < 5  # with a copy of what is pending for each piece: minutes


names = st.sampled_from(["content", "Content", 'a"content', "content\\", "type", "x{", "{,"])
texts = st.one_of(
    names, st.text(max_size=6), st.sampled_from(['","content":"', '{"content":"x"}', "\u2028", "\\", '\\"'])
)
values = st.recursive(
    st.one_of(texts, st.none(), st.integers(0, 3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)


def without_texts(value: object) -> object:
    """``value`` with every text of a member ``content`` left out."""
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: "" if isinstance(each, str) and name == "content" else without_texts(each)
        for name, each in value.items()
    }


@given(st.dictionaries(names, values, max_size=4), st.booleans(), st.data())
@thorough(1000)
def test_an_event_of_a_known_shape_holds_the_same_value_but_for_the_texts(
    value: dict, plain: bool, data: st.DataObject
) -> None:
    event = b"data: " + json.dumps(value, ensure_ascii=plain).encode("utf-8", "surrogatepass") + b"\n\n"
    shapes = EventShapes(varying_texts("content"))
    shapes.add(event)
    at = data.draw(st.integers(0, len(event)))
    cut = data.draw(st.integers(0, 4))
    put = data.draw(
        st.one_of(
            st.binary(max_size=4), st.sampled_from([b"x", b'"', b'":"', b'\\"', b"\n", b"\r", "é".encode()])
        )
    )
    changed = event[:at] + put + event[at + cut :]
    if changed in shapes:
        found = event_data(changed)
        assert found is not None
        assert len(EventSplitter().feed(changed)) == 1
        try:
            assert without_texts(parse_json(found)) == without_texts(parse_json(event_data(event) or b""))
        except AffiantError:
            pytest.fail("what no reader takes for JSON has a known shape")


def test_an_event_that_is_no_utf8_has_no_known_shape() -> None:
    shapes = EventShapes(varying_texts("content"))
    shapes.add(b'data: {"content":"a"}\n\n')
    assert 'data: {"content":"é"}\n\n'.encode() in shapes
    assert b'data: {"content":"\xff"}\n\n' not in shapes


def test_no_shape_is_of_a_comment_or_of_lines_that_readers_end_differently() -> None:
    shapes = EventShapes(varying_texts("content"))
    for event in (
        b': {"content":"a"}\n\n',
        b'data: {\ndata: "content":"a"}\n\n',
        b'data: {"content":"a"}\r\n\r\n',
    ):
        shapes.add(event)
        assert event not in shapes


def test_as_many_shapes_are_kept_as_a_stream_has_forms_of_events() -> None:
    shapes = EventShapes(varying_texts("content"))
    events = [b'data: {"content":"a","n":%d}\n\n' % number for number in range(20)]
    for event in events:
        shapes.add(event)
    assert sum(event in shapes for event in events) == 8
