"""Lines of a table: one width; what comes from a bundle made harmless and visibly quoted (trust rules, 15)."""

from __future__ import annotations

import textwrap
from typing import Final

from affiant.command_line import printable

__all__ = ["quoted", "wrapped"]

_WIDTH: Final = 100
_MAX_QUOTED: Final = 100


def wrapped(head: str, text: str) -> list[str]:
    """``text`` after ``head``, made printable, in lines of one width."""
    return textwrap.wrap(
        printable(text),
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=True,
        break_on_hyphens=False,  # ids hold hyphens, and are copied
    ) or [head]


def quoted(text: str, *, limit: int = _MAX_QUOTED) -> str:
    """A string of a bundle, or a file's name, visibly as one (trust rules, 15)."""
    return repr(printable(text, limit=limit))
