"""``affiant policy decisions`` shows decision logs to people and converts them for other systems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final

import click

from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.command_line import EXIT_REFUSED, printable, show_error
from affiant.errors import AffiantError
from affiant.policy.decision_log.choice import Choice, KnownProfiles
from affiant.policy.decision_log.log_input import log_lines, log_name
from affiant.policy.decision_log.reader import RecordedDecision, read_decision
from affiant.policy.editor.completion import complete_agents
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.rendering.terminal import aligned, check_floor_unused, floor_option
from affiant.policy.replay.members import decision_members, encoded
from affiant.policy.replay.ocsf import ocsf_event
from affiant.policy.replay.otel import otlp_logs
from affiant.policy.replay.table import HEADINGS, decision_row

__all__ = ["decisions_command"]

_MAX_SHOWN: Final = 100
"""Refusals that are shown one by one: a file that is not a log must not fill the screen."""
_BLOCK: Final = 500
"""Rows of a file that are read before the first is shown, so that columns fit them. A pipe's are shown as they come."""


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else timestamp(ctx, param, value).timestamp()


@click.command("decisions")
@click.argument(
    "logs",
    metavar="LOG...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "ocsf", "otlp-json"]),
    default="table",
    show_default=True,
    help="Output form: a table, the lines themselves, OCSF events, or OpenTelemetry log records (one JSON a line).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    help="Show only this agent. This and the other filters are repeatable.",
    shell_complete=complete_agents("files"),
)
@click.option("--session", "sessions", multiple=True, metavar="ID", help="Show only this session.")
@click.option(
    "--plane",
    "planes",
    multiple=True,
    type=click.Choice(["tool", "provider_tool", "model", "path", "egress", "secret", "port", "start"]),
    help="Show only requests of this kind.",
)
@click.option(
    "--decision",
    "decided",
    multiple=True,
    type=click.Choice(["allow", "ask", "deny"]),
    help="Show only this decision.",
)
@click.option("--reason", "reasons", multiple=True, metavar="CODE", help="Show only this reason code.")
@click.option(
    "--since", callback=_seconds, metavar="TIME", help="Show from this time on: RFC 3339, or Unix seconds."
)
@click.option("--until", callback=_seconds, metavar="TIME", help="Show up to this time, exclusive.")
@click.option(
    "--profiles",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Profile file that decided. It adds agent names to a gateway's log, and the lines of rules. Repeatable.",
)
@click.pass_context
@floor_option
def decisions_command(
    ctx: click.Context,
    /,
    *,
    floor: Path | None,
    logs: tuple[Path, ...],
    form: str,
    as_json: bool,
    files: tuple[Path, ...],
    **chosen: Any,
) -> None:
    """Show decision logs, or convert them for a SIEM or an OpenTelemetry collector.

    Logs may have any size, and are read in the order given; - is standard input. A line that is not a decision is
    reported on standard error with its number, and all other lines are shown.

    Exit codes: 0 shown; 1 a line is not a decision, or the wanted form cannot express it (all others are
    shown); 2 the command line is wrong.

    \b
    Examples:
      affiant policy decisions decisions.jsonl --decision deny
      affiant policy decisions decisions.jsonl.* decisions.jsonl --since 2026-11-21T00:00:00Z
      affiant policy decisions gateway.jsonl --profiles profiles.yaml --agent code_implementer
      affiant policy decisions decisions.jsonl --format ocsf > events.jsonl
      tail -F decisions.jsonl | affiant policy decisions -
    """
    if as_json and ctx.get_parameter_source("form") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--json and --format exclude each other: choose one")
    if not files:
        check_floor_unused(instead="name the profile file by --profiles")
    known = KnownProfiles(*(read_profiles(file, floor=floor) for file in files))
    reading = _Reading(Choice(**{name: _chosen(value) for name, value in chosen.items()}), known)
    found = reading.of(logs)
    if as_json:
        _print_document(found, reading)
    elif form == "table":
        _print_table(found, known, at_once=not all(map(Path.is_file, logs)))
    else:
        _print_lines(found, reading, form)
    _note(reading)
    if reading.refused:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _chosen(value: Any) -> Any:
    return frozenset(value) if isinstance(value, tuple) else value


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """Reads logs, and counts what it could not show."""

    choice: Choice
    known: KnownProfiles
    shown: int = 0
    refused: int = 0
    unnamed: int = 0
    untimed: int = 0
    refusals: list[AffiantError] = field(default_factory=list)

    def of(self, logs: Iterable[Path]) -> Iterator[tuple[str, RecordedDecision]]:
        """The name of the log, and each decision that was asked for. One log is open at a time."""
        for path in logs:
            with click.open_file(str(path), "rb") as log:
                yield from self._of_one(log, log_name(log))

    def _of_one(self, log: IO[bytes], source: str) -> Iterator[tuple[str, RecordedDecision]]:
        for number, line in enumerate(log_lines(log), start=1):
            try:
                recorded = read_decision(
                    line, number=number, source=source, agents=self.known.agents, nameless=True
                )
            except AffiantError as error:
                self.refuse(error)
                continue
            self.unnamed += bool(self.choice.agents) and not recorded.agent
            self.untimed += self.choice.timed and recorded.ts is None
            if self.choice.has(recorded):
                self.shown += 1
                yield source, recorded

    def refuse(self, error: AffiantError) -> None:
        """Report a line that is not shown."""
        self.refused += 1
        if self.refused <= _MAX_SHOWN:
            show_error(error)
            self.refusals.append(error)


