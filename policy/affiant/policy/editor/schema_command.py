"""``affiant policy schema`` prints the JSON Schema of a profile file for editors."""

from __future__ import annotations

import click

from affiant.policy.editor.editor_schema import floor_schema, profile_schema, schema_text

__all__ = ["schema"]


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
    click.echo(schema_text(floor_schema() if floor else profile_schema()), nl=False)
