"""``affiant policy test`` runs the tests of profiles, and measures what the tests would detect."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

import click

from affiant.command_line import EXIT_REFUSED, print_json
from affiant.errors import AffiantError
from affiant.policy.loading.inline_tests import PolicyTest, read_tests
from affiant.policy.loading.policy_file import read_bounded, read_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.rendering.terminal import check_one_form, floor_option, print_lines
from affiant.policy.testing.coverage import coverage_of
from affiant.policy.testing.external_tests import read_external_tests
from affiant.policy.testing.mutation import JudgedMutant, judge_mutant, planned_mutants
from affiant.policy.testing.trial import TriedProfile, try_tests
from affiant.policy.testing.trial_report import TrialReport
from affiant.report_files import keep_apart, write_report

__all__ = ["try_profiles"]

_T = TypeVar("_T")
_FILE = click.Path(path_type=Path)
_REPORT = click.Path(dir_okay=False, path_type=Path)


@click.command("test")
@click.argument("file", type=_FILE)
@click.argument("tests", type=_FILE, nargs=-1)
@click.option(
    "--coverage", is_flag=True, help="List the rules that lack an allow test or a near-miss deny test."
)
@click.option(
    "--mutation",
    is_flag=True,
    help="Remove and loosen each rule in turn, and list the changes that no test detects.",
)
@click.option(
    "--fail-under",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="Exit with 1 if fewer rules are covered, or fewer changes detected.",
)
@click.option(
    "--max-mutants",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Try at most this many changes; the others count as not detected.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document with every test, rule and change."
)
@click.option("--markdown", is_flag=True, help="Print tables for a review's comment.")
@click.option("--junit", type=_REPORT, help="Also write JUnit XML, for CI.")
@floor_option
def try_profiles(
    file: Path,
    tests: tuple[Path, ...],
    *,
    floor: Path | None,
    coverage: bool,
    mutation: bool,
    fail_under: int | None,
    max_mutants: int,
    as_json: bool,
    markdown: bool,
    junit: Path | None,
) -> None:
    """Run the tests of FILE's profiles, and those of each TESTS file.

    A TESTS file is YAML, 'tests: {AGENT: [TEST, ...]}', each test as a profile carries it.

    Exit codes: 0 every test holds; 1 one does not, a threshold is missed, there is no test, or a file is
    rejected; 2 the command line is wrong.

    \b
    Examples:
      affiant policy test profiles.yaml
      affiant policy test profiles.yaml tests.yaml --junit report.xml
      affiant policy test profiles.yaml tests.yaml --coverage --mutation --fail-under 90
      affiant policy test profiles.yaml --coverage --markdown > comment.md
    """
    check_one_form(json=as_json, markdown=markdown)
    if fail_under is not None and not (coverage or mutation):
        raise click.UsageError("--fail-under needs --coverage or --mutation: add one of them")
    keep_apart([junit], inputs=[file, *tests, *([floor] if floor else [])])
    try:
        profiles, found = _read(file, floor, tests)
    except AffiantError as error:
        if as_json:
            print_json({"ok": False, "refused": error.to_json()})
            raise click.exceptions.Exit(EXIT_REFUSED) from error
        raise
    tried = try_tests(profiles, found)
    mutants, left_out = _mutants(tried, max_mutants) if mutation else (None, 0)
    report = TrialReport(
        source=profiles.source,
        digest=profiles.digest,
        tried=tried,
        coverage=tuple(chain.from_iterable(map(coverage_of, tried))) if coverage else None,
        mutants=mutants,
        not_tried=left_out,
        least=fail_under,
    )
    _show(report, junit, as_json=as_json, markdown=markdown)
    if not report.ok:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _read(
    file: Path, floor: Path | None, others: Iterable[Path]
) -> tuple[ProfileSet, Mapping[str, tuple[PolicyTest, ...]]]:
    """The profiles, and every test of each agent: its own first."""
    found: dict[str, tuple[PolicyTest, ...]] = {}
    profiles = read_profiles(
        file, floor=floor, hold_tests=lambda agent, node, _: found.update({agent: tuple(read_tests(node))})
    )
    for path in others:
        more = read_external_tests(read_bounded(path), source=path.name, agents=profiles.profiles)
        for agent, tests in more.items():
            found[agent] = (*found.get(agent, ()), *tests)
    return profiles, found


def _mutants(tried: Iterable[TriedProfile], most: int) -> tuple[tuple[JudgedMutant, ...], int]:
    """What became of at most ``most`` mutants, and how many more there are."""
    planned = [(each, mutant) for each in tried for mutant in planned_mutants(each)]
    judged = (judge_mutant(each, mutant) for each, mutant in planned[:most])
    found = _with_progress(judged, min(len(planned), most))
    return tuple(mutant for mutant in found if mutant is not None), max(0, len(planned) - most)


def _with_progress(judged: Iterable[_T], total: int) -> Sequence[_T]:
    """All of them, with a bar where a person waits for it."""
    if not sys.stderr.isatty():
        return list(judged)
    with click.progressbar(judged, length=total, label="mutants", file=sys.stderr) as bar:
        return list(bar)


def _show(report: TrialReport, junit: Path | None, *, as_json: bool, markdown: bool) -> None:
    if junit is not None:
        write_report(junit, report.junit())
    if as_json:
        print_json(report.document())
        return
    if markdown:
        click.echo(report.markdown(), nl=False)
        return
    print_lines(report.lines())