def _note(reading: _Reading) -> None:
    if reading.refused > _MAX_SHOWN:
        click.echo(f"affiant: {reading.refused - _MAX_SHOWN} more lines are not decisions", err=True)
    if reading.unnamed:
        click.echo(
            f"affiant: {reading.unnamed} decisions have no agent name and are left out: "
            "name the profile file that decided with --profiles",
            err=True,
        )
    if reading.untimed:
        click.echo(f"affiant: {reading.untimed} decisions have no time and are left out", err=True)


# -- writing -----------------------------------------------------------------------------------------------------------


_EVENTS: Final = {"ocsf": ocsf_event, "otlp-json": otlp_logs}


def _print_lines(found: Iterable[tuple[str, RecordedDecision]], reading: _Reading, form: str) -> None:
    product = version("affiant")
    for source, recorded in found:
        if form not in _EVENTS:
            click.echo(encoded(decision_members(recorded)))
            continue
        places = reading.known.places(recorded)
        try:
            document = _EVENTS[form](recorded, source=source, version=product, places=places)
        except AffiantError as error:
            reading.refuse(error)
            continue
        click.echo(encoded(document))


def _print_table(
    found: Iterable[tuple[str, RecordedDecision]], known: KnownProfiles, *, at_once: bool
) -> None:
    rows = (decision_row(recorded, places=known.places(recorded)) for _, recorded in found)
    for line in aligned(HEADINGS, rows, block=1 if at_once else _BLOCK):
        click.echo(line)


def _print_document(found: Iterable[tuple[str, RecordedDecision]], reading: _Reading) -> None:
    """One document, written as it is read: a log may be larger than memory."""
    click.echo('{"decisions": [', nl=False)
    for source, recorded in found:
        places = reading.known.places(recorded)
        where = [{"id": rule, "where": places.get(rule)} for rule in recorded.rules]
        line = {**decision_members(recorded), "log": source, "line": recorded.line, "rules": where}
        click.echo(("," if reading.shown > 1 else "") + "\n  " + encoded(line), nl=False)
    rest = {
        "count": reading.shown,
        "refused": reading.refused,
        "refusals": [
            {"where": error.where, "code": error.code, "message": printable(str(error))}
            for error in reading.refusals
        ],
        "no_agent": reading.unnamed,
        "no_time": reading.untimed,
    }
    click.echo("\n], " + json.dumps(rest, sort_keys=True, ensure_ascii=True).removeprefix("{"))
