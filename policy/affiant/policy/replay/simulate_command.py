"""``affiant policy simulate``: what a new version of a profile file would have decided about what was asked before.

Exit codes: 0 replayed; 1 a file or a line of the log is refused, or ``--fail-on`` found what it names; 2 the command
line is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, Final

import click

from affiant.command_line import EXIT_REFUSED, print_json, printable
from affiant.policy.decision_log.log_input import recorded_in
from affiant.policy.decision_log.reader import agents_of
from affiant.policy.decision_log.simulation import AgentCount, ChangeGroup, Simulation, simulate
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.testing.review_tables import simulation_markdown

__all__ = ["simulate_policy"]

_FILE = click.Path(path_type=Path)
_MAX_SHOWN: Final = 20
"""Groups of one agent in the text; the JSON document has all that are kept."""


@click.command("simulate")
@click.argument("new", type=_FILE)
@click.option(
    "--log",
    "logs",
    type=click.File("rb"),
    multiple=True,
    required=True,
    help="Recorded decisions, one on each line; - is stdin. Repeatable.",
)
@click.option("--old", type=_FILE, help="Compare with what this file decides, not with what was recorded.")
@click.option(
    "--fail-on",
    type=click.Choice(["widen", "any"]),
    help="Exit with 1 if a decision becomes wider, or if any changes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", is_flag=True, help="Print a table for a review's comment.")
def simulate_policy(
    new: Path,
    *,
    logs: tuple[BinaryIO, ...],
    old: Path | None,
    fail_on: str | None,
    as_json: bool,
    markdown: bool,
) -> None:
    """Decide again what logs record, by NEW's profiles, and say what changes.

    A log is JSON Lines: {"agent", "request", "decision", "reason"} and what FORMAT.md lists; a line that is anything
    else refuses the log. Only requests that were made are replayed: 'affiant policy diff' compares all that could be.

    Exit codes: 0 replayed; 1 a file or a line of the log is refused, or --fail-on found what it names; 2 the
    command line is wrong.

    \b
    Examples:
      affiant policy simulate --log decisions.jsonl after.yaml
      affiant policy simulate --log gateway.jsonl.000001 --log gateway.jsonl after.yaml --old before.yaml
      affiant policy simulate --log decisions.jsonl after.yaml --old before.yaml --fail-on widen
      zcat decisions.jsonl.gz | affiant policy simulate --log - after.yaml --json
      affiant policy simulate --log decisions.jsonl after.yaml --markdown > comment.md
    """
    if as_json and markdown:
        raise click.UsageError("--json and --markdown are two answers: choose one")
    profiles = read_profiles(new)
    before = None if old is None else read_profiles(old)
    agents = agents_of(profiles if before is None else before)
    found = simulate(recorded_in(logs, agents=agents), profiles, old=before)
    several = len(logs) > 1
    if as_json:
        print_json(_document(found, profiles, before))
    elif markdown:
        click.echo(simulation_markdown(found, source=new.name, several=several), nl=False)
    else:
        for line in _text(found, compared=before is not None, several=several):
            click.echo(printable(line))
    if (fail_on is not None and found.wider) or (fail_on == "any" and found.narrower):
        raise click.exceptions.Exit(EXIT_REFUSED)


# -- text --------------------------------------------------------------------------------------------------------------


def _text(found: Simulation, *, compared: bool, several: bool) -> Iterator[str]:
    groups = sorted(
        found.groups.values(), key=lambda group: (group.agent, -group.count, group.kind, group.name)
    )
    for agent, listed in groupby(groups, key=lambda group: group.agent):
        yield f"{agent}: {_counted(found.agents.get(agent) or AgentCount())}"
        changes = list(listed)
        for group in changes[:_MAX_SHOWN]:
            yield from _group_lines(group, several=several)
        if len(changes) > _MAX_SHOWN:
            yield f"  and {len(changes) - _MAX_SHOWN} more groups; --json lists all"
    if found.ungrouped:
        yield f"{found.ungrouped} more changes are counted, and not listed"
    if found.untold:
        yield f"{found.untold} calls are taken to be decided as before: arguments decide, and the log has none"
    if compared:
        yield from _against_old(found)
    changed = found.wider + found.narrower
    yield f"{found.decisions} decisions, {changed} change: {found.wider} wider, {found.narrower} narrower"


def _counted(count: AgentCount) -> str:
    changed = count.wider + count.narrower
    return f"{changed} of {count.decisions} decisions change: {count.wider} wider, {count.narrower} narrower"


def _group_lines(group: ChangeGroup, *, several: bool) -> Iterator[str]:
    mark = "+" if group.is_wider else "-"
    yield f"  {mark} {group.kind} {group.name}: {group.before.value} becomes {group.after.value}: {group.count}"
    for sample in group.samples:
        rules = ", ".join(f"{rule} at {place}" for rule, place in sample.rules)
        place = sample.place(several=several)
        yield f"      {place}: {sample.request}  [{sample.reason}]{' ' + rules if rules else ''}"


def _against_old(found: Simulation) -> Iterator[str]:
    if found.not_reproduced:
        yield f"{found.not_reproduced} recorded decisions are not what the old file decides"
    if found.other_policy:
        yield f"{found.other_policy} lines name another policy than the old file's"


# -- JSON --------------------------------------------------------------------------------------------------------------


def _document(found: Simulation, new: ProfileSet, old: ProfileSet | None) -> Mapping[str, object]:
    return {
        "new": {"file": new.source, "digest": new.digest},
        "old": None if old is None else {"file": old.source, "digest": old.digest},
        "decisions": found.decisions,
        "wider": found.wider,
        "narrower": found.narrower,
        "not_reproduced": None if old is None else found.not_reproduced,
        "other_policy": None if old is None else found.other_policy,
        "untold": found.untold,
        "agents": {
            name: {"decisions": each.decisions, "wider": each.wider, "narrower": each.narrower}
            for name, each in found.agents.items()
        },
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
            {
                "log": sample.log,
                "line": sample.line,
                "request": sample.request,
                "reason_before": sample.reason_before,
                "reason": sample.reason,
                "rules": [{"id": rule, "where": place} for rule, place in sample.rules],
            }
            for sample in group.samples
        ],
    }
