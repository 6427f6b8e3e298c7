"""``affiant quote``: the rim. Reads files and the clock, prints, chooses exit codes; decides nothing.

What a command needs is imported when it runs, so that help costs nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from affiant.attestation.quotes.quote_file import MAX_QUOTE_FILE, QuoteFile, read_quote_file
from affiant.command_line import EXIT_REFUSED, Group, print_json, show_refusal
from affiant.errors import AffiantError

__all__ = ["quote"]

_DASH: Final = Path("-")
_quote_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")


@click.group(cls=Group)
def quote() -> None:
    """Inspect, verify and explain TDX quotes, offline.

    FILE is a quote in raw bytes, hexadecimal or base64; `-` reads standard input.

    \b
    Examples:
      affiant quote inspect quote.bin
    """


@quote.command()
@_quote_file
@_json
def inspect(file: Path, *, as_json: bool) -> None:
    """Print everything that a quote claims, by name. Verifies nothing.

    Exit codes: 0 it is a TDX quote, 1 it is not (the refusal says what it is instead), 2 usage.

    \b
    Examples:
      affiant quote inspect quote.bin
      affiant quote inspect quote.hex --json
      cat /sys/kernel/config/tsm/report/r0/outblob | affiant quote inspect -
    """
    from affiant.attestation.quotes.inspection import inspect_quote  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quotes.inspection_text import render_inspection  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote import dissect_quote  # noqa: PLC0415 - as above

    try:
        found = _read_quote(file)
        document = inspect_quote(dissect_quote(found.data), found)
    except AffiantError as refusal:
        if as_json:
            print_json({"typ": "affiant-quote-inspection/1", "refused": refusal.to_json()})
        else:
            show_refusal(refusal)
        raise click.exceptions.Exit(EXIT_REFUSED) from refusal
    if as_json:
        print_json(document)
    else:
        click.echo(render_inspection(document), nl=False)


def _read_quote(file: Path) -> QuoteFile:
    """At most as much as a quote can be, so that a wrong file is refused without being read."""
    return read_quote_file(_read(file, MAX_QUOTE_FILE))


def _read(file: Path, limit: int) -> bytes:
    """The file's bytes, or the first ``limit`` + 1 of them, which every parser refuses."""
    if file == _DASH:
        return sys.stdin.buffer.read(limit + 1)
    with file.open("rb") as opened:
        return opened.read(limit + 1)
