"""``affiant verify``: the rim of the verifier. Reads files and the clock; decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import click

from affiant.attestation.bundle import MAX_BUNDLE
from affiant.attestation.instant_option import instant
from affiant.attestation.release import build_name
from affiant.attestation.trust_file import parse_trust_file
from affiant.attestation.verifier.report_text import render
from affiant.attestation.verifier.verdict import Verdict
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.command_line import print_json
from affiant.errors import AffiantError

__all__ = ["verify"]

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_REPORT = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command()
@click.argument("bundle", type=_FILE)
@click.option(
    "--trust",
    "trust_path",
    type=_FILE,
    required=True,
    help="What you accept: your own file, never the bundle's.",
)
@click.option(
    "--at",
    callback=instant,
    metavar="TIME",
    help="Judge collateral and pins at this instant (default: now).",
)
@click.option("--request", "request_path", type=_FILE, help="A request body to hold against the receipts.")
@click.option("--response", "response_path", type=_FILE, help="A response body to hold against the receipts.")
@click.option("--session", help="Judge this session alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the result document instead of the table.")
@click.option(
    "--html", type=_REPORT, help="Also write a page to read and print: self-contained, without script."
)
@click.option("--sarif", type=_REPORT, help="Also write SARIF 2.1.0, for code review pages.")
@click.option(
    "--junit", type=_REPORT, help="Also write JUnit XML, for CI; a case fails unless the verdict affirms."
)
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    bundle: Path,
    trust_path: Path,
    at: datetime,
    request_path: Path | None,
    response_path: Path | None,
    session: str | None,
    as_json: bool,
    html: Path | None,
    sarif: Path | None,
    junit: Path | None,
) -> None:
    """Check a receipt bundle, offline, against your own trust file.

    Reports are written whatever the verdict is, and replace what was there.

    Exit codes: 0 affirming, 10 warning, 20 contraindicated, 30 none, 40 simulated, 2 usage.

    \b
    Examples:
      affiant verify session.affiant.json --trust trust.json
      affiant verify session.affiant.json --trust trust.json --at 2026-11-21T12:00:00Z --json
      affiant verify session.affiant.json --trust trust.json --response answer.json
      affiant verify session.affiant.json --trust trust.json --html report.html --junit checks.xml
    """
    try:
        trust = parse_trust_file(trust_path.read_bytes())
    except AffiantError as error:
        error.where = f"{trust_path.name}" if error.where is None else f"{trust_path.name}: {error.where}"
        raise click.UsageError(f"the trust file is refused: {error} [{error.code}]") from error
    if bundle.stat().st_size > MAX_BUNDLE:
        raise click.UsageError(f"{bundle} is larger than a single bundle may be ({MAX_BUNDLE >> 20} MiB)")
    verdict = verify_bundle(
        bundle.read_bytes(),
        trust,
        at=at,
        build=build_name(),
        request=None if request_path is None else request_path.read_bytes(),
        response=None if response_path is None else response_path.read_bytes(),
        session=session,
    )
    _write_reports(verdict, html=html, sarif=sarif, junit=junit, bundle=bundle.name)
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo(render(verdict), nl=False)
    ctx.exit(verdict.exit_code)


def _write_reports(
    verdict: Verdict, *, html: Path | None, sarif: Path | None, junit: Path | None, bundle: str
) -> None:
    """Each whole or not at all: a report that was cut off would say less than the verdict.

    Raises:
        click.UsageError: it cannot be written.
    """
    from affiant.attestation.verifier.report_html import render_html  # noqa: PLC0415 - only if asked
    from affiant.attestation.verifier.report_machine import render_junit, render_sarif  # noqa: PLC0415 - as above

    reports: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (html, lambda: render_html(verdict)),
        (sarif, lambda: render_sarif(verdict, bundle=bundle)),
        (junit, lambda: render_junit(verdict)),
    )
    for path, render_report in reports:
        if path is None:
            continue
        draft = path.with_name(f".{path.name}.new")
        try:
            draft.write_text(render_report(), encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
