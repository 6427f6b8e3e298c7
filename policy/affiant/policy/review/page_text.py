"""Texts of the review page before they are HTML: what a reader sees of a name, and links to lines.

Every string that a template prints goes through :func:`plain` first, which masks what has the form of a service's
tokens and shows control and reordering characters as escapes. What is free text in a place for secrets is left out
before: its field's type says so, not its looks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from affiant.command_line import printable
from affiant.policy.loading.shown_lines import without_tokens
from affiant.policy.rendering.terminal import middle_cut

__all__ = ["MAX_TEXT", "Link", "LongText", "PublicText", "plain", "shortened"]

MAX_TEXT: Final = 400
"""Characters of one string; of a longer one the middle is left out, visibly."""
_MAX_LONG_TEXT: Final = 2000
_MARKS: Final = 2
"""Combining characters on one letter; more would climb over other lines."""


class LongText(str):
    """A text that may have 2000 characters."""

    __slots__ = ()


class PublicText(LongText):
    """A long text of fields that hold no secret, such as approvers: nothing of it is masked."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a line of the page's source section; without a target, text beside such links."""

    text: str
    target: str | None = None


def plain(value: str) -> str:
    """``value`` on one line, harmless to look at, and bounded: :class:`LongText` by more than other strings."""
    limit = _MAX_LONG_TEXT if isinstance(value, LongText) else MAX_TEXT
    text = str(value) if isinstance(value, PublicText) else without_tokens(value)
    shown = printable(middle_cut(text, most=limit, mark="..."), limit=limit + 3).replace("\n", "\\n")
    return shown if shown.isascii() else "".join(_unstacked(shown))


def shortened(value: str, most: int) -> str:
    """:func:`plain` without its middle, if it is longer: names differ in their beginning or end."""
    return middle_cut(plain(value), most=most - 1)


def _unstacked(shown: str) -> Iterable[str]:
    stacked = 0
    for char in shown:
        stacked = stacked + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        yield char if stacked <= _MARKS else f"\\u{ord(char):04x}"
