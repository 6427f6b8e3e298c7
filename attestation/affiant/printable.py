"""Makes text safe to print: a terminal is never steered by text from others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["cell", "one_line", "printable", "shown_time"]

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet takes a cell that begins so for a formula (CWE-1236); the last four are full-width."""


def printable(text: str, *, limit: int = 2000) -> str:
    """``text`` without control, bidirectional or other invisible characters (shown escaped), bounded."""
    shown = "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text[:limit])
    return shown if len(text) <= limit else shown + "..."


def one_line(text: str, *, limit: int = 2000) -> str:
    """``text`` with everything escaped that could move the cursor, the line or the reading direction."""
    return printable(text, limit=limit).replace("\n", "\\n")


def cell(value: object) -> str:
    """``value`` as a cell of a CSV file that is text wherever it is opened: an apostrophe before what would be run."""
    text = "" if value is None else one_line(str(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def shown_time(seconds: int) -> str:
    """RFC 3339 in UTC; the number itself where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _escaped(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
