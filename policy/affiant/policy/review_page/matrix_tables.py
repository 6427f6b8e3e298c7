"""Makes the tables of agents against tools, models, files, hosts and secrets.

Few agents have words in their cells; many have letters, in tables of at most :data:`AGENTS` columns each, so that a
table fits a page of paper. A letter is a link to the first rule behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.matrix import MEANINGS, PLANES, Column, Row, rows_of
from affiant.policy.diff.differences import Direction
from affiant.policy.diff.reachable import Reach
from affiant.policy.review.changed_cells import AGENT, changed_cells
from affiant.policy.review.edition import Edition
from affiant.policy.review.page_text import plain, shortened
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


def matrix(review: Review) -> Mapping[str, object]:
    """All tables."""
    agents = review.new.agents
    old = () if review.old is None else review.old.agents
    sides = {each.agent: [other for other in (*agents, *old) if other.agent == each.agent] for each in agents}
    changed = changed_cells(review.differences, rows_of([*agents, *old]), sides)
    wordy = len(agents) <= _WORDY
    size = _WORDY if wordy else AGENTS
    tables = (
        _table(review, agents[first : first + size], first + 1, changed, wordy=wordy)
        for first in range(0, len(agents), size)
    )
    return {"wordy": wordy, "meanings": MEANINGS, "signs": _SIGNS, "tables": list(tables)}


_SIGNS: Final = {
    "wider": ("+", "more"),
    "narrower": ("\u2212", "less"),
    "both": ("\u00b1", "more and less"),
    "changed": ("~", "changed"),
}
"""What marks a cell that differs, and what a screen reader says."""


def _sign(directions: frozenset[Direction] | None) -> tuple[str, str] | None:
    if not directions:
        return None
    wider, narrower = Direction.WIDENS in directions, Direction.NARROWS in directions
    if wider and narrower:
        return _SIGNS["both"]
    return _SIGNS["wider" if wider else "narrower" if narrower else "changed"]


def _table(
    review: Review, agents: Sequence[Authority], first: int, changed: _Changed, *, wordy: bool
) -> Mapping[str, object]:
    """Some of the agents, and the rows that one of them has in either version; a body for each plane."""
    columns = [Column(each, formats=False) for each in agents]
    before = (None if review.old is None else review.old.agent(each.agent) for each in agents)
    every = rows_of([*agents, *(each for each in before if each is not None)])
    count, last = len(review.new.agents), first + len(agents) - 1
    planes = ((plane, list(rows)) for plane, rows in groupby(every.items(), key=lambda item: item[0].plane))
    return {
        "title": "Agents against what they may do"
        if count == len(agents)
        else f"Agents {first} to {last} of {count}",
        "agents": [
            _head(number, each.agent, changed, wordy=wordy) for number, each in enumerate(agents, first)
        ],
        "planes": [
            {
                "title": PLANES[plane],
                "count": len(rows),
                "left_out": max(0, len(rows) - _MAX_ROWS),
                "rows": [
                    (
                        row.name,
                        [_cell(review.new, each, row, reach, changed, wordy=wordy) for each in columns],
                    )
                    for row, reach in rows[:_MAX_ROWS]
                ],
            }
            for plane, rows in planes
        ],
    }


def _head(number: int, agent: str, changed: _Changed, *, wordy: bool) -> Mapping[str, object]:
    shown = agent if wordy else shortened(agent, _NAME)
    return {
        "number": number,
        "agent": agent,
        "shown": shown,
        "is_shortened": shown not in (agent, plain(agent)),
        "sign": _sign(changed.get((agent, AGENT))),
    }


def _cell(
    new: Edition, column: Column, row: Row, reach: Reach | None, changed: _Changed, *, wordy: bool
) -> Mapping[str, object]:
    cell, authority = column.cell(row, reach), column.authority
    directions = changed.get((authority.agent, row))
    view: dict[str, object] = {
        "letter": cell.letter,
        "look": " ".join(filter(None, (cell.letter, _look(directions)))),
        "sign": _sign(directions),
    }
    if wordy:
        where = new.rules(authority, cell.rules if cell.letter else ())
        return {**view, "words": cell.words, "where": where}
    wheres = [authority.where(rule) for rule in cell.rules[:1]]
    return {**view, "target": next((new.target(where) for where in wheres), None)}


def _look(directions: frozenset[Direction] | None) -> str:
    if not directions:
        return ""
    return "wider" if any(each.is_wider for each in directions) else "narrower"
