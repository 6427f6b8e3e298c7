"""Arguments against a server's schema: as jsonschema decides, and never longer than a bound."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.gateway.tool_gate.schema_check import fits

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 6)
    | st.sampled_from([0.5, 2.0])
    | st.sampled_from(["", "a", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)
NEARLY = json.loads(f"[{'0.5,' * 11_999}1]")
TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:
    inner = schemas(depth - 1) if depth else st.booleans()
    keywords = {
        "type": st.sampled_from(TYPES)
        | st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": st.integers(0, 3),
        "exclusiveMaximum": st.integers(0, 5),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
        "additionalProperties": inner,
        "items": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "$ref": st.just("#/$defs/d"),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True))
    return {name: draw(keywords[name]) for name in chosen}


@thorough(60)
@given(schema=schemas(), definition=schemas(depth=0), value=VALUES)
def test_it_decides_as_jsonschema_does(schema: dict[str, Any], definition: Any, value: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: make setup")
    if isinstance(definition, dict):
        definition.pop("$ref", None)
    whole = {**schema, "$defs": {"d": definition}}
    assert fits(value, whole) is jsonschema.Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"},
        {
            "$defs": {
                **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 4} for n in range(40)},
                "d40": True,
            },
            "$ref": "#/$defs/d0",
        },
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/nowhere"},
        {"$ref": 5},
        {"type": "text"},
        {"properties": []},
        {"required": "a"},
        {"minProperties": "1"},
        {"enum": {}},
        {"anyOf": [[]]},
    ],
)
def test_what_cannot_be_decided_in_bounded_steps_does_not_fit(schema: dict[str, Any]) -> None:
    began = time.monotonic()
    assert not fits({"a": 1}, schema)
    assert time.monotonic() - began < 2


def doubled(schema: dict[str, Any], times: int = 13) -> dict[str, Any]:
    """A schema that asks for ``schema`` 2**times times."""
    parts = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(times)}
    return {"$defs": {**parts, f"d{times}": schema}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"a": 1}, {"required": [*["a"] * 15_000, "b"]}),
        ([0.5] * 12_000, {"enum": [NEARLY, NEARLY]}),
        ([0.5] * 12_000, {"const": NEARLY}),
    ],
)
def test_neither_long_lists_of_names_nor_long_values_hold_up_the_gateway(
    value: Any, schema: dict[str, Any]
) -> None:
    began = time.monotonic()
    assert not fits(value, doubled(schema))
    assert time.monotonic() - began < 0.5


@pytest.mark.parametrize("names", [[[]], [{}], [1], [None, "a"]])
def test_names_that_are_no_text_decide_nothing(names: list[Any]) -> None:
    assert not fits({"a": 1}, {"required": names})


def test_true_is_not_one_at_any_depth() -> None:
    assert not fits([True], {"const": [1]})
    assert not fits({"a": [0]}, {"enum": [{"a": [False]}]})
    assert fits({"a": [1.0, True]}, {"const": {"a": [1, True]}})


def test_a_regular_expression_of_a_server_is_never_run() -> None:
    assert fits({"a": "a" * 64 + "!"}, {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
