"""``affiant policy can`` lists all that each agent of a file may do."""

from __future__ import annotations

from pathlib import Path

import click

from affiant.command_line import print_json
from affiant.policy.authority.authority import authority_of
from affiant.policy.authority.document import authority_document
from affiant.policy.authority.graph import authority_dot, authority_mermaid
from affiant.policy.authority.overview import authority_lines, authority_markdown
from affiant.policy.editor.completion import complete_agents
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.rendering.terminal import check_one_form, floor_option

__all__ = ["can"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("agent", required=False, shell_complete=complete_agents("file"))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document that leaves nothing out.")
@click.option("--markdown", is_flag=True, help="Print tables with agents as columns, for a review's comment.")
@click.option("--graph", type=click.Choice(["dot", "mermaid"]), help="Print a graph: who reaches what.")
@floor_option
def can(
    file: Path, agent: str | None, *, floor: Path | None, as_json: bool, markdown: bool, graph: str | None
) -> None:
    """List what each agent of FILE may do, or only AGENT, after all denials.

    The list has tools, provider tools, models, files with their effective mode, hosts with the requests they may get,
    where each secret can go, ports of its own servers, agents that it may start, and resource bounds. Each entry
    names its rules. What is not listed is denied.

    Exit codes: 0 listed; 1 the file is rejected, or has no such agent; 2 the command line is wrong.

    \b
    Examples:
      affiant policy can profiles.yaml
      affiant policy can profiles.yaml deployment_agent
      affiant policy can profiles.yaml --json
      affiant policy can profiles.yaml --markdown > comment.md
      affiant policy can profiles.yaml --graph dot | dot -Tsvg > authority.svg
    """
    check_one_form(json=as_json, markdown=markdown, graph=graph is not None)
    profiles = read_profiles(file, floor=floor)
    chosen = profiles.profiles.values() if agent is None else [profiles.profile(agent)]
    authorities = [authority_of(profile) for profile in chosen]
    if as_json:
        print_json(authority_document(authorities, profiles=profiles))
    elif markdown:
        click.echo(authority_markdown(authorities, profiles=profiles), nl=False)
    elif graph is not None:
        draw = authority_dot if graph == "dot" else authority_mermaid
        click.echo(draw(authorities), nl=False)
    else:
        for line in authority_lines(authorities):
            click.echo(line)
        if not authorities:
            click.echo("The file has no profiles: no agent may do anything.")
