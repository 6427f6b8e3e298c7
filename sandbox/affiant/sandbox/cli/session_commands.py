"""``affiant session``: the sessions of a state folder, and what is left of those that were interrupted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from affiant.command_line import Group, print_json, printable
from affiant.sandbox.base.errors import OutputPlaceError
from affiant.sandbox.cli.detached_commands import create, execute, logs, stop
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.cli.live_commands import copy, top
from affiant.sandbox.cli.narrow_command import narrow
from affiant.sandbox.cli.pool_command import pool
from affiant.sandbox.cli.recover_command import Recovered, recover
from affiant.sandbox.cli.removing_commands import prune, remove
from affiant.sandbox.cli.serve_command import serve
from affiant.sandbox.cli.session_options import home_option, json_option, print_table, session_argument
from affiant.sandbox.cli.shell_command import shell
from affiant.sandbox.cli.template_command import template
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session.output_report import counted, skipped_lines
from affiant.sandbox.session.run_report import ARCHIVED
from affiant.sandbox.session_state.session_listing import SessionEntry, find_session, list_sessions

__all__ = ["session"]

_SHOWN = (
    *(
        "session",
        "name",
        "owner",
        "state",
        "agent",
        "profile",
        "started",
        "ended",
        "exit_code",
        "code",
        "gateway",
        "output",
    ),
    *("bundle", "records", "kept", "steps"),
)
_COLUMNS = ("SESSION", "STATE", "STARTED", "AGENT", "EXIT", "BUNDLE")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def session() -> None:
    """The sessions of a state folder, and what is left of those that were interrupted.

    `create`, `list`, `show`, `top`, `recover`, `rm`, `prune` and `serve` first end and tidy up what a killed launcher
    has left, as `affiant run` does.

    \b
    Examples:
      affiant session list
      affiant session show 0o2m0yYbVQkLhX4dJmQ3Ng
      affiant session narrow 0o2m0yYbVQkLhX4dJmQ3Ng narrower.yaml
      affiant session recover 0o2m0yYbVQkLhX4dJmQ3Ng --bundle session.affiant.json
    """


session.add_command(narrow)
for _command in (create, execute, shell, logs, copy, top, stop, prune, remove, serve, template, pool):
    session.add_command(_command)


@session.command("list")
@home_option
@json_option
def list_(*, home: Path, as_json: bool) -> None:
    """List the sessions, the last one first. `ls` is the same.

    State: running; closed; interrupted (its launcher was killed, its supervisor closed it); lost (ended without a
    signed close; `affiant session recover ID` collects what was recorded).

    \b
    Examples:
      affiant session list
      affiant session list --json
    """
    opened = open_home(home)
    tell_leftovers(opened)
    entries = list_sessions(opened)
    if as_json:
        print_json({"sessions": [entry.to_json() for entry in entries]})
    elif not entries:
        click.echo("No sessions here. Start one with: affiant run")
    else:
        rows = [_COLUMNS, *(_row(entry) for entry in entries)]
        names = ["NAME", *(_cell(entry.to_json()["name"]) for entry in entries)]
        named = any(name != "-" for name in names[1:])
        print_table([(name, *row) for name, row in zip(names, rows, strict=True)] if named else rows)


session.add_command(list_, "ls")


@session.command("show")
@home_option
@session_argument
@json_option
def show(*, home: Path, name: str, as_json: bool) -> None:
    """Show one session: its state or how it ended, and where its receipts are.

    \b
    Examples:
      affiant session show 0o2m0yYbVQkLhX4dJmQ3Ng
      affiant session show 0o2m0yYbVQkLhX4dJmQ3Ng --json

    \b
    Exit codes: 0 shown, 1 no such session, 2 usage.
    """
    opened = open_home(home)
    tell_leftovers(opened)
    entry = find_session(opened, name)
    if as_json:
        print_json(entry.to_json())
        return
    members = _shown(entry)
    print_table([(each, _cell(members[each])) for each in _SHOWN if members[each] is not None])


@session.command("recover")
@home_option
@session_argument
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the receipts here as well, hidden values opened.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy the agent's files here, if they were kept, and keep them no longer.",
)
@click.option(
    "--from",
    "given",
    type=click.File("rb", lazy=False),
    help="What the gateway's operator gave: affiant gateway bundle SESSION.",
)
@json_option
def recover_(
    *, home: Path, name: str, bundle: Path | None, output: Path | None, given: BinaryIO | None, as_json: bool
) -> None:
    """Gather what is left of a SESSION that was interrupted: its receipts, and its files if they were kept.

    The receipts are those that its gateway has, asked of the one that runs or of one that is started for it, and
    those that only the session's own journal has. Nothing is signed anew: `affiant verify` says what is missing.
    Doing it again is harmless.

    \b
    Examples:
      affiant session recover 0o2m0yYbVQkLhX4dJmQ3Ng --bundle session.affiant.json
      affiant session recover 0o2m0yYbVQkLhX4dJmQ3Ng --output out
      affiant session recover 0o2m0yYbVQkLhX4dJmQ3Ng --from session.json

    \b
    Exit codes: 0 gathered, 1 error, 2 usage.
    """
    if bundle is not None and not os.access(bundle.absolute().parent, os.W_OK):
        raise OutputPlaceError("no file can be written there", where=str(bundle))
    opened = open_home(home)
    tell_leftovers(opened)
    done = recover(
        opened,
        find_session(opened, name),
        given=None if given is None else given.read(),
        bundle=bundle,
        output=output,
        starting=lambda: click.echo("affiant: starting a gateway to ask it (SIMULATED platform)", err=True),
    )
    if done.taken is not None:
        for line in skipped_lines(done.taken.changes, rest="see --json"):
            click.echo(f"affiant: {line}", err=True)
    if as_json:
        print_json(_recovered(name, done))
        return
    gathered = done.gathered
    how = "has no close" if gathered.closed is None else f"was closed: {gathered.closed}"
    click.echo(f"receipts in {gathered.path if bundle is None else bundle}; the session {how}")
    if gathered.added:
        click.echo(f"records from its own journal, which the gateway had not acknowledged: {gathered.added}")
    if gathered.bundle is None:
        click.echo(f"affiant: {ARCHIVED}", err=True)
    if gathered.left_out:
        why = " (the signed close says which record was the last)" if gathered.in_order else ""
        click.echo(f"records that stay in the session's folder, outside the bundle: {gathered.left_out}{why}")
    if done.taken is not None:
        click.echo(f"copied to {output}: {counted(done.taken.changes)}")


def _recovered(name: str, done: Recovered) -> dict[str, object]:
    gathered, taken = done.gathered, done.taken
    return {
        "added": gathered.added,
        "archive": gathered.bundle is None,
        "bundle": str(gathered.path),
        "closed": gathered.closed,
        "copied": None if taken is None else list(taken.changes.added),
        "left_out": gathered.left_out,
        "session": name,
        "simulated": True,
        "skipped": [] if taken is None else [asdict(entry) for entry in taken.changes.skipped],
    }


def _row(entry: SessionEntry) -> tuple[str, ...]:
    members = _shown(entry)
    ended = "exit_code" if members["code"] is None else "code"
    return tuple(_cell(members[name]) for name in ("session", "state", "started", "agent", ended, "bundle"))


def _shown(entry: SessionEntry) -> Mapping[str, object]:
    """The entry's members, times and steps as text."""
    members = entry.to_json()
    times = {name: _time(members[name]) for name in ("started", "ended")}
    return {**members, **times, "steps": ", ".join(step.state.value for step in entry.steps) or None}


def _time(seconds: object) -> str | None:
    if not isinstance(seconds, int):
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cell(value: object) -> str:
    return "-" if value is None else printable(str(value))
