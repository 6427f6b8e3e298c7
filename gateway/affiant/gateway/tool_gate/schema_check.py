"""Arguments against the schema that a tool's own server gives, before anything is sent.

A part of JSON Schema 2020-12, decided in bounded steps: types, members, values, bounds, and references within the
schema. What is in another keyword is left to the server, which judges its arguments itself. Regular expressions
are left out on purpose: they are the server's, and a hostile one would hold up the gateway.

>>> fits({"n": 6}, {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}})
False
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["fits"]

_MAX_STEPS: Final = 20_000
_MAX_DEPTH: Final = 64
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def fits(value: object, schema: Mapping[str, object]) -> bool:
    """Whether ``value`` fits ``schema``; not, where that cannot be decided in bounded steps."""
    check = _Check(schema)
    try:
        return check.fits(value, schema, 0)
    except _Undecided:
        return False


class _Undecided(Exception):
    """Too many steps, or a reference that leads nowhere."""


class _Check:
    """One decision under way."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._steps = 0

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > _MAX_STEPS:
            raise _Undecided

    def fits(self, value: object, schema: object, depth: int) -> bool:
        self._step()
        if depth > _MAX_DEPTH:
            raise _Undecided
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise _Undecided
        if "$ref" in schema and not self.fits(value, self._referred(schema["$ref"]), depth + 1):
            return False
        return (
            self._of_type(value, schema.get("type"))
            and ("const" not in schema or self._same(value, schema["const"]))
            and ("enum" not in schema or any(self._same(value, each) for each in _listed(schema["enum"])))
            and self._combined(value, schema, depth)
            and self._inside(value, schema, depth)
        )

    def _referred(self, pointer: object) -> object:
        """The schema at a JSON pointer of this document (RFC 6901); no other document is ever read."""
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
            raise _Undecided
        found: object = self._root
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _Undecided
            found = found[name]
        return found

    def _of_type(self, value: object, kinds: object) -> bool:
        if kinds is None:
            return True
        return any(_is(value, kind) for kind in (kinds if isinstance(kinds, list) else [kinds]))

    def _combined(self, value: object, schema: Mapping[str, object], depth: int) -> bool:
        for keyword, decide in (("allOf", all), ("anyOf", any)):
            if keyword in schema and not decide(
                [self.fits(value, each, depth + 1) for each in _listed(schema[keyword])]
            ):
                return False
        if "oneOf" in schema:
            return sum(self.fits(value, each, depth + 1) for each in _listed(schema["oneOf"])) == 1
        return True

    def _inside(self, value: object, schema: Mapping[str, object], depth: int) -> bool:
        if isinstance(value, dict):
            return self._members(value, schema, depth)
        if isinstance(value, list):
            items = schema.get("items", True)
            return _sized(len(value), schema, "minItems", "maxItems") and all(
                self.fits(each, items, depth + 1) for each in value
            )
        if isinstance(value, str):
            return _sized(len(value), schema, "minLength", "maxLength")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return (
                _sized(value, schema, "minimum", "maximum")
                and not _at(value, schema, "exclusiveMinimum")
                and not _at(value, schema, "exclusiveMaximum")
                and _sized(value, schema, "exclusiveMinimum", "exclusiveMaximum")
            )
        return True

    def _members(self, value: Mapping[str, object], schema: Mapping[str, object], depth: int) -> bool:
        required, known = _listed(schema.get("required", [])), schema.get("properties", {})
        if not isinstance(known, dict) or not all(isinstance(name, str) for name in required):
            raise _Undecided
        self._step(len(required))
        if any(name not in value for name in required):
            return False
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        return _sized(len(value), schema, "minProperties", "maxProperties") and all(
            self.fits(item, known.get(name, others), depth + 1) for name, item in value.items()
        )

    def _same(self, value: object, other: object) -> bool:
        """Equal as JSON: ``true`` is not ``1``, at any depth. Each item that is compared is a step."""
        self._step()
        if isinstance(value, dict) and isinstance(other, dict):
            return value.keys() == other.keys() and all(
                self._same(value[name], other[name]) for name in value
            )
        if isinstance(value, list) and isinstance(other, list):
            return len(value) == len(other) and all(map(self._same, value, other))
        return value == other and isinstance(value, bool) == isinstance(other, bool)


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _Undecided
    return value


def _is(value: object, kind: object) -> bool:
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _Undecided
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _sized(size: float, schema: Mapping[str, object], least: str, most: str) -> bool:
    low, high = _number(schema.get(least)), _number(schema.get(most))
    return (low is None or size >= low) and (high is None or size <= high)


def _at(value: float, schema: Mapping[str, object], bound: str) -> bool:
    return bound in schema and value == _number(schema[bound])


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Undecided
    return value
