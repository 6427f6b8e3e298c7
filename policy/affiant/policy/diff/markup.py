"""Names of a policy as they stand in Markdown, DOT and Mermaid: nothing in them is markup there.

A loaded name holds no control and no invisible characters, but paths and header formats may hold pipes, brackets,
quotes and ampersands, and a file may be called anything.

>>> print(markdown_text("a|b_c"), dot_text('a"b'), mermaid_text('a"b'))
a\\|b\\_c "a\\"b" "a#34;b"
"""

from __future__ import annotations

import re
from typing import Final

from affiant.command_line import printable

__all__ = ["dot_text", "markdown_text", "mermaid_text"]

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|&~!$])")
_REFERENCE: Final = re.compile(r"[@#]|(?i:(?<=https:)|(?<=http:)|(?<=ftp:))(?=//)|(?i:\bwww)(?=\.)")
"""Where forges make mentions, issues and links of plain text; a backslash does not keep them from it."""
_MERMAID: Final = re.compile(r"[^A-Za-z0-9 ._/:,-]")


def markdown_text(text: str) -> str:
    """``text`` as it may stand in a paragraph or in a table's cell: on one line, no markup, no link, no mention."""
    escaped = _MARKDOWN.sub(r"\\\1", _line(text))
    return _REFERENCE.sub(lambda match: f"{match.group()}<!-- -->", escaped)


def dot_text(text: str) -> str:
    """``text`` as a quoted string of DOT, where a backslash begins an escape and an ampersand an entity (escString)."""
    escaped = _line(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def mermaid_text(text: str) -> str:
    """``text`` as a quoted label of Mermaid: all but plain characters are entity codes (``#34;``)."""
    return '"' + _MERMAID.sub(lambda match: f"#{ord(match.group())};", _line(text)) + '"'


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")
