"""Reports the differences of policies as text, Markdown, SARIF 2.1.0 and JSON.

Requests that differ alike are one group: one of them in full, and how many more paths there are. Nothing is left
out of the JSON document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from affiant.command_line import printable
from affiant.policy.diff.difference_groups import DifferenceGroup, grouped, places_of
from affiant.policy.diff.differences import Difference, Direction
from affiant.policy.diff.restriction import difference_members
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.rendering.markup import markdown_page, markdown_table, markdown_text
from affiant.policy.rendering.review_formats import sarif_location, sarif_log
from affiant.policy.rendering.terminal import counted

__all__ = [
    "difference_document",
    "difference_lines",
    "difference_markdown",
    "difference_sarif",
    "fail_reasons",
]

_LEVEL: Final = {Direction.WIDENS: "error", Direction.CHANGES: "error", Direction.NARROWS: "note"}


def difference_lines(differences: Sequence[Difference]) -> Iterator[str]:
    """One block of lines for each agent."""
    for agent, groups in _by_agent(differences):
        yield f"{agent}: {_counted(groups)}"
        for line in groups:
            yield f"  {_mark(line.first.direction)} {line.text}{_at(line.places)}"


def difference_markdown(differences: Sequence[Difference], *, old: ProfileSet, new: ProfileSet) -> str:
    """A table for each agent, to be put into a review's comment."""
    lines = []
    for agent, groups in _by_agent(differences):
        rows = [(line.first.direction.value, line.text, "\n".join(line.places)) for line in groups]
        lines += [f"**{markdown_text(agent)}**", "", *markdown_table(("", "what", "rule"), rows)]
    lines.append(f"Policy digest before `{old.digest}`, after `{new.digest}`.")
    return markdown_page(f"{old.source} to {new.source}: {_counted(_together(differences))}", lines)


def difference_sarif(differences: Sequence[Difference], *, new: ProfileSet, uri: str) -> str:
    """One result for each line of the text, at the rule of the new file that decides; narrower ones are notes."""
    results = [
        {
            "ruleId": f"policy.{line.first.direction.value}.{line.first.plane}",
            "level": _LEVEL[line.first.direction],
            "message": {"text": printable(f"{agent}: {line.text}")},
            "locations": [
                sarif_location(uri, place)
                for place in places_of(each.new for each in line.alike)[:1] or ("",)
            ],
        }
        for agent, groups in _by_agent(differences)
        for line in groups
    ]
    rules = sorted({str(result["ruleId"]) for result in results})
    return sarif_log(
        tool="affiant policy diff",
        rules=[{"id": rule} for rule in rules],
        results=results,
        properties={"policy": new.digest},
    )


def difference_document(
    differences: Sequence[Difference], *, old: ProfileSet, new: ProfileSet
) -> Mapping[str, object]:
    """Every difference, with both sides; ``counts`` are of groups, as in the text.

    ``group`` is the number of a difference's group, from 0.
    """
    together = _together(differences)
    groups = {id(found): number for number, group in enumerate(together) for found in group.alike}
    return {
        "old": _file(old),
        "new": _file(new),
        "counts": {direction.value: count for direction, count in _counts(together).items()},
        "differences": [
            {
                **difference_members(found),
                "agent": found.agent,
                "secrets": list(found.secrets),
                "group": groups[id(found)],
            }
            for found in differences
        ],
    }


def fail_reasons(differences: Sequence[Difference], fail_on: str) -> Iterator[str]:
    """Why a check of ``differences`` fails, by direction: those that cannot be ordered count as wider."""
    counts = _counts(_together(differences))
    widens, changes = counts[Direction.WIDENS], counts[Direction.CHANGES]
    if widens:
        yield f"{counted(widens, 'difference')} allow{'s' * (widens == 1)} more"
    if changes:
        cannot = "cannot be ordered as wider or narrower"
        yield f"{counted(changes, 'difference')} {cannot}" + (
            ", so it fails too" if fail_on == "widen" else ""
        )
    if counts[Direction.NARROWS] and fail_on == "any":
        narrows = counts[Direction.NARROWS]
        yield f"{counted(narrows, 'difference')} allow{'s' * (narrows == 1)} less"


def _file(profiles: ProfileSet) -> Mapping[str, str]:
    return {"file": profiles.source, "digest": profiles.digest, "source_digest": profiles.source_digest}


def _by_agent(differences: Sequence[Difference]) -> Sequence[tuple[str, Sequence[DifferenceGroup]]]:
    """The groups of each agent: nothing of two agents is one line."""
    by_agent = groupby(differences, key=lambda found: found.agent)
    return [(agent, list(grouped(list(found)))) for agent, found in by_agent]


def _together(differences: Sequence[Difference]) -> Sequence[DifferenceGroup]:
    return [line for _, groups in _by_agent(differences) for line in groups]


def _counts(lines: Iterable[DifferenceGroup]) -> Mapping[Direction, int]:
    """What stands first in every form of the report."""
    directions = [line.first.direction for line in lines]
    return {direction: directions.count(direction) for direction in Direction}


def _counted(groups: Iterable[DifferenceGroup]) -> str:
    counts = _counts(groups)
    changed = counts[Direction.CHANGES]
    parts = [f"{counts[Direction.WIDENS]} wider", f"{counts[Direction.NARROWS]} narrower"]
    return ", ".join(parts + ([f"{changed} changed"] if changed else []))


def _mark(direction: Direction) -> str:
    return {Direction.WIDENS: "+", Direction.NARROWS: "-", Direction.CHANGES: "~"}[direction]


def _at(places: Iterable[str]) -> str:
    shown = ", ".join(places)
    return f"  [{shown}]" if shown else ""
