"""``affiant policy schema`` prints the JSON Schema of a profile file for editors: the files beside this module.

The schema decides nothing. A file that loads is valid under it, with one exception: to an editor a name written as
``null`` is nothing, and to the reader it is a name; quote it. A valid file may still be rejected: the reader alone
judges paths, hosts and how rules fit together.
"""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["schema", "schema_text"]


@click.command()
@click.option(
    "--floor", is_flag=True, help="Print the schema of a baseline policy, the file that 'floor:' names."
)
@click.option("--json", "as_json", is_flag=True, help="No effect: the schema is always JSON.")
def schema(*, floor: bool, as_json: bool) -> None:  # noqa: ARG001 - every command answers to --json
    """Print the JSON Schema (2020-12) of a profile file, for editors.

    A file that loads is valid under it. A valid file can still be rejected: check with 'affiant policy lint'.

    Exit codes: 0 printed; 2 the command line is wrong.

    \b
    Examples:
      affiant policy schema > profile.schema.json
      affiant policy schema --floor > floor.schema.json

    \b
    Then, as the first line of a profile file:
      # yaml-language-server: $schema=profile.schema.json
    """
    click.echo(schema_text("floor" if floor else "profile"), nl=False)


def schema_text(name: str) -> str:
    """The schema of a ``profile`` file, or of a baseline policy (``floor``): JSON Schema 2020-12."""
    return (Path(__file__).parent / f"{name}.schema.json").read_text("utf-8")
