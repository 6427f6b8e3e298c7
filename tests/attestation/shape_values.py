"""Anything that a shape allows, for property tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from hypothesis import strategies as st

from affiant.attestation.schema.shapes import Array, Const, Enum, Int, MapOf, Nullable, Obj, Pattern, Text


def values(shape: object) -> st.SearchStrategy[Any]:
    """Anything of ``shape``."""
    match shape:
        case Const(value):
            return st.just(value)
        case Enum(texts):
            return st.sampled_from(texts)
        case Int(least, most):
            return st.integers(least, most)
        case Text(limit):
            return st.text(
                st.characters(codec="utf-8", categories=["L", "N", "P", "S"]),
                min_size=1,
                max_size=min(8, limit),
            )
        case Pattern(pattern):
            return st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))
        case Nullable(inner):
            return st.none() | values(inner)
        case Array(item, least, most):
            return st.lists(values(item), min_size=least, max_size=min(2, most))
        case MapOf(name, item):
            names = st.from_regex(name, fullmatch=True, alphabet=st.characters(codec="ascii"))
            return st.dictionaries(names, values(item), max_size=2)
        case Obj():
            return members(shape)
        case _:
            assert_never(shape)  # type: ignore[arg-type]


def members(shape: Obj, without: frozenset[str] = frozenset()) -> st.SearchStrategy[dict[str, Any]]:
    def of(named: Mapping[str, object]) -> dict[str, st.SearchStrategy[Any]]:
        return {name: values(each) for name, each in named.items() if name not in without}

    return st.fixed_dictionaries(of(shape.required), optional=of(shape.optional))
