"""RFC 8785 over the closed set of values, held against the reference implementation."""

from __future__ import annotations

import json
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.encoding.canonical import (
    MAX_INTEGER,
    JSONError,
    canonical,
    parse_canonical,
    parse_strict,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_it_agrees_with_the_reference_implementation(value: object) -> None:
    assert canonical(value) == rfc8785.dumps(value)


class Word(StrEnum):
    B = "b"
    A = "a"


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (MappingProxyType({"b": 1, "a": (2,)}), {"a": [2], "b": 1}),
        ({Word.B: Word.A, Word.A: [MappingProxyType({})]}, {"a": [{}], "b": "a"}),
        ([IntEnum("One", ["ONE"]).ONE, True], [1, True]),
        (
            {"\uffff": 1, "\U00010000": 2, "z": {"y": 3, "x": 4}},
            {"z": {"x": 4, "y": 3}, "\U00010000": 2, "\uffff": 1},
        ),
    ],
    ids=["mapping", "enums", "numbers", "names beyond the basic plane"],
)
def test_values_that_only_behave_like_plain_ones_have_the_same_form(value: object, same: object) -> None:
    assert canonical(value) == rfc8785.dumps(same)


@given(VALUES)
def test_what_is_written_is_read_again(value: object) -> None:
    assert parse_canonical(canonical(value)) == value


@given(VALUES)
def test_any_other_layout_is_refused(value: object) -> None:
    loose = json.dumps(value, indent=1).encode()
    if loose != canonical(value):
        with pytest.raises(JSONError):
            parse_canonical(loose)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":9007199254740992}',
        b'{"a":-9007199254740992}',
        b'{"a":01}',
        b'{"a":-0}',
        b'{"\\u0061":1}',
        b'{"a":"\\u0041"}',
        b'{"a":1}\n',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":"\xff"}',
        b"[1,]",
        b"",
        b'{"a":"\\ud800"}',
    ],
)
def test_every_other_spelling_is_refused(text: bytes) -> None:
    with pytest.raises(JSONError):
        parse_canonical(text)


@pytest.mark.parametrize("text", [b'{"a":1,"a":2}', b'{"a":1.5}', b'{"a":' + b"9" * 400 + b"}"])
def test_strict_reading_refuses_what_readers_disagree_about(text: bytes) -> None:
    with pytest.raises(JSONError):
        parse_strict(text)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_deep_nesting_is_refused_before_it_is_parsed(opening: bytes) -> None:
    with pytest.raises(JSONError, match="nested too deep"):
        parse_strict(opening * 100_000)


def test_brackets_inside_strings_are_text() -> None:
    assert parse_strict(b'["' + b"[{" * 500 + b'","\\"[[[["]') == ["[{" * 500, '"[[[[']


def test_size_is_bounded() -> None:
    with pytest.raises(JSONError, match="too large"):
        parse_strict(b'"' + b"a" * 100 + b'"', limit=50)


@pytest.mark.parametrize("value", [1.0, {1: 2}, {"a": b"x"}, 2**53, object(), {"a": {1, 2}}])
def test_values_outside_the_closed_set_have_no_form(value: object) -> None:
    with pytest.raises(JSONError):
        canonical(value)


@given(st.binary(max_size=200))
def test_no_input_causes_anything_but_a_typed_refusal(data: bytes) -> None:
    try:
        parse_canonical(data)
    except JSONError:
        pass


@given(st.integers(1, 40), st.sampled_from([b"[", b'{"a":']), st.integers(0, 60))
def test_the_bound_is_the_same_for_short_and_long_documents(
    depth: int, opening: bytes, siblings: int
) -> None:
    closing = b"]" if opening == b"[" else b"}"
    text = (
        b"[" + b",".join([b"[]"] * siblings + [opening * (depth - 1) + b"0" + closing * (depth - 1)]) + b"]"
    )
    if depth <= 32:
        parse_strict(text)
    else:
        with pytest.raises(JSONError, match="nested too deep"):
            parse_strict(text)
