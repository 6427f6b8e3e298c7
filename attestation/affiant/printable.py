"""Makes text safe to print: a terminal is never steered by what somebody else wrote."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, *, limit: int = 2000) -> str:
    """``text`` without control, bidirectional or other invisible characters (shown escaped), bounded."""
    shown = "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text[:limit])
    return shown if len(text) <= limit else shown + "..."


def _escaped(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
