"""Recorded decisions as a table for people: one row each, as they come. Pure.

Columns are aligned within what was seen so far: a width grows with the longest text of a block of rows, up to a bound,
and never shrinks. The request, which may be of any length, stands last. Nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from affiant.command_line import printable
from affiant.policy.decision.questions import plane_of
from affiant.policy.decision_log.reader import MAX_LINE, RecordedDecision

__all__ = ["HEADINGS", "Row", "aligned", "decision_row"]

Row = tuple[str, ...]
"""A text for each of :data:`HEADINGS`."""

HEADINGS: Final[Row] = ("time", "agent", "plane", "decision", "reason", "rule", "request")
_WIDEST: Final = 40
"""Of a column: one long name shall not push all others off the screen."""
_LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999."""
_UNKNOWN: Final = "-"


def decision_row(recorded: RecordedDecision, *, places: Mapping[str, str] | None = None) -> Row:
    """One row; nothing in it is more than text to a terminal."""
    found = places or {}
    rules = ", ".join(f"{rule} {found[rule]}" if rule in found else rule for rule in recorded.rules)
    shown = (
        _time(recorded.ts),
        recorded.agent or _UNKNOWN,
        plane_of(recorded.question),
        recorded.enforced.value,
        recorded.reason,
        rules or _UNKNOWN,
        recorded.request + (" (offered)" if recorded.offered else ""),
    )
    return tuple(text if text.isprintable() else _escaped(text) for text in shown)


def aligned(rows: Iterable[Row], *, block: int) -> Iterator[str]:
    """Lines, the headings first, if there is any row.

    Args:
        block: rows that are read before the first of them is given out; 1: each at once.
    """
    widths = [len(heading) for heading in HEADINGS]
    each = iter(rows)
    first = True
    while taken := list(islice(each, block)):
        for row in taken:
            widths = [max(width, min(len(text), _WIDEST)) for width, text in zip(widths, row, strict=True)]
        if first:
            yield _line(HEADINGS, widths)
            first = False
        yield from (_line(row, widths) for row in taken)


def _line(row: Row, widths: Sequence[int]) -> str:
    before = [text.ljust(width) for text, width in zip(row[:-1], widths, strict=False)]
    return "  ".join([*before, row[-1]])


def _escaped(text: str) -> str:
    return printable(text, limit=MAX_LINE).replace("\n", "\\u000a")


def _time(ts: int | None) -> str:
    if ts is None:
        return _UNKNOWN
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ts <= _LAST_SECOND else str(ts)
