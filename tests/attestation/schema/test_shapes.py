"""A refusal names the place at which a document leaves its closed shape, however deep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.shape_values import members
from tests.attestation.story import Story
from tests.properties import thorough

from affiant.attestation.encoding.canonical import MAX_INTEGER, canonical, parse_canonical
from affiant.attestation.schema.records import objects_with_digests, shape_of
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    MapOf,
    Nullable,
    Obj,
    Pattern,
    Shape,
    ShapeMismatch,
    Text,
)

DIGEST = "A" * 43
INNER = Obj({"n": Int(1, 9)}, sd=2, hidden={"who": Text()})
OUTER = Obj(
    {"id": Pattern("[a-z]+", "lower case"), "parts": Array(INNER)},
    {"notes": MapOf("[a-z]+", Text(4)), "version": Const(1)},
)


def inner(**changes: object) -> dict[str, object]:
    return {"n": 1, "_sd": [DIGEST, "B" * 43], **changes}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([], "doc"),
        ({"parts": []}, "doc"),
        ({"id": "A", "parts": []}, "doc.id"),
        ({"id": "a", "parts": {}}, "doc.parts"),
        ({"id": "a", "parts": [inner(), inner(n=0)]}, "doc.parts[1].n"),
        ({"id": "a", "parts": [inner(n=True)]}, "doc.parts[0].n"),
        ({"id": "a", "parts": [inner(more=1)]}, "doc.parts[0]"),
        ({"id": "a", "parts": [{"n": 1}]}, "doc.parts[0]"),
        ({"id": "a", "parts": [inner(_sd=[DIGEST])]}, "doc.parts[0]"),
        ({"id": "a", "parts": [inner(_sd=[DIGEST, DIGEST])]}, "doc.parts[0]"),
        ({"id": "a", "parts": [inner(_sd=["B" * 43, DIGEST])]}, "doc.parts[0]"),
        ({"id": "a", "parts": [inner(_sd=[DIGEST, 1])]}, "doc.parts[0]._sd"),
        ({"id": "a", "parts": [inner(_sd=None)]}, "doc.parts[0]"),
        ({"id": "a", "parts": [], "notes": {"x": "12345"}}, "doc.notes.x"),
        ({"id": "a", "parts": [], "notes": {"X": "1"}}, "doc.notes"),
        ({"id": "a", "parts": [], "version": True}, "doc.version"),
        ({"id": "a", "parts": [], "_sd": []}, "doc"),
    ],
)
def test_a_refusal_names_the_place(value: object, where: str) -> None:
    with pytest.raises(ShapeMismatch) as refusal:
        OUTER.check(value, "doc")
    assert refusal.value.where == where


def test_what_the_shape_lists_is_accepted() -> None:
    OUTER.check({"id": "a", "parts": [inner()], "notes": {"x": "1234"}, "version": 1}, "doc")


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (OUTER, {"parts"}),
        (Obj({"a": Obj({"b": Array(INNER)})}), {"a"}),
        (Obj({"a": Array(Int())}, {"b": INNER}), {"b"}),
        (INNER, set[str]()),
    ],
)
def test_the_members_in_which_digests_stand_are_known(shape: Obj, names: set[str]) -> None:
    found: Mapping[str, Shape] = shape.concealing
    assert set(found) == names


def compiled(shape: Obj) -> Obj:
    shape.compile()
    return shape


SNIPPETS = [*'",:{}[]\\ 019-.eE_aAzZ~', "\x00", "\x7f", "\x85", "\u2028", "é", "\U0001f600", "null", "true"]
SNIPPETS += ['"_sd":[', '","', '\\"', "\\u0061", '"x":1,', ',"a":"b"', "{}", "[]", "00", "9" * 17]


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """``text`` with some of it taken out, doubled, moved or replaced."""
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece, at = text[start:end], draw(st.integers(0, len(text)))
        new = draw(st.sampled_from(["", piece + piece, piece[::-1]]) | st.sampled_from(SNIPPETS))
        text = text[:start] + new + text[end:] if draw(st.booleans()) else text[:at] + piece + text[at:]
    return text


def ordered(value: Any, shape: Obj) -> Any:
    """``value`` with its digests in order, and all different."""
    for _, node, _ in objects_with_digests(value, shape):
        node["_sd"] = sorted(f"{at:043}" for at, _ in enumerate(node["_sd"]))
    return value


def of_a_session() -> dict[str, Mapping[str, Any]]:
    """A payload of every kind and signer that a session has, unchanged."""
    story = Story().tell()
    made = [record.payload for record in [*story.gateway_records, *story.session_records]]
    return {f"{payload['kind']} by {payload['role']}": payload for payload in made}


TOLD = of_a_session()


def shape_for(payload: Mapping[str, Any]) -> Obj:
    return compiled(shape_of(payload["kind"], role=payload["role"], cls=payload["cls"]))


@thorough(300)
@given(st.sampled_from(sorted(TOLD)).map(TOLD.get), st.data())
def test_what_a_compiled_record_admits_is_canonical_and_of_its_shape(
    payload: Mapping[str, Any], data: st.DataObject
) -> None:
    shape = shape_for(payload)
    text = data.draw(edited(canonical(payload).decode()))
    if shape.admits(text):
        shape.check(ordered(parse_canonical(text.encode()), shape), "")


@thorough(300)
@given(st.deferred(lambda: members(EVERY)), st.data())
def test_what_any_compiled_object_admits_is_canonical_and_of_its_shape(
    value: dict[str, Any], data: st.DataObject
) -> None:
    value["obj"]["_sd"] = [DIGEST]
    text = data.draw(edited(canonical(value).decode()))
    if EVERY.admits(text):
        EVERY.check(ordered(parse_canonical(text.encode()), EVERY), "")


@pytest.mark.parametrize("payload", TOLD.values(), ids=TOLD)
def test_every_record_of_a_session_is_admitted_as_it_is(payload: Mapping[str, Any]) -> None:
    several = (
        payload["kind"] == "session-close" and len(payload["out"]) > 1
    )  # of a map at most one is admitted
    assert shape_for(payload).admits(canonical(payload).decode()) is not several


EVERY = compiled(
    Obj(
        {
            "text": Text(4),
            "pattern": Pattern("[a-c]{2}|x-[0-9]+", "a pattern"),
            "const": Const(7),
            "enum": Enum(("a", "b.c")),
            "int": Int(0, 999),
            "null": Nullable(Int()),
            "array": Array(Int(0, 9), least=1, most=2),
            "map": MapOf("[a-z]+", Text(1)),
            "obj": Obj({}, {"b": Int()}, sd=1),
        },
        {"aa": Int(), "zz": Text(1)},
    )
)
VALUE = {
    "text": "é~ü",
    "pattern": "x-12",
    "const": 7,
    "enum": "b.c",
    "int": 999,
    "null": None,
    "array": [1, 2],
    "map": {"a": "b"},
    "obj": {"_sd": [DIGEST]},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aa": 1, "zz": "\U0001f600"},
        {"null": 10**15 - 1, "array": [0], "map": {}, "obj": {"_sd": [DIGEST], "b": 0}},
    ],
)
def test_usual_values_are_admitted(changes: dict[str, object]) -> None:
    assert EVERY.admits(canonical(VALUE | changes).decode())


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "12345"},
        {"text": ""},
        {"text": "a\x7f"},
        {"text": "a\u0085"},
        {"pattern": "abc"},
        {"pattern": "ab\n"},
        {"const": "7"},
        {"const": 77},
        {"enum": "b+c"},
        {"enum": "bxc"},
        {"int": 1000},
        {"int": -1},
        {"int": True},
        {"null": ""},
        {"null": MAX_INTEGER + 1 - 1},  # rightly of its shape: judged the long way
        {"array": []},
        {"array": [1, 2, 3]},
        {"array": [10]},
        {"map": {"A": "b"}},
        {"map": {"a": "bb"}},
        {"map": {"a": "b", "c": "d"}},  # likewise
        {"obj": {}},
        {"obj": {"_sd": []}},
        {"obj": {"_sd": [DIGEST, DIGEST]}},
        {"obj": {"_sd": [DIGEST[1:]]}},
        {"obj": {"_sd": [DIGEST], "c": 0}},
        {"more": 1},
        {"aa": None},
    ],
)
def test_other_values_are_not_admitted(changes: dict[str, object]) -> None:
    assert not EVERY.admits(canonical(VALUE | changes).decode())


@pytest.mark.parametrize("name", sorted(VALUE))
def test_no_member_may_be_missing(name: str) -> None:
    text = canonical({each: value for each, value in VALUE.items() if each != name}).decode()
    assert not EVERY.admits(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("[^a]+", '{"a":"x","b":"y"}'),
        (".+", '{"a":"x","b":"y"}'),
        (r"[\x21-\x7e]+", '{"a":"x","b":"y"}'),
        (r"\S+", '{"a":"x","b":"y"}'),
        ("[!-~]+", '{"a":"x","b":"y"}'),
        ('x"?[a-z:",]*', '{"a":"x","b":"y"}'),
    ],
)
def test_no_pattern_reads_beyond_the_end_of_a_text(pattern: str, text: str) -> None:
    """A pattern of one member that matches quotation marks would take the next member for a part of it."""
    shape = compiled(Obj({"a": Pattern(pattern, "")}, {"b": Int()}))
    assert re.fullmatch(f'{{"a":"{pattern}"}}', text)
    assert not shape.admits(text)


def test_text_with_an_escape_is_not_admitted() -> None:
    """A backslash could be what the pattern takes, and hide where the text ends."""
    shape = compiled(Obj({"a": Pattern("[A-z]+", "")}, {"b": Text()}))
    assert shape.admits('{"a":"x"}')
    for text in ('{"a":"x\\"}', '{"a":"x\\","b":"y"}', '{"a":"x","b":"\\u0061"}'):
        assert not shape.admits(text)


def test_an_object_that_was_not_compiled_admits_nothing_and_still_encodes() -> None:
    shape = Obj({"a": Int()})
    assert not shape.admits('{"a":1}')
    assert shape.encode({"a": 1}, "doc", ordered=True) == b'{"a":1}'


@pytest.mark.parametrize("shape", [INNER, compiled(Obj({"n": Int(0, 9)}, sd=2))])
def test_encoding_refuses_what_the_check_refuses(shape: Obj) -> None:
    unsorted = inner(_sd=["B" * 43, DIGEST])
    for value in (inner(n=-1), inner(n=1.0), inner(n={1}), inner(more=1), [], unsorted):
        with pytest.raises(ShapeMismatch):
            shape.encode(value, "doc", ordered=value is not unsorted)
    assert shape.encode(inner(), "doc", ordered=True) == canonical(inner())
