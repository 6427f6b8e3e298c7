"""Holds an event against a compiled OCSF schema, by the rules of OCSF's own documentation of a valid event.

The schema is a file as ``ocsf-schema-compiler`` writes it of a release of ``github.com/ocsf/ocsf-schema``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "boolean_t": (bool,),
    "float_t": (int, float),
    "integer_t": (int,),
    "long_t": (int,),
    "string_t": (str,),
}


class OCSFSchema:
    """One version of the schema."""

    def __init__(self, path: Path) -> None:
        self._schema = json.loads(path.read_text())
        self.version: str = self._schema["version"]
        self._classes = {each["uid"]: each for each in self._schema["classes"].values()}
        self._types = self._schema["dictionary"]["types"]["attributes"]

    def faults(self, event: Mapping[str, Any]) -> list[str]:
        """Everything that the schema says against ``event``."""
        found = self._classes.get(event.get("class_uid", -1))
        if found is None:
            return [f"no such class: {event.get('class_uid')}"]
        profiles = frozenset(event.get("metadata", {}).get("profiles", ()))
        unknown = profiles - set(found["profiles"])
        faults = [f"metadata.profiles: {sorted(unknown)}"] if unknown else []
        if event["type_uid"] != event["class_uid"] * 100 + event["activity_id"]:
            faults.append("type_uid")
        return [*faults, *self._object("", event, found, profiles)]

    def _object(
        self, where: str, value: Mapping[str, Any], rules: Mapping[str, Any], profiles: frozenset[str]
    ) -> Iterator[str]:
        attributes = {
            name: each
            for name, each in rules["attributes"].items()
            if not each.get("profiles") or profiles & set(each["profiles"])
        }
        yield from (f"{where}{name}: unknown" for name in value if name not in attributes)
        for name, each in attributes.items():
            if name in value:
                yield from self._attribute(f"{where}{name}", value[name], each, profiles)
                yield from self._sibling(where, name, value, each)
            elif each.get("requirement") == "required":
                yield f"{where}{name}: required"
        for kind, names in rules.get("constraints", {}).items():
            present = sum(name in value for name in names)
            if present == 0 or (kind == "just_one" and present != 1):
                yield f"{where}: {kind} of {names}"

    def _attribute(
        self, where: str, value: Any, rules: Mapping[str, Any], profiles: frozenset[str]
    ) -> Iterator[str]:
        if "@deprecated" in rules:
            yield f"{where}: deprecated"
        if rules.get("is_array"):
            if not isinstance(value, list):
                yield f"{where}: no list"
                return
            for number, each in enumerate(value):
                yield from self._value(f"{where}[{number}]", each, rules, profiles)
        else:
            yield from self._value(where, value, rules, profiles)

    def _value(
        self, where: str, value: Any, rules: Mapping[str, Any], profiles: frozenset[str]
    ) -> Iterator[str]:
        if rules["type"] == "json_t" or rules.get("object_type") == "object":
            return
        if rules["type"] == "object_t":
            if isinstance(value, Mapping):
                yield from self._object(
                    f"{where}.", value, self._schema["objects"][rules["object_type"]], profiles
                )
            else:
                yield f"{where}: no object"
            return
        yield from self._scalar(where, value, rules["type"])
        if "enum" in rules and str(value) not in rules["enum"]:
            yield f"{where}: {value!r} is none of {list(rules['enum'])}"

    def _scalar(self, where: str, value: Any, name: str) -> Iterator[str]:
        rules: Mapping[str, Any] = self._types[name]
        expected = _JSON_TYPES[rules.get("type", name)] if name not in _JSON_TYPES else _JSON_TYPES[name]
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            yield f"{where}: {value!r} is no {name}"
            return
        if "regex" in rules and re.search(rules["regex"], value) is None:
            yield f"{where}: {value!r} is no {name}"
        if "max_len" in rules and len(value) > rules["max_len"]:
            yield f"{where}: too long"
        low, high = rules.get("range", (None, None))
        if low is not None and not low <= value <= high:
            yield f"{where}: {value} out of range"
        if name in ("long_t", "timestamp_t") and not -(1 << 63) <= value < 1 << 63:
            yield f"{where}: {value} is no 64-bit integer"

    def _sibling(
        self, where: str, name: str, value: Mapping[str, Any], rules: Mapping[str, Any]
    ) -> Iterator[str]:
        sibling: str | None = rules.get("sibling")
        if sibling is None or sibling not in value or value[name] == 99:
            return
        enum: Mapping[str, Mapping[str, str]] = rules.get("enum", {})
        caption = enum.get(str(value[name]), {}).get("caption")
        if caption is not None and caption != value[sibling]:
            yield f"{where}{sibling}: {value[sibling]!r} is not {caption!r}"


def all_paths(value: Any) -> Sequence[Any]:
    """Every scalar in a document."""
    if isinstance(value, Mapping):
        return [each for member in value.values() for each in all_paths(member)]
    if isinstance(value, list):
        return [each for member in value for each in all_paths(member)]
    return [value]
