"""Writes authorities as text for a terminal of 100 columns, and as Markdown tables with agents as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from affiant.command_line import printable
from affiant.policy.authority.authority import Authority
from affiant.policy.authority.matrix import PLANES, Column, Row, rows_of
from affiant.policy.authority.words import APPROVERS, NOBODY_APPROVES, path_words, settings, settings_lines
from affiant.policy.diff.reachable import Reach
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.share import NO_SHARE
from affiant.policy.rendering.markup import markdown_page, markdown_table, markdown_text
from affiant.policy.rendering.terminal import entry_lines, some

__all__ = ["authority_lines", "authority_markdown"]

_RULES_SHOWN: Final = 4
_COLUMNS: Final = 5
"""Agents beside each other; more make another table."""


def authority_lines(authorities: Sequence[Authority]) -> Iterator[str]:
    """A block of lines for each agent; without control characters."""
    for authority in authorities:
        yield from entry_lines(authority.agent, indent=0, at=str(authority.profile.mark))
        column, rows = Column(authority), _by_plane([authority])
        for plane, title in PLANES.items():
            found = rows.get(plane, ())
            if plane in ("provider_tool", "port", "start") and not found:
                continue
            yield f"  {title.lower()}" if found else f"  {title.lower()}: none"
            for row, reach in found:
                yield from _row_lines(column, row, reach)
        for line in settings_lines(authority):
            yield from entry_lines(line, indent=2)
        yield f"  policy {authority.profile.digest}"
        yield ""
    if any(authority.asks for authority in authorities):
        yield from entry_lines(NOBODY_APPROVES, indent=0)


def _row_lines(column: Column, row: Row, reach: Reach | None) -> Iterator[str]:
    name = path_words(row.name) if row.plane == "path" else row.name
    said = [(words, _at(column.authority, rules)) for words, rules in column.cell(row, reach).said]
    if len(said) == 1:
        yield from entry_lines(f"{name}: {said[0][0]}", indent=4, at=said[0][1])
        return
    yield from entry_lines(name, indent=4)
    for words, at in said:
        yield from entry_lines(words, indent=6, at=at)


def _at(authority: Authority, rules: Sequence[str]) -> str:
    return some([printable(f"{rule} {authority.where(rule)}") for rule in rules], most=_RULES_SHOWN)


def _by_plane(authorities: Sequence[Authority]) -> Mapping[str, Sequence[tuple[Row, Reach | None]]]:
    rows = groupby(rows_of(authorities).items(), key=lambda item: item[0].plane)
    return {plane: list(found) for plane, found in rows}


def authority_markdown(authorities: Sequence[Authority], *, profiles: ProfileSet) -> str:
    """Tables to be put into a review's comment; nothing in a name is markup."""
    lines: list[str] = []
    for first in range(0, len(authorities), _COLUMNS):
        lines += _tables(authorities[first : first + _COLUMNS])
    if any(authority.asks for authority in authorities):
        lines += [markdown_text(f"{NOBODY_APPROVES}."), ""]
    return markdown_page(f"Authority of {profiles.source}", [*lines, f"Policy digest `{profiles.digest}`."])


def _tables(authorities: Sequence[Authority]) -> Iterator[str]:
    agents = [authority.agent for authority in authorities]
    columns = [Column(authority) for authority in authorities]
    for plane, found in _by_plane(authorities).items():
        rows = [[row.name, *(_cell(column, row, reach) for column in columns)] for row, reach in found]
        yield from markdown_table([PLANES[plane].lower(), *agents], rows)
    shares = any(authority.compiled.share != NO_SHARE for authority in authorities)
    each = [settings(authority, shares=shares) for authority in authorities]
    for title in each[0]:
        names = dict.fromkeys(name for one in each for name in one[title])
        rows = [
            [name, *(one[title].get(name, "no" if title == APPROVERS else "none") for one in each)]
            for name in names
        ]
        yield from markdown_table([title, *agents], rows)


def _cell(column: Column, row: Row, reach: Reach | None) -> str:
    said = column.cell(row, reach).said
    lines = (
        (words, *(f"{rule} at {column.authority.where(rule)}" for rule in rules)) for words, rules in said
    )
    return "\n".join(line for each in lines for line in each) or "no"
