"""A refusal names the place at which a document leaves its closed shape, however deep."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Int,
    MapOf,
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
