"""What differs from the version compared with: each difference with a request that shows it, what widens first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from affiant.policy.diff.difference_groups import Told
from affiant.policy.diff.differences import Direction
from affiant.policy.review.edition import Edition
from affiant.policy.review.elements import NOTHING, Html, element, heading, name, names, text
from affiant.policy.review.review import Review

__all__ = ["changes"]

_WORDS = {Direction.WIDENS: "wider", Direction.NARROWS: "narrower", Direction.CHANGES: "changed"}
_SIGNS = {Direction.WIDENS: "+", Direction.NARROWS: "\u2212", Direction.CHANGES: "~"}


def changes(review: Review) -> Html:
    """Nothing where no other version is compared with."""
    if review.old is None:
        return NOTHING
    wider = [told for told in review.told if told.first.direction.is_wider]
    narrower = [told for told in review.told if not told.first.direction.is_wider]
    lead = (
        "Exact: where the two versions differ on any request at all, one like it is shown. What cannot be "
        "ordered, such as another address of a host, counts as more."
        if review.told
        else "No difference in what is allowed."
    )
    return element(
        "section",
        heading(2, text("What changed"), anchor="changes"),
        element("p", text(lead), cls="dim"),
        _direction(review, review.old, "More is allowed", wider, "bad"),
        _direction(review, review.old, "Less is allowed", narrower, "good"),
        aria_labelledby="changes",
    )


def _direction(review: Review, old: Edition, title: str, told: Sequence[Told], look: str) -> Html:
    if not told:
        return NOTHING
    columns = ("Agent", "What", "For example", "Secrets usable there", "Rule")
    head = element("tr", *(element("th", text(each), scope="col") for each in columns))
    bodies = [
        _agent(review.new, old, agent, list(alike))
        for agent, alike in groupby(told, key=lambda one: one.first.agent)
    ]
    return element(
        "section",
        heading(3, text(f"{title} "), element("span", text(str(len(told))), cls="count")),
        element("table", element("thead", head), *bodies, cls="changes"),
        cls=f"kind {look}",
    )


def _agent(new: Edition, old: Edition, agent: str, told: Sequence[Told]) -> Html:
    rows = None if len(told) == 1 else len(told)
    who = element("th", name(agent), scope="rowgroup", rowspan=rows)
    cells = (_cells(new, old, one) for one in told)
    return element(
        "tbody", *(element("tr", who if at == 0 else NOTHING, *each) for at, each in enumerate(cells))
    )


def _cells(new: Edition, old: Edition, told: Told) -> tuple[Html, ...]:
    direction = told.first.direction
    look = "bad" if direction.is_wider else "good"
    tag = element("span", text(f"{_SIGNS[direction]} {_WORDS[direction]}"), cls=f"tag {look}")
    secrets = names(told.first.secrets) if told.first.secrets else NOTHING
    return (
        element("td", tag, text(f" {_what(told)}")),
        element("td", name(told.requests)),
        element("td", secrets),
        element("td", _where(new, old, told), cls="where"),
    )


def _what(told: Told) -> str:
    """Formats and shapes of secrets are not repeated: somebody may have pasted a value there."""
    shown = ("reference of ", "exchange's ")
    if told.first.plane == "secret_setting" and not told.first.request.startswith(shown):
        return "another text"
    return told.what


def _where(new: Edition, old: Edition, told: Told) -> Html:
    """The rules that decide now; where nothing does, those that did."""
    now = [place for each in told.alike for place in each.new.places]
    if now:
        return new.places(now)
    was = old.places(place for each in told.alike for place in each.old.places)
    return Html(text("was ") + was) if was else NOTHING
