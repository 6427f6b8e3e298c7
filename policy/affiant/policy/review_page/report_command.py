"""``affiant policy report`` writes one HTML page about a file, for the person who must approve it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.options.timestamp_option import timestamp_if_given
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.command_line import print_json, printable
from affiant.policy.editor.completion import complete_agents
from affiant.policy.loading.policy_file import PolicyFile, read_policy_file
from affiant.policy.rendering.terminal import floor_option
from affiant.report_files import keep_apart, write_report

if TYPE_CHECKING:
    from affiant.policy.review.review import Review

__all__ = ["report"]

_FILE = click.Path(path_type=Path)
_STANDARD_OUTPUT: Final = Path("-")
_MAX_AGENTS: Final = 500
"""On one page, which a browser must still open."""


@click.command()
@click.argument("file", type=_FILE)
@click.option("--against", type=_FILE, help="Compare with this version of FILE, and mark what differs.")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    help="Show only this agent. Repeatable.",
    shell_complete=complete_agents("file"),
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    required=True,
    help="File to write; - is standard output.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document with the page's digest and counts."
)
@click.option(
    "--at", callback=timestamp_if_given, help="Print this time in the page: now, or RFC 3339 in UTC."
)
@floor_option
def report(
    file: Path,
    *,
    floor: Path | None,
    against: Path | None,
    agents: Sequence[str],
    output: Path,
    force: bool,
    as_json: bool,
    at: datetime | None,
) -> None:
    """Write one HTML page about FILE for a security review.

    The page says what each agent may do, in words and in a table. It lists warnings with advice, the flows of secrets,
    and every rule with its line. With --against it also lists exactly what changed, what allows more first. The page is
    one file that loads nothing, and can be printed. The same files give the same bytes.

    Exit codes: 0 written; 1 a file is rejected, or the disk is full; 2 the command line is wrong, or OUTPUT
    exists.

    \b
    Examples:
      affiant policy report profiles.yaml -o report.html
      affiant policy report after.yaml --against before.yaml -o report.html --force
      affiant policy report profiles.yaml --agent deployment_agent -o - > page.html
      affiant policy report profiles.yaml -o report.html --json
    """
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - help must stay cheap
    from affiant.policy.review.review import review_of  # noqa: PLC0415 - as above
    from affiant.policy.review_page.page import render_review  # noqa: PLC0415 - as above

    if as_json and output == _STANDARD_OUTPUT:
        raise click.UsageError("--json and -o - both write to standard output: name a file with -o")
    if not force and output != _STANDARD_OUTPUT and output.is_file():
        raise click.UsageError(f"{printable(str(output))} exists already: --force replaces it")
    found = read_policy_file(file, owners=None, floor=floor)
    old = None if against is None else read_policy_file(against, owners=None, floor=floor)
    if output != _STANDARD_OUTPUT:
        keep_apart([output], inputs=_inputs((file, found), (against, old)))
    _check_size(found, agents)
    review = review_of(
        found,
        against=old,
        agents=agents,
        builder=f"affiant {version('affiant')}, build {build_name()}",
        at=None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )
    page = render_review(review)
    if output == _STANDARD_OUTPUT:
        click.echo(page, nl=False)
    else:
        write_report(output, page, replace=force)
    if as_json:
        print_json(_document(review, page))


def _document(review: Review, page: str) -> Mapping[str, object]:
    """What a pipeline keeps beside the page, or decides by."""
    wider = sum(group.first.direction.is_wider for group in review.groups)
    return {
        "file": review.new.profiles.source,
        "digest": review.new.profiles.digest,
        "against": None if review.old is None else review.old.profiles.digest,
        "page": sha256_name(page.encode()),
        "agents": [each.agent for each in review.new.agents],
        "left_out": review.left_out,
        "warnings": len(review.findings),
        "wider": wider,
        "narrower": len(review.groups) - wider,
    }


def _inputs(*read: tuple[Path | None, PolicyFile | None]) -> Sequence[Path]:
    """What was read: the files, and the floors beside them."""
    files = [path for path, _ in read if path is not None]
    return [*files, *(file.floor.path for _, file in read if file is not None and file.floor is not None)]


def _check_size(file: PolicyFile, agents: Sequence[str]) -> None:
    count = len(agents or file.profiles.profiles)
    if count > _MAX_AGENTS:
        raise click.UsageError(
            f"{count} agents: a page holds at most {_MAX_AGENTS}. Name some of them with --agent."
        )
