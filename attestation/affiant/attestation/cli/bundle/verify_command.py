"""The command ``affiant verify``: reads files and the clock, and prints. It decides nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click
from click.core import ParameterSource

from affiant.attestation.bundle.period.progress import period_progress
from affiant.attestation.cli.options.timestamp_option import timestamp, timestamp_if_given
from affiant.attestation.cli.options.trust_option import read_trust_file, trust_option
from affiant.attestation.release.manifest import build_name
from affiant.attestation.verdict.errors import SessionUnknown
from affiant.attestation.verdict.outcome import NO_DEMAND, Demand
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.files.bundle_files import (
    BUNDLE_ENDINGS,
    examine_file,
    find_bundles,
)
from affiant.attestation.verifier.report.output_files import Reports
from affiant.attestation.verifier.report.text import render
from affiant.attestation.verifier.report.timeline_csv import MAX_ROWS
from affiant.attestation.verifier.report.timeline_names import MAX_MOMENTS
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.command_line import print_json, printable, usage_error

if TYPE_CHECKING:
    from affiant.attestation.signatures.profiles.private_keys import SigningKey

__all__ = ["SIGNED_ENDING", "verify"]

SIGNED_ENDING: Final = ".verdict.dsse.json"

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_REPORT = click.Path(dir_okay=False, writable=True, path_type=Path)
_MAX_BUNDLES: Final = 10_000
"""A verdict of each is kept until the end."""
_PROCESSES: Final = 2
"""That verify the receipts of a period bundle; each takes some 100 MiB."""


class _Given(TypedDict):
    """The arguments of ``affiant verify``, as they were given."""

    bundles: tuple[Path, ...]
    trust_path: Path
    at: datetime
    judged_now: bool
    collateral: Path | None
    request_path: Path | None
    response_path: Path | None
    session: str | None
    demand: Demand
    since: datetime | None
    until: datetime | None
    as_json: bool
    html: Path | None
    sarif: Path | None
    junit: Path | None
    rows: Path | None
    sign_with: Path | None
    signed: Path | None


def _demand(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Demand:
    try:
        return NO_DEMAND if value is None else Demand.parse(value)
    except ValueError as error:
        raise click.BadParameter(
            "not a level (L0 to L5), complete, or both with a comma: L3,complete"
        ) from error


@click.command()
@click.argument(
    "bundles", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="BUNDLE..."
)
@trust_option
@click.option(
    "--at",
    callback=timestamp,
    metavar="TIME",
    help="Judge at this time, with the collateral in the bundle (default: now). With --now: the bundle's own time.",
)
@click.option(
    "--now",
    "judged_now",
    is_flag=True,
    help="Judge the archived bundle now, and show what changed since its own time: "
    "the end of its time bounds, or --at.",
)
@click.option(
    "--collateral",
    type=click.Path(exists=True, readable=True, path_type=Path),
    metavar="DIR",
    help="With --now: your own, newer collateral, as `affiant collateral fetch` writes it. No network is used.",
)
@click.option("--request", "request_path", type=_FILE, help="A request body to compare with the receipts.")
@click.option("--response", "response_path", type=_FILE, help="A response body to compare with the receipts.")
@click.option("--session", help="Judge this session alone.")
@click.option(
    "--require",
    "demand",
    callback=_demand,
    metavar="L3,complete",
    help='Exit with 30 below this level (L0 to L5). "complete": also if a session has no signed end, or if a session '
    "of a whole period is not judged.",
)
@click.option(
    "--from",
    "since",
    callback=timestamp_if_given,
    metavar="TIME",
    help="Begin of your range: check that a period bundle has every record from here on.",
)
@click.option("--to", "until", callback=timestamp_if_given, metavar="TIME", help="The end of that range.")
@click.option("--json", "as_json", is_flag=True, help="Print the result document instead of the table.")
@click.option(
    "--html", type=_REPORT, help="Also write a page to read and print: self-contained, without script."
)
@click.option("--sarif", type=_REPORT, help="Also write SARIF 2.1.0, for code review pages.")
@click.option(
    "--junit", type=_REPORT, help="Also write JUnit XML, for CI; a case fails unless the verdict affirms."
)
@click.option(
    "--csv",
    "rows",
    type=_REPORT,
    help="Also write the timeline as CSV: one row a record, at most 100,000 in all.",
)
@click.option(
    "--sign",
    "sign_with",
    type=_FILE,
    metavar="KEY",
    help="Also sign the verdict with this private key (PEM: P-256, P-384 or Ed25519), as an in-toto statement in DSSE.",
)
@click.option(
    "--signed",
    type=_REPORT,
    metavar="FILE",
    help="Where the signed verdict goes (default: BUNDLE.verdict.dsse.json).",
)
@click.pass_context
def verify(ctx: click.Context, **given: Unpack[_Given]) -> None:
    """Check receipt bundles, offline, against your own trust file.

    A BUNDLE is a file, or a folder: every *.affiant.json and *.affiant.zip below it. Several are judged one by one and
    then compared with each other; the exit code is that of the worst.

    A period bundle (*.affiant.zip) is judged along its log. Whether anything is missing from it is judged over your own
    range, --from and --to (RFC 3339, or seconds since 1970); without one, coverage is not made.

    Reports and the signed verdict are written whatever the verdict is, and replace what was there, but nothing that is
    read. `affiant verdict check` reads a signed verdict again.

    Exit codes: 0 affirming, 10 warning, 20 contraindicated, 30 none (it cannot be judged, or falls short of --require),
    40 simulated, 2 usage, 1 the verdict could not be written.

    \b
    Examples:
      affiant verify session.affiant.json --trust trust.json
      affiant verify session.affiant.json --trust trust.json --at 2026-11-21T12:00:00Z --json
      affiant verify session.affiant.json --trust trust.json --response answer.json
      affiant verify session.affiant.json --trust trust.json --require L3,complete
      affiant verify session.affiant.json --trust trust.json --html report.html --junit checks.xml
      affiant verify november.affiant.zip --trust trust.json --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z
      affiant verify session.affiant.json --trust trust.json --now --collateral collateral/
      affiant verify november.affiant.zip --trust trust.json --now --collateral collateral/
      affiant verify monday.affiant.json tuesday.affiant.json archive/ --trust trust.json --html report.html
      affiant verify session.affiant.json --trust trust.json --sign auditor.pem --signed verdict.dsse.json
    """
    bundles = given["bundles"]
    one = len(bundles) == 1 and not bundles[0].is_dir()
    _demand_fitting(given, one=one)
    question = _question(given, at_asked=ctx.get_parameter_source("at") is ParameterSource.COMMANDLINE)
    reports = Reports(html=given["html"], sarif=given["sarif"], junit=given["junit"], csv=given["rows"])
    if (key := given["sign_with"]) is not None:
        place = given["signed"] or bundles[0].with_name(f"{bundles[0].name}{SIGNED_ENDING}")
        reports = replace(reports, signed=place, signer=_signer(key))
    found = _found(bundles)
    inputs = (given["trust_path"], given["request_path"], given["response_path"], key)
    reports.keep_apart([*found, *(path for path in inputs if path is not None)])
    judge = partial(_verify_one, bundles[0]) if one else partial(_verify_several, found)
    ctx.exit(judge(question, reports, as_json=given["as_json"]))


def _demand_fitting(given: _Given, *, one: bool) -> None:
    """Refuse options that do not go together. ``one``: the verdict is about one bundle.

    Raises:
        click.UsageError: as named.
    """
    if given["collateral"] is not None and not given["judged_now"]:
        raise click.UsageError(
            "--collateral was given without --now. Give both: --now compares your collateral with the archived one."
        )
    if given["signed"] is not None and given["sign_with"] is None:
        raise click.UsageError(
            "--signed was given without --sign. Name the key that signs the verdict: --sign KEY."
        )
    if one:
        return
    if given["sign_with"] is not None:
        named = "several were named" if len(given["bundles"]) > 1 else "a folder was named"
        raise click.UsageError(f"--sign is about one bundle file, and {named}. Name one file.")
    if (given["request_path"], given["response_path"], given["session"]) != (None, None, None):
        raise click.UsageError(
            "--request, --response and --session are about one bundle, and several were named. Name one file."
        )


def _question(given: _Given, *, at_asked: bool) -> Question:
    """What is asked of each bundle. ``at_asked``: ``--at`` was given."""
    request, response, at = given["request_path"], given["response_path"], given["at"]
    judged_now = given["judged_now"]
    return Question(
        trust=read_trust_file(given["trust_path"]),
        verifiers=STANDARD_VERIFIERS,
        at=datetime.now(UTC) if judged_now else at,
        build=build_name(),
        compared=_compared(at if at_asked else None, given["collateral"]) if judged_now else None,
        request=None if request is None else request.read_bytes(),
        response=None if response is None else response.read_bytes(),
        session=given["session"],
        demand=given["demand"],
        since=given["since"],
        until=given["until"],
        processes=min(_PROCESSES, len(os.sched_getaffinity(0))),
        timeline=MAX_ROWS if given["rows"] is not None else MAX_MOMENTS if given["html"] is not None else 0,
        progress=period_progress(),
    )


def _signer(path: Path) -> SigningKey:
    """The private key at ``path``, read before anything is judged.

    Raises:
        click.UsageError: it cannot be used.
    """
    from affiant.attestation.signatures.profiles.errors import SigningKeyInvalid  # noqa: PLC0415 - only if asked
    from affiant.attestation.signatures.profiles.private_keys import read_signing_key  # noqa: PLC0415 - as above

    try:
        return read_signing_key(path)
    except SigningKeyInvalid as error:
        raise usage_error(error) from error


def _compared(since: datetime | None, collateral: Path | None) -> Comparison:
    if collateral is None:
        return Comparison(since, None)
    from affiant.attestation.verifier.files.newer_collateral import collateral_at  # noqa: PLC0415 - only if asked

    return Comparison(since, collateral_at(collateral))


def _found(given: Sequence[Path]) -> Sequence[Path]:
    files = find_bundles(given)
    if not files:
        endings = " or ".join(BUNDLE_ENDINGS)
        raise click.UsageError(
            f"no bundle was found; expected files that end in {endings}. Name another folder."
        )
    if len(files) > _MAX_BUNDLES:
        raise click.UsageError(
            f"{len(files)} bundles were named; at most {_MAX_BUNDLES} are judged at once. Name fewer."
        )
    return files


def _verify_one(file: Path, question: Question, reports: Reports, *, as_json: bool) -> int:
    """The exit code."""
    try:
        verdict = examine_file(file, question).verdict
    except SessionUnknown as error:
        raise click.UsageError(f"--session: {printable(str(error))} [{error.code}]") from error
    reports.write(verdict, bundle=file.name)
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo(render(verdict), nl=False)
    return verdict.exit_code


def _verify_several(files: Sequence[Path], question: Question, reports: Reports, *, as_json: bool) -> int:
    """The exit code."""
    from affiant.attestation.verifier.report.text_several import render_several  # noqa: PLC0415 - only if asked
    from affiant.attestation.verifier.several import judge_several  # noqa: PLC0415 - as above

    question, show = replace(question, held_against=True), period_progress()
    verdict = judge_several(
        [(str(file), partial(examine_file, file, question)) for file in files],
        question.trust,
        at=question.at,
        build=question.build,
        moments=question.timeline,
        judged_one=lambda done: show("judged", done, len(files)),
    )
    reports.write_several(verdict)
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo(render_several(verdict), nl=False)
    return verdict.exit_code
