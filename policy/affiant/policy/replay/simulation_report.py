"""Reports what a change of profiles does to recorded decisions: text, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Final

from affiant.policy.decision_log.simulation import AgentCount, ChangeGroup, Simulation
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.rendering.markup import MAX_CELL, MAX_ROWS, markdown_page, markdown_table, markdown_text
from affiant.policy.rendering.terminal import bounded

__all__ = ["simulation_document", "simulation_lines", "simulation_markdown"]

_MAX_SHOWN: Final = 20
"""Groups of one agent in the text; the JSON document has all that are kept."""


def simulation_lines(found: Simulation, *, compared: bool, several: bool) -> Iterator[str]:
    """The groups of changes by agent, the most frequent first, and the sum."""
    groups = sorted(
        found.groups.values(), key=lambda group: (group.agent, -group.count, group.kind, group.name)
    )
    for agent, listed in groupby(groups, key=lambda group: group.agent):
        count = found.agents.get(agent) or AgentCount()
        changed = count.wider + count.narrower
        yield f"{agent}: {changed} of {count.decisions} decisions change: {_directions(count)}"
        changes = ["\n".join(_group_lines(group, several=several)) for group in listed]
        for change in bounded(changes, most=_MAX_SHOWN, what="more groups"):
            yield from (f"  {line}" for line in change.split("\n"))
    yield from _notes(found)
    if compared and found.not_reproduced:
        yield f"{found.not_reproduced} recorded decisions are not what the old file decides"
    if compared and found.other_policy:
        yield f"{found.other_policy} lines name another policy than the old file's"
    yield _sum(found)


def _group_lines(group: ChangeGroup, *, several: bool) -> Iterator[str]:
    mark = "+" if group.is_wider else "-"
    yield f"{mark} {group.kind} {group.name}: {_change(group)}: {group.count}"
    for sample in group.samples:
        rules = ", ".join(f"{rule} at {place}" for rule, place in sample.rules)
        place = sample.place(several=several)
        yield f"    {place}: {sample.request}  [{sample.reason}]{' ' + rules if rules else ''}"


def simulation_markdown(found: Simulation, *, source: str, several: bool = False) -> str:
    """A row for each group of decisions that change, the wider ones first."""
    groups = sorted(found.groups.values(), key=lambda group: (not group.is_wider, group.agent, -group.count))
    rows = [
        (
            "wider" if group.is_wider else "narrower",
            group.agent,
            f"{group.kind} {group.name}",
            _change(group),
            str(group.count),
            f"{sample.place(several=several)}: {sample.request}",
            ", ".join(place for _, place in sample.rules) or sample.reason,
        )
        for group in groups
        for sample in group.samples[:1]
    ]
    head = ("", "agent", "what", "decision", "times", "first", "rule or reason")
    table = markdown_table(head, rows, most=MAX_ROWS, cell=MAX_CELL)
    notes = (markdown_text(f"{note}.") for note in _notes(found))
    return markdown_page(f"{source}: {_sum(found)}", [*table, *notes])


def simulation_document(found: Simulation, new: ProfileSet, old: ProfileSet | None) -> Mapping[str, object]:
    """Everything, for programs."""
    return {
        "new": {"file": new.source, "digest": new.digest},
        "old": None if old is None else {"file": old.source, "digest": old.digest},
        "decisions": found.decisions,
        "wider": found.wider,
        "narrower": found.narrower,
        "not_reproduced": None if old is None else found.not_reproduced,
        "other_policy": None if old is None else found.other_policy,
        "untold": found.untold,
        "agents": {name: asdict(each) for name, each in found.agents.items()},
        "changes": [_group(group) for group in found.groups.values()],
        "changes_not_listed": found.ungrouped,
    }


def _group(group: ChangeGroup) -> Mapping[str, object]:
    return {
        "agent": group.agent,
        "kind": group.kind,
        "name": group.name,
        "before": group.before.value,
        "after": group.after.value,
        "wider": group.is_wider,
        "count": group.count,
        "samples": [
            {**asdict(sample), "rules": [{"id": rule, "where": place} for rule, place in sample.rules]}
            for sample in group.samples
        ],
    }


def _change(group: ChangeGroup) -> str:
    return f"{group.before.value} becomes {group.after.value}"


def _directions(count: AgentCount | Simulation) -> str:
    return f"{count.wider} wider, {count.narrower} narrower"


def _sum(found: Simulation) -> str:
    return f"{found.decisions} decisions, {found.wider + found.narrower} change: {_directions(found)}"


def _notes(found: Simulation) -> Iterator[str]:
    if found.ungrouped:
        yield f"{found.ungrouped} more changes are counted, and not listed"
    if found.untold:
        yield f"{found.untold} calls are taken to be decided as before: arguments decide, and the log has none"
