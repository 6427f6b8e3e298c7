"""Writes recorded decisions as rows of a table for people, the request last because of its length. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from affiant.command_line import printable
from affiant.policy.decision.questions import plane_of
from affiant.policy.decision_log.reader import MAX_LINE, RecordedDecision

__all__ = ["HEADINGS", "Row", "decision_row"]

Row = tuple[str, ...]
"""A text for each of :data:`HEADINGS`."""

HEADINGS: Final[Row] = ("time", "agent", "plane", "decision", "reason", "rule", "request")
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


def _escaped(text: str) -> str:
    return printable(text, limit=MAX_LINE).replace("\n", "\\u000a")


def _time(ts: int | None) -> str:
    if ts is None:
        return _UNKNOWN
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ts <= _LAST_SECOND else str(ts)
