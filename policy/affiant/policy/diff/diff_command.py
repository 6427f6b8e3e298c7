"""``affiant policy diff`` compares what two versions of a file allow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from affiant.command_line import EXIT_REFUSED, print_json
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.diff.differences import (
    Difference,
    compare_compiled,
    compare_profile_sets,
    compare_profiles,
)
from affiant.policy.diff.report import (
    difference_document,
    difference_lines,
    difference_markdown,
    difference_sarif,
    fail_reasons,
)
from affiant.policy.diff.restriction import restriction_digest, restriction_document
from affiant.policy.editor.completion import complete_agents
from affiant.policy.loading.policy_file import read_bounded, read_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.rendering.terminal import check_floor_unused, check_one_form, floor_option, print_lines
from affiant.report_files import keep_apart, write_report

__all__ = ["diff"]

_FILE = click.Path(path_type=Path)
_REPORT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
@click.option(
    "--agent", help="Compare only this agent's profiles.", shell_complete=complete_agents("new", "old")
)
@click.option(
    "--fail-on",
    type=click.Choice(["widen", "any"]),
    help="Exit with 1 if an agent may do more than before, or if anything differs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with every difference.")
@click.option("--markdown", is_flag=True, help="Print a table for a review's comment.")
@click.option(
    "--normal-forms",
    is_flag=True,
    help="OLD and NEW are normal forms from bundles. Print the document that a restriction's record has the digest of.",
)
@click.option("--sarif", type=_REPORT, help="Also write SARIF 2.1.0, for code review pages.")
@floor_option
def diff(
    old: Path,
    new: Path,
    *,
    floor: Path | None,
    agent: str | None,
    fail_on: str | None,
    as_json: bool,
    markdown: bool,
    normal_forms: bool,
    sarif: Path | None,
) -> None:
    """Show what NEW allows and OLD does not, and the other way round.

    The comparison is exact: where two files differ on any request at all, one like it is shown. What cannot be
    ordered, such as another address of a host, counts as wider. With --json every difference is listed by itself;
    those that share a line of the text have one 'group', and 'counts' are of groups.

    Exit codes: 0 compared; 1 a file is rejected, or --fail-on found what it names; 2 the command line is
    wrong.

    \b
    Examples:
      affiant policy diff before.yaml after.yaml
      affiant policy diff before.yaml after.yaml --fail-on widen
      affiant policy diff before.yaml after.yaml --markdown > comment.md
      affiant policy diff before.yaml after.yaml --agent deployment_agent --json
      affiant policy diff --normal-forms old.json new.json
    """
    check_one_form(json=as_json, markdown=markdown)
    if normal_forms:
        if markdown or sarif is not None or agent is not None:
            raise click.UsageError(
                "--normal-forms allows no option but --json and --fail-on: leave the others out"
            )
        check_floor_unused(instead="leave it out; a normal form already contains its baseline policy")
        _fail(_of_normal_forms(old, new, as_json=as_json), fail_on)
        return
    keep_apart([sarif], inputs=[old, new, *([floor] if floor else [])])
    before, after = read_profiles(old, floor=floor), read_profiles(new, floor=floor)
    found = _compared(before, after, agent)
    if sarif is not None:
        write_report(sarif, difference_sarif(found, new=after, uri=new.as_posix()))
    if as_json:
        print_json(difference_document(found, old=before, new=after))
    elif markdown:
        click.echo(difference_markdown(found, old=before, new=after), nl=False)
    else:
        print_lines(difference_lines(found))
        if not found:
            click.echo("no difference in what is allowed")
    _fail(found, fail_on)


def _fail(found: Sequence[Difference], fail_on: str | None) -> None:
    if (fail_on == "any" and found) or (
        fail_on == "widen" and any(each.direction.is_wider for each in found)
    ):
        click.echo(f"--fail-on {fail_on}: {'; '.join(fail_reasons(found, fail_on))}", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)


def _of_normal_forms(old: Path, new: Path, *, as_json: bool) -> Sequence[Difference]:
    """Compare two profiles of which a bundle has the normal forms; the digest is ``dif`` of the record between them."""
    before, after = (parse_normal_form(read_bounded(path)) for path in (old, new))
    found = compare_compiled("profile", before, after)
    document = restriction_document(found, old=before.digest, new=after.digest)
    if as_json:
        print_json(document)
    else:
        print_lines(difference_lines(found))
        click.echo(f"dif {restriction_digest(document)}")
    return found


def _compared(old: ProfileSet, new: ProfileSet, agent: str | None) -> Sequence[Difference]:
    if agent is None:
        return compare_profile_sets(old, new)
    if agent not in old.profiles:
        new.profile(agent)  # in neither: refused
    return compare_profiles(agent, old.profiles.get(agent), new.profiles.get(agent))
