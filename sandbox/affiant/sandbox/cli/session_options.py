"""What the commands about sessions share: options, the completion of a session's name and id, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from affiant.errors import AffiantError
from affiant.folders import default_home
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session_state.session_listing import list_sessions

__all__ = ["home_option", "json_option", "print_table", "session_argument"]


def _known(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        entries = list_sessions(open_home(Path(context.params.get("home") or default_home())))
    except (AffiantError, OSError):
        return []
    found: dict[str, str] = {}
    for entry in entries:
        asked, state = entry.note.asked, entry.note.state.value
        if asked is not None and asked.name is not None and asked.owner is None:
            found.setdefault(asked.name, state)  # of several, the last
        found[entry.note.session] = state
    return [CompletionItem(name, help=state) for name, state in found.items() if name.startswith(incomplete)]


home_option = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="State folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
session_argument = click.argument("name", metavar="SESSION", shell_complete=_known)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of as many cells each, the columns one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
