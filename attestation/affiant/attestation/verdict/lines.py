"""Lines for a terminal: a name, a value, and nothing that a hostile value could do to either.

Values that are to be compared or copied (digests, registers) stay on one line, whatever its width; prose is
wrapped at 100 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from affiant.printable import one_line, printable

__all__ = ["asked_text", "field", "heading", "hex_value", "one_line", "prose", "quoted", "wrapped"]

_WIDTH: Final = 100
_NAME: Final = 20
_ASKED: Final = {
    "session": "session {} alone",
    "from": "records from {}",
    "to": "records to {}",
    "request": "request body {}",
    "response": "response body {}",
}
_MAX_OTHERS: Final = 10


def heading(text: str) -> Iterator[str]:
    """A section's title, after an empty line."""
    yield ""
    yield text


def field(name: str, value: object, *, width: int = _NAME) -> str:
    """``name`` in a column of ``width``, and a value that stays whole."""
    return f"  {name:<{width}}{one_line(str(value))}".rstrip()


def prose(name: str, text: str, *, width: int = _NAME) -> Iterator[str]:
    """``name`` in a column of ``width``, and a text that is wrapped beside it."""
    head = f"  {name:<{width}}"
    yield from _lines(head, one_line(text)) if text else [head.rstrip()]


def wrapped(head: str, text: str) -> list[str]:
    """``text`` after ``head``, made printable, in lines of one width."""
    return _lines(head, printable(text))


def _lines(head: str, safe: str) -> list[str]:
    """The same of a text that is printable already: what is bounded twice ends in two ellipses."""
    return textwrap.wrap(
        safe,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,  # ids hold hyphens, and are copied
    ) or [head]


def quoted(text: str, *, limit: int = 100) -> str:
    """A string of a bundle, or a file's name, visibly as one (trust rules, 15)."""
    return repr(printable(text, limit=limit))


def hex_value(text: str) -> str:
    """A hexadecimal value; "all zero" for one that is, so that no reader has to count digits."""
    return f"all zero ({len(text) // 2} bytes)" if text and not text.strip("0") else text or "empty"


def asked_text(asked: Mapping[str, object]) -> str:
    """The member ``asked`` of a verdict's document; a member that this release does not know is shown too."""
    words = [text.format(quoted(str(asked[name]))) for name, text in _ASKED.items() if name in asked]
    others = [f"{quoted(name)} {quoted(str(asked[name]))}" for name in asked if name not in _ASKED]
    return "; ".join((*words, *others[:_MAX_OTHERS])) or "the whole bundle"
