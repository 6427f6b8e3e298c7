"""What reports about policies share: a place in SARIF 2.1.0, a log of SARIF 2.1.0."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["sarif_location", "sarif_log"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_location(uri: str, place: str) -> Mapping[str, object]:
    """The ``location`` of ``source:line:column``, or of the file ``uri`` where ``place`` has no numbers."""
    located: dict[str, object] = {"artifactLocation": {"uri": uri}}
    numbers = place.rsplit(":", 2)[1:]
    if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
        located["region"] = {"startLine": int(numbers[0]), "startColumn": int(numbers[1])}
    return {"physicalLocation": located}


def sarif_log(
    *,
    tool: str,
    rules: Sequence[Mapping[str, object]],
    results: Sequence[Mapping[str, object]],
    properties: Mapping[str, object],
) -> str:
    """A log with one run of ``tool``, as a file's text."""
    run = {
        "tool": {"driver": {"name": tool, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": properties,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"
