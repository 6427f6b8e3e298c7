"""Phrases of the review page: text with words of a policy and links to lines in it, before any of it is HTML.

A phrase is a tuple of parts: a plain string, a :class:`Name` (a policy's own word) or a :class:`Link`. The templates of
``review_page`` turn phrases into HTML; every string that they print goes through :func:`plain` first, which masks what
reads like a secret and shows control and reordering characters as escapes.

>>> listed([phrase("a"), phrase(Name("b")), phrase("c")])
('a', ', ', 'b', ' and ', 'c')
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from affiant.command_line import printable
from affiant.policy.loading.shown_lines import without_values

__all__ = [
    "MAX_TEXT",
    "Link",
    "LongText",
    "Name",
    "Phrase",
    "joined",
    "listed",
    "names",
    "phrase",
    "plain",
    "shortened",
]

MAX_TEXT: Final = 400
"""Characters of one string; more are cut off, visibly."""
_MAX_LONG_TEXT: Final = 2000
_MARKS: Final = 2
"""Combining characters on one letter; more would climb over other lines."""
_NAMES: Final = 6


class Name(str):
    """A word of a policy, which the page shows in the typewriter face."""

    __slots__ = ()


class LongText(str):
    """A text that may have 2000 characters."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a line of the page's source section."""

    text: str
    target: str


Phrase = tuple[str | Link, ...]


def phrase(*parts: str | Link) -> Phrase:
    """``parts`` in their order."""
    return parts


def joined(phrases: Iterable[Phrase], between: str = ", ") -> Phrase:
    """One phrase of several."""
    found: list[str | Link] = []
    for at, each in enumerate(phrases):
        found += (between, *each) if at else each
    return tuple(found)


def listed(phrases: Iterable[Phrase]) -> Phrase:
    """``a, b and c``."""
    found = list(phrases)
    if len(found) < 2:
        return joined(found)
    return (*joined(found[:-1]), " and ", *found[-1])


def names(values: Iterable[str], *, most: int = _NAMES) -> Phrase:
    """Up to so many names, and how many more there are."""
    found = [phrase(Name(value)) for value in values]
    more = len(found) - most
    if more <= 1:  # "and 1 more" is longer than most names
        return listed(found)
    return listed([*found[:most], phrase(f"{more} more")])


def plain(value: str) -> str:
    """``value`` on one line, harmless to look at, and bounded: :class:`LongText` by more than other strings."""
    limit = _MAX_LONG_TEXT if isinstance(value, LongText) else MAX_TEXT
    shown = printable(without_values(value), limit=limit).replace("\n", "\\n")
    return shown if shown.isascii() else "".join(_unstacked(shown))


def shortened(value: str, most: int) -> str:
    """:func:`plain` without its middle, if it is longer: names differ in their beginning or end."""
    shown = plain(value)
    if len(shown) <= most:
        return shown
    kept = most - 1
    return f"{shown[: kept - kept // 2]}\u2026{shown[len(shown) - kept // 2 :]}"


def _unstacked(shown: str) -> Iterable[str]:
    stacked = 0
    for char in shown:
        stacked = stacked + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        yield char if stacked <= _MARKS else f"\\u{ord(char):04x}"
