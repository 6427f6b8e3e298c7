"""Implements ``affiant quote eventlog``: it replays an event log and shows which events are proven."""

from __future__ import annotations

from pathlib import Path

import click

from affiant.attestation.cli.quote.bounded_file import (
    read_event_log,
    read_quote,
)
from affiant.attestation.cli.quote.options import (
    json_option,
    quote_file_argument,
)
from affiant.command_line import EXIT_REFUSED, print_json, refusals, show_error
from affiant.errors import AffiantError

__all__ = ["eventlog"]


@click.command()
@quote_file_argument
@click.option(
    "--quote",
    "quote_path",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Compare with the registers that this quote claims; the quote itself is not verified here.",
)
@json_option
def eventlog(file: Path, *, quote_path: Path | None, as_json: bool) -> None:
    """Replay an event log to RTMR0-3, and show which events' contents are proven.

    FILE is a CCEL table (TCG2), the JSON array of dstack's guest agent (whole or lite), or an affiant-eventlog/1
    document. Contents are hashed again where the format permits. To appraise a log, give it to `affiant quote verify
    --event-log`.

    Exit codes: 0 it replays (with --quote: to the quote's registers), 1 it does not, or is refused, 2 usage.

    \b
    Examples:
      affiant quote eventlog /sys/firmware/acpi/tables/data/CCEL
      affiant quote eventlog eventlog.json --quote quote.bin --json
    """
    from affiant.attestation.quote.show.event_log_text import (  # noqa: PLC0415 - help must stay cheap
        event_log_document,
        render_event_log,
    )
    from affiant.attestation.tdx.event_log.measured_log import verify_replay  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote.quote import dissect_quote  # noqa: PLC0415 - as above

    body = None
    refused: AffiantError | None = None
    with refusals("affiant-eventlog-replay/1", as_json=as_json):
        log = read_event_log(file)
        if quote_path is not None:
            body = dissect_quote(read_quote(quote_path).data).body
    try:
        if body is not None:
            verify_replay(log, body)
    except AffiantError as refusal:
        refused = refusal
    if as_json:
        print_json(
            {**event_log_document(log, body), "refused": None if refused is None else refused.to_json()}
        )
    else:
        click.echo(render_event_log(log, body), nl=False)
    if refused is not None:
        if not as_json:
            show_error(refused)
        raise click.exceptions.Exit(EXIT_REFUSED) from refused
