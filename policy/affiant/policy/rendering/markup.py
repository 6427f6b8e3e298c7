"""Writes Markdown, and text for DOT and Mermaid, in which no name of a policy is markup.

A loaded name holds no control and no invisible characters, but paths and header formats may hold pipes, brackets,
quotes and ampersands, and a file may be called anything.

>>> print(markdown_text("a|b_c"), dot_text('a"b'), mermaid_text('a"b'))
a\\|b\\_c "a\\"b" "a#34;b"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from affiant.command_line import printable

__all__ = [
    "MAX_CELL",
    "MAX_ROWS",
    "Code",
    "dot_text",
    "markdown_page",
    "markdown_table",
    "markdown_text",
    "mermaid_text",
]

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|&~!$])")
_REFERENCE: Final = re.compile(r"[@#]|(?i:(?<=https:)|(?<=http:)|(?<=ftp:))(?=//)|(?i:\bwww)(?=\.)")
"""Where forges make mentions, issues and links of plain text; a backslash does not keep them from it."""
_MERMAID: Final = re.compile(r"[^A-Za-z0-9 ._/:,-]")


def markdown_text(text: str) -> str:
    """``text`` as it may be in a paragraph or in a table's cell: on one line, no markup, no link, no mention."""
    escaped = _MARKDOWN.sub(r"\\\1", _line(text))
    return _REFERENCE.sub(lambda match: f"{match.group()}<!-- -->", escaped)


MAX_ROWS: Final = 50
"""Of one table: forges refuse comments of more than some 60,000 characters."""
MAX_CELL: Final = 300


class Code(str):
    """A word of our own, such as an error code, that a cell of a table shows as code."""

    __slots__ = ()


def markdown_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, most: int | None = None, cell: int | None = None
) -> Iterator[str]:
    """A table and the empty line after it; nothing without rows. A cell may have lines of its own.

    Args:
        most: rows; the table says how many more there are.
        cell: characters of a cell.
    """
    if not rows:
        return
    yield _row(head, None)
    yield "|" + "---|" * len(head)
    yield from (_row(row, cell) for row in rows[:most])
    if most is not None and len(rows) > most:
        yield _row([f"and {len(rows) - most} more; --json lists all", *[""] * (len(head) - 1)], None)
    yield ""


def _row(cells: Sequence[str], most: int | None) -> str:
    shown = (_cell(each, most) for each in cells)
    return "|" + "".join(f" {each} |" if each else " |" for each in shown)


def _cell(text: str, most: int | None) -> str:
    if isinstance(text, Code):
        return f"`{text}`"
    bounded = text if most is None or len(text) <= most else f"{text[:most]}..."
    return "<br>".join(map(markdown_text, bounded.split("\n")))


def markdown_page(title: str, lines: Iterable[str]) -> str:
    """A page under its title."""
    return "\n".join([f"### {markdown_text(title)}", "", *lines]).rstrip("\n") + "\n"


def dot_text(text: str) -> str:
    """``text`` as a quoted string of DOT, where a backslash begins an escape and an ampersand an entity (escString)."""
    escaped = _line(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def mermaid_text(text: str) -> str:
    """``text`` as a quoted label of Mermaid: all but plain characters are entity codes (``#34;``)."""
    return '"' + _MERMAID.sub(lambda match: f"#{ord(match.group())};", _line(text)) + '"'


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")
