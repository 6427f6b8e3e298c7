"""Elements of the page. What is markup has a type of its own, so that no string of a policy can become any by mistake.

A string becomes :data:`Html` in :func:`text` alone (or in :func:`name`, for a policy's own words): what reads like a
secret masked, control and reordering characters shown as escapes, bounded, then escaped for HTML. Attributes are
ours: element ids and targets are numbers, never names.

>>> element("p", text("<b> & "), name("x"), cls="dim")
'<p class="dim">&lt;b&gt; &amp; <code>x</code></p>'
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape
from typing import Final, NewType

from affiant.command_line import printable
from affiant.policy.loading.shown_lines import without_values

__all__ = [
    "NOTHING",
    "Html",
    "element",
    "heading",
    "joined",
    "listed",
    "name",
    "names",
    "plain",
    "shortened",
    "text",
]

Html = NewType("Html", str)
"""Markup: whatever came from outside is escaped in it."""

NOTHING: Final = Html("")
_MAX_TEXT: Final = 400
_MARKS: Final = 2
"""Combining characters on one letter; more would climb over other lines."""
_NAMES: Final = 6


def plain(value: str, *, limit: int = _MAX_TEXT) -> str:
    """``value`` on one line, harmless to look at: not yet markup.

    Args:
        limit: characters; more are cut off, visibly.
    """
    shown = printable(without_values(value), limit=limit).replace("\n", "\\n")
    return shown if shown.isascii() else "".join(_unstacked(shown))


def shortened(value: str, most: int) -> str:
    """:func:`plain` without its middle, if it is longer: beginning and end tell names apart. What is cut is masked."""
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


def text(value: str, *, limit: int = _MAX_TEXT) -> Html:
    """``value`` as text."""
    return Html(escape(plain(value, limit=limit), quote=True))


def name(value: str) -> Html:
    """A word of a policy, visibly as one."""
    return element("code", text(value))


def element(tag: str, *children: Html, cls: str | None = None, **attributes: str | int | bool | None) -> Html:
    """One element with its end tag. ``aria_label`` is ``aria-label``; True has no value; None is left out."""
    given: dict[str, str | int | bool | None] = {"class": cls, **attributes}
    parts = [tag]
    for key, value in given.items():
        if value is True:
            parts.append(key.rstrip("_").replace("_", "-"))
        elif value is not None and value is not False:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"')
    return Html(f"<{' '.join(parts)}>{''.join(children)}</{tag}>")


def heading(level: int, *children: Html, anchor: str | None = None) -> Html:
    """A heading; ``anchor`` is its id."""
    return element(f"h{level}", *children, id=anchor)


def joined(parts: Iterable[Html], between: str = ", ") -> Html:
    """Markup with text between."""
    return Html(escape(between).join(parts))


def listed(parts: Iterable[Html], *, last: str = "and") -> Html:
    """``a, b and c``."""
    found = list(parts)
    if len(found) < 2:
        return joined(found)
    return Html(f"{joined(found[:-1])} {last} {found[-1]}")


def names(values: Iterable[str], *, most: int = _NAMES) -> Html:
    """Up to so many names, and how many more there are."""
    found = list(values)
    more = len(found) - most
    if more <= 1:  # "and 1 more" is longer than most names
        return listed(map(name, found))
    return listed([*map(name, found[:most]), text(f"{more} more")])
