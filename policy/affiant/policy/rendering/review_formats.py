"""Writes reports for code review pages and CI: SARIF 2.1.0 and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from affiant.command_line import printable

__all__ = ["JUnitCase", "junit_report", "sarif_location", "sarif_log"]

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


class JUnitCase(NamedTuple):
    """A test: its group and name, and why it failed; None where it holds."""

    group: str
    name: str
    failure: str | None


def junit_report(suites: Sequence[tuple[str, Sequence[JUnitCase]]]) -> str:
    """The suites that have cases, as a file's text."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for name, cases in suites:
        if cases:
            failures = sum(case.failure is not None for case in cases)
            counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="0"'
            lines += [f"  <testsuite name={quoteattr(name)} {counts}>", *map(_case, cases), "  </testsuite>"]
    return "\n".join([*lines, "</testsuites>", ""])


def _case(case: JUnitCase) -> str:
    names = f"classname={quoteattr(printable(case.group))} name={quoteattr(printable(case.name))}"
    if case.failure is None:
        return f"    <testcase {names}/>"
    text = printable(case.failure)
    return f"    <testcase {names}><failure message={quoteattr(text)}>{escape(text)}</failure></testcase>"
