"""The table of agents against tools, models, files, hosts and secrets, as elements.

Few agents have words in their cells; many have letters, in tables of at most :data:`AGENTS` columns each, so that a
table fits a page of paper. A letter is a link to the first rule behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.diff.differences import Direction
from affiant.policy.diff.reachable import Reach
from affiant.policy.review.changed_cells import AGENT, changed_cells
from affiant.policy.review.edition import Edition
from affiant.policy.review.elements import (
    NOTHING,
    Html,
    element,
    heading,
    joined,
    name,
    plain,
    shortened,
    text,
)
from affiant.policy.review.matrix import MEANINGS, PLANES, Cell, Column, Row, rows_of
from affiant.policy.review.review import Review

__all__ = ["AGENTS", "matrix"]

AGENTS: Final = 25
"""Columns of one table with letters."""
_WORDY: Final = 5
"""Agents up to which cells have words."""
_MAX_ROWS: Final = 1_000
"""Of each plane in one table; it says how many it leaves out."""
_NAME: Final = 26
_Changed = Mapping[tuple[str, Row], frozenset[Direction]]


def matrix(review: Review) -> Html:
    """All tables, the legend, and the filter, which only a script shows."""
    agents = review.new.agents
    old = () if review.old is None else review.old.agents
    sides = {each.agent: [other for other in (*agents, *old) if other.agent == each.agent] for each in agents}
    changed = changed_cells(review.differences, rows_of([*agents, *old]), sides)
    wordy = len(agents) <= _WORDY
    size = _WORDY if wordy else AGENTS
    tables = [
        _Table(review, agents[first : first + size], first + 1, changed, wordy=wordy).html()
        for first in range(0, len(agents), size)
    ]
    lead = (
        "After all denials. What is not in a row, or has an empty cell, is denied. A cell says what holds for that "
        "agent there, also where a rule for a folder above or for a wildcard gives it."
    )
    return element(
        "section",
        heading(2, text("Who may do what"), anchor="matrix"),
        element("p", text(lead), cls="dim"),
        NOTHING if wordy else _legend(),
        _signs() if review.old is not None else NOTHING,
        _filter() if agents else NOTHING,
        *tables,
        aria_labelledby="matrix",
    )


def _legend() -> Html:
    each = (
        element("li", element("b", text(letter), cls=f"letter {letter}"), text(f" {meaning}"))
        for letter, meaning in MEANINGS.items()
    )
    return element("ul", *each, cls="legend", aria_label="What the letters mean")


def _signs() -> Html:
    return element(
        "p",
        _sign(frozenset({Direction.WIDENS})),
        text(" more is allowed there than in the version compared with, "),
        _sign(frozenset({Direction.NARROWS})),
        text(" less, "),
        _sign(frozenset({Direction.WIDENS, Direction.NARROWS})),
        text(" both, "),
        _sign(frozenset({Direction.CHANGES})),
        text(" what cannot be ordered. At an agent's name: its profile or its bounds as a whole."),
        cls="dim",
    )


def _filter() -> Html:
    fields = (
        element("label", text(label), Html(f'<input type="search" id="{field}" autocomplete="off">'))
        for field, label in (("find-row", "Show rows with "), ("find-agent", "Show agents with "))
    )
    status = element("output", id="found", role="status")
    return element("div", *fields, status, id="filter", role="search", hidden=True)


def _sign(directions: frozenset[Direction]) -> Html:
    wider, narrower = Direction.WIDENS in directions, Direction.NARROWS in directions
    shown, label = "~", "changed"
    if wider or narrower:
        shown = "\u00b1" if wider and narrower else "+" if wider else "\u2212"
        label = "more and less" if wider and narrower else "more" if wider else "less"
    return element("b", text(shown), element("span", text(f" {label}"), cls="unseen"), cls="sign")


class _Table:
    """One table: some of the agents, and the rows that one of them has in either version."""

    def __init__(
        self, review: Review, agents: Sequence[Authority], first: int, changed: _Changed, *, wordy: bool
    ) -> None:
        self._new: Edition = review.new
        self._agents, self._first, self._changed, self._wordy = agents, first, changed, wordy
        self._columns = [Column(each) for each in agents]
        before = (None if review.old is None else review.old.agent(each.agent) for each in agents)
        self._rows = rows_of([*agents, *(each for each in before if each is not None)])
        self._count = len(review.new.agents)

    def html(self) -> Html:
        """The table, in a region of its own that scrolls where a window is too narrow."""
        by_plane = groupby(self._rows.items(), key=lambda item: item[0].plane)
        bodies = [self._body(plane, list(rows)) for plane, rows in by_plane]
        last = self._first + len(self._agents) - 1
        title = "Agents against what they may do"
        if self._count > len(self._agents):
            title = f"Agents {self._first} to {last} of {self._count}"
        groups = [element("colgroup", cls="things"), element("colgroup", span=len(self._agents))]
        table = element(
            "table",
            element("caption", text(title)),
            *groups,
            element("thead", self._head()),
            *bodies,
            cls="matrix wordy" if self._wordy else "matrix letters",
        )
        return element("div", table, cls="wide", tabindex=0, role="region", aria_label=title)

    def _head(self) -> Html:
        cells = (self._agent(number, each) for number, each in enumerate(self._agents, self._first))
        return element("tr", element("td", text("")), *cells)

    def _agent(self, number: int, authority: Authority) -> Html:
        directions = self._changed.get((authority.agent, AGENT))
        sign = _sign(directions) if directions else NOTHING
        if self._wordy:
            return element("th", element("a", name(authority.agent), href=f"#a{number}"), sign, scope="col")
        shown = element("a", *_headed(authority.agent), href=f"#a{number}")
        return element("th", element("span", shown, sign, cls="up"), scope="col")

    def _body(self, plane: str, rows: Sequence[tuple[Row, Reach | None]]) -> Html:
        title = element(
            "th",
            text(f"{PLANES[plane]} "),
            element("span", text(str(len(rows))), cls="count"),
            scope="rowgroup",
            colspan=len(self._agents) + 1,
        )
        shown = (self._row(row, reach) for row, reach in rows[:_MAX_ROWS])
        return element("tbody", element("tr", title, cls="plane"), *shown, self._left_out(rows[_MAX_ROWS:]))

    def _left_out(self, rows: Sequence[object]) -> Html:
        said = text(f"{len(rows)} more are not shown: they are among each agent's rules below.")
        cell = element("td", element("strong", said), colspan=len(self._agents) + 1)
        return element("tr", cell) if rows else NOTHING

    def _row(self, row: Row, reach: Reach | None) -> Html:
        return element(
            "tr",
            element("th", name(row.name), scope="row"),
            *(self._cell(column, row, reach) for column in self._columns),
        )

    def _cell(self, column: Column, row: Row, reach: Reach | None) -> Html:
        cell = column.cell(row, reach)
        directions = self._changed.get((column.authority.agent, row))
        sign = _sign(directions) if directions else NOTHING
        look = " ".join(filter(None, (cell.letter, _look(directions))))
        if self._wordy:
            return element("td", sign, *self._words(column.authority, cell), cls=look or None)
        wheres = [column.authority.where(rule) for rule in cell.rules[:1]]
        return element("td", self._letter(cell, wheres), sign, cls=look or None)

    def _letter(self, cell: Cell, wheres: Sequence[str]) -> Html:
        if not cell.letter:
            return NOTHING
        target = next((self._new.target(where) for where in wheres), None)
        shown = text(cell.letter)
        return shown if target is None else element("a", shown, href=target)

    def _words(self, authority: Authority, cell: Cell) -> Iterator[Html]:
        if not cell.letter:
            yield element("span", text("no"), cls="dim")
            return
        yield joined((element("span", text(each)) for each in cell.words), "; ")
        if cell.rules:
            yield element("span", self._new.rules(authority, cell.rules), cls="at")


def _look(directions: frozenset[Direction] | None) -> str:
    if not directions:
        return ""
    return "wider" if any(each.is_wider for each in directions) else "narrower"


def _headed(agent: str) -> Iterator[Html]:
    """A name that fits a column's head; in full for the filter and for readers who hear it."""
    shown = shortened(agent, _NAME)
    if shown == plain(agent):
        yield name(agent)
        return
    yield element("code", text(shown), aria_hidden="true")
    yield element("span", text(agent), cls="unseen")
