"""``affiant policy lint`` lists every mistake of a file, or warns about what a file that loads allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from affiant.command_line import EXIT_REFUSED, print_json, show_error
from affiant.errors import AffiantError
from affiant.policy.lint.lint import Finding, lint_profiles
from affiant.policy.lint.report import lint_document, lint_markdown, lint_sarif
from affiant.policy.loading.policy_file import read_profiles, read_refusals
from affiant.policy.rendering.terminal import check_one_form, counted, floor_option, print_lines
from affiant.report_files import keep_apart, write_report

__all__ = ["lint"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Exit with 1 where there is a warning.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", is_flag=True, help="Print a table for a review's comment.")
@click.option(
    "--sarif",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write SARIF 2.1.0, for code review pages.",
)
@floor_option
def lint(
    file: Path, *, floor: Path | None, strict: bool, as_json: bool, markdown: bool, sarif: Path | None
) -> None:
    """Check that FILE loads, and warn about what it allows.

    A file that does not load is rejected as a whole. Up to 20 independent mistakes are shown, each with its line.
    *** replaces what may be a secret in that line.

    Exit codes: 0 the file loads; 1 it is rejected, or there is a warning and --strict; 2 the command line is
    wrong.

    \b
    Examples:
      affiant policy lint profiles.yaml
      affiant policy lint profiles.yaml --strict --json
      affiant policy lint profiles.yaml --sarif lint.sarif
      affiant policy lint profiles.yaml --markdown > comment.md
    """
    check_one_form(json=as_json, markdown=markdown)
    keep_apart([sarif], inputs=[file, *([floor] if floor else [])])
    errors: Sequence[AffiantError] = ()
    warnings: Sequence[Finding] = ()
    agents: Sequence[str] = ()
    try:
        profiles = read_profiles(file, floor=floor)
        warnings, agents = lint_profiles(profiles), sorted(profiles.profiles)
    except AffiantError as error:
        errors = _every_error(file, floor, error)
    if sarif is not None:
        write_report(sarif, lint_sarif(file, errors, warnings))
    if as_json:
        print_json(lint_document(errors, warnings, agents=agents))
    elif markdown:
        click.echo(lint_markdown(file.name, errors, warnings), nl=False)
    else:
        _show(errors, warnings, agents)
    if errors or (strict and warnings):
        raise click.exceptions.Exit(EXIT_REFUSED)


def _every_error(file: Path, floor: Path | None, first: AffiantError) -> Sequence[AffiantError]:
    """The errors of ``file``; ``first`` alone where it cannot be read, or was changed meanwhile and now loads."""
    try:
        return read_refusals(file, floor=floor) or (first,)
    except AffiantError:
        return (first,)


def _show(errors: Sequence[AffiantError], warnings: Sequence[Finding], agents: Sequence[str]) -> None:
    for error in errors:
        show_error(error)
    if errors:
        return
    print_lines(f"{found.where}: warning: {found.agent}: {found.text} [{found.code}]" for found in warnings)
    click.echo(f"{counted(len(agents), 'profile')}, {counted(len(warnings), 'warning')}")
