"""``affiant policy simulate`` decides recorded requests again by a new version of a profile file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import click

from affiant.command_line import EXIT_REFUSED, print_json
from affiant.policy.decision_log.log_input import recorded_in
from affiant.policy.decision_log.reader import agents_of
from affiant.policy.decision_log.simulation import simulate
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.rendering.terminal import check_one_form, floor_option, print_lines
from affiant.policy.replay.simulation_report import (
    simulation_document,
    simulation_lines,
    simulation_markdown,
)

__all__ = ["simulate_policy"]

_FILE = click.Path(path_type=Path)


@click.command("simulate")
@click.argument("new", type=_FILE)
@click.option(
    "--log",
    "logs",
    type=click.File("rb"),
    multiple=True,
    required=True,
    help="Decision log, one decision on each line; - is standard input. Repeatable.",
)
@click.option(
    "--old", type=_FILE, help="Compare with the decisions of this file instead of the recorded ones."
)
@click.option(
    "--fail-on",
    type=click.Choice(["widen", "any"]),
    help="Exit with 1 if a decision becomes wider, or if any changes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", is_flag=True, help="Print a table for a review's comment.")
@floor_option
def simulate_policy(
    new: Path,
    *,
    floor: Path | None,
    logs: tuple[BinaryIO, ...],
    old: Path | None,
    fail_on: str | None,
    as_json: bool,
    markdown: bool,
) -> None:
    """Decide the requests of decision logs again by NEW's profiles, and show what changes.

    A log is JSON Lines: {"agent", "request", "decision", "reason"} and what FORMAT.md lists; any other
    line is an error. Only requests that were made are replayed: 'affiant policy diff' compares all that could be.

    Exit codes: 0 replayed; 1 a file or a line of the log is rejected, or --fail-on found what it names; 2 the
    command line is wrong.

    \b
    Examples:
      affiant policy simulate --log decisions.jsonl after.yaml
      affiant policy simulate --log gateway.jsonl.000001 --log gateway.jsonl after.yaml --old before.yaml
      affiant policy simulate --log decisions.jsonl after.yaml --old before.yaml --fail-on widen
      zcat decisions.jsonl.gz | affiant policy simulate --log - after.yaml --json
      affiant policy simulate --log decisions.jsonl after.yaml --markdown > comment.md
    """
    check_one_form(json=as_json, markdown=markdown)
    profiles = read_profiles(new, floor=floor)
    before = None if old is None else read_profiles(old, floor=floor)
    agents = agents_of(profiles if before is None else before)
    found = simulate(recorded_in(logs, agents=agents), profiles, old=before)
    several = len(logs) > 1
    if as_json:
        print_json(simulation_document(found, profiles, before))
    elif markdown:
        click.echo(simulation_markdown(found, source=new.name, several=several), nl=False)
    else:
        print_lines(simulation_lines(found, compared=before is not None, several=several))
    if (fail_on is not None and found.wider) or (fail_on == "any" and found.narrower):
        raise click.exceptions.Exit(EXIT_REFUSED)
