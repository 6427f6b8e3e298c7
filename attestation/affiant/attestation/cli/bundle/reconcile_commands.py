"""The command ``affiant reconcile``: reads files and the clock, prints, and chooses the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.attestation.audit.reconcile.buckets import SPANS
from affiant.attestation.audit.reconcile_report.options import bound, record_options, scope_of
from affiant.attestation.audit.records_of_others.bill import TIME_FORMS
from affiant.attestation.audit.records_of_others.proxy_formats import PROXY_FORMATS
from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.attestation.cli.options.trust_option import read_trust_file, trust_option
from affiant.command_line import ErrorShown, usage_error
from affiant.document_output import DocumentCommand, Output
from affiant.errors import AffiantError, ConfigurationError
from affiant.report_files import keep_apart

if TYPE_CHECKING:
    from affiant.attestation.audit.reconcile.verified_records import Records

__all__ = ["reconcile"]

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


class _Reconcile(DocumentCommand):
    """An error is one line: 2 where the command line cannot be meant, 1 where a bundle does not hold."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise usage_error(error) from error
        except AffiantError as error:
            raise ErrorShown(error) from error


@click.command(cls=_Reconcile)
@click.option(
    "--bundle", "bundles", multiple=True, required=True, type=_FILE, help="Receipts; several may be given."
)
@trust_option
@click.option(
    "--proxy-log", type=_FILE, help="An access log of a proxy between the gateway or sessions and the world."
)
@click.option("--bill", type=_FILE, help="An upstream's bill or usage export, CSV with a header.")
@click.option(
    "--spans", type=_FILE, help="OpenTelemetry spans, OTLP JSON lines (the collector's file exporter)."
)
@click.option(
    "--proxy-format", type=click.Choice(list(PROXY_FORMATS)), help="The log's format; never guessed."
)
@click.option("--log-host", metavar="HOST", help="The host that the log is of, where its lines name none.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=HEADER",
    help="A bill's columns: time, model, input, output, id; with --bucket also requests.",
)
@click.option(
    "--model-name",
    "models",
    multiple=True,
    metavar="BILLED=ASKED",
    help="A model that is billed by another name.",
)
@click.option(
    "--bucket",
    type=click.Choice(list(SPANS)),
    help="The bill has a row for each hour or day (UTC) and model.",
)
@click.option(
    "--bill-time",
    type=click.Choice(TIME_FORMS),
    default="rfc3339",
    show_default=True,
    help="The format of the bill's times.",
)
@click.option(
    "--from", "begin", callback=bound, metavar="TIME", help="Begin of the range (default: of the record)."
)
@click.option(
    "--to",
    "end",
    callback=bound,
    metavar="TIME",
    help="End of the range, not in it (default: of the record).",
)
@click.option("--host", "hosts", multiple=True, help="Follow items of this host alone; several may be given.")
@click.option(
    "--tolerance",
    type=click.IntRange(0, 3600),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="Seconds by which clocks may differ.",
)
@click.option(
    "--at", callback=timestamp, metavar="TIME", help="Judge the bundles at this time (default: now)."
)
@click.option(
    "--unverified", is_flag=True, help="Go on although a bundle's verdict does not hold; the output says so."
)
@click.option(
    "--show", type=click.IntRange(0, 10_000), default=20, show_default=True, help="Findings shown of a kind."
)
@click.option(
    "--csv",
    "csv_path",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write every item to a file.",
)
def reconcile(
    *,
    bundles: tuple[Path, ...],
    trust_path: Path,
    begin: int | None,
    end: int | None,
    hosts: tuple[str, ...],
    tolerance: int,
    at: datetime,
    unverified: bool,
    show: int,
    csv_path: Path | None,
    **record_named: Any,
) -> Output:
    """Follow every item of a record that another party keeps to the receipt that explains it.

    Whether receipts are complete cannot be seen in them: it is tested from a proxy's log, an upstream's bill or an
    agent's spans. Bundles are verified first. Every item ends as matched, ambiguous, missing, out of range or
    unreadable; nothing is guessed and nothing is lost.

    Exit codes: 0 every item has a receipt of its own, 10 some are ambiguous or unreadable (or there was none), 20 some
    have no receipt, 1 a bundle does not hold, 2 usage.

    \b
    Examples:
      affiant reconcile --bundle s.affiant.json --trust trust.json --proxy-log access.log --proxy-format squid
      affiant reconcile --bundle s.affiant.json --trust trust.json --spans spans.jsonl --csv items.csv
      affiant reconcile --bundle s.affiant.json --trust trust.json --bill usage.csv --bucket day --bill-time date
        --column time=Day --column model=Model --column requests=Requests --from 2026-11-01T00:00:00Z
    """
    from affiant.attestation.audit.reconcile_report.following import follow  # noqa: PLC0415 - as above
    from affiant.attestation.audit.reconcile_report.report_document import ending, report_document  # noqa: PLC0415 - as above
    from affiant.attestation.cli.log.options import progress_of  # noqa: PLC0415 - help must stay cheap

    record = record_options(**record_named)
    scope = scope_of(begin, end, hosts)
    keep_apart([csv_path], inputs=[record.path, trust_path, *bundles])
    known = _read_bundles(bundles, trust_path, at, accept_unverified=unverified)
    outcome = follow(
        record,
        known,
        scope,
        tolerance=tolerance * 1000,
        most_shown=show,
        csv_path=csv_path,
        progress=progress_of("bytes of the record read", record.path.stat().st_size),
    )
    return Output(report_document(outcome), outcome.tally.exit_code, ending(outcome))


def _read_bundles(
    paths: Sequence[Path], trust_path: Path, at: datetime, *, accept_unverified: bool
) -> tuple[Records, ...]:
    from affiant.attestation.audit.reconcile.verified_records import read_records  # noqa: PLC0415 - as above
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - as above
    from affiant.attestation.verifier.files.bundle_case import open_case  # noqa: PLC0415 - help must stay cheap

    trust = read_trust_file(trust_path)
    found = []
    for path in paths:
        with open_case(path, trust, at=at, build=build_name()) as judged:
            if judged is not None:
                found.append(read_records(*judged, where=path.name, accept_unverified=accept_unverified))
    return tuple(found)
