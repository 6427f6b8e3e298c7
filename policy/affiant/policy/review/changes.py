"""Lists the differences from the other version, each with a request that shows it, what allows more first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from affiant.policy.diff.difference_groups import DifferenceGroup
from affiant.policy.diff.differences import Direction
from affiant.policy.review.edition import Edition
from affiant.policy.review.page_text import Link, PublicText
from affiant.policy.review.review import Review

__all__ = ["changes"]

_TAGS = {Direction.WIDENS: "+ wider", Direction.NARROWS: "\u2212 narrower", Direction.CHANGES: "~ changed"}


def changes(review: Review) -> Sequence[Mapping[str, object]]:
    """The differences that allow more, then those that allow less; empty where no other version is compared with."""
    wider = [group for group in review.groups if group.first.direction.is_wider]
    narrower = [group for group in review.groups if not group.first.direction.is_wider]
    kinds = (("More is allowed", "bad", wider), ("Less is allowed", "good", narrower))
    return [
        {
            "title": title,
            "look": look,
            "count": len(found),
            "agents": [
                (agent, [_row(review, group) for group in alike])
                for agent, alike in groupby(found, key=lambda one: one.first.agent)
            ],
        }
        for title, look, found in kinds
        if found
    ]


def _row(review: Review, group: DifferenceGroup) -> Mapping[str, object]:
    direction = group.first.direction
    return {
        "look": "bad" if direction.is_wider else "good",
        "tag": _TAGS[direction],
        "what": _what(group),
        "example": PublicText(group.requests) if group.first.plane == "approval" else group.requests,
        "secrets": group.first.secrets,
        "where": _where(review.new, review.old, group),
    }


def _what(group: DifferenceGroup) -> str:
    """Formats and shapes of secrets are not repeated: a value may have been pasted there."""
    shown = ("reference of ", "exchange's ")
    if group.first.plane == "secret_setting" and not group.first.request.startswith(shown):
        return "another text"
    return group.what


def _where(new: Edition, old: Edition | None, group: DifferenceGroup) -> Sequence[Link]:
    """The rules that decide now; where nothing does, those that did."""
    now = [place for each in group.alike for place in each.new.places]
    if now or old is None:
        return new.places(now)
    was = old.places(place for each in group.alike for place in each.old.places)
    return [Link("was"), *was] if was else []
