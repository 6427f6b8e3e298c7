"""Implements ``affiant quote``. It reads files and the clock, prints, and chooses exit codes.

What a command needs is imported when it runs, so that help costs nothing.
"""

from __future__ import annotations

from pathlib import Path

import click

from affiant.attestation.cli.quote.azure_command import verify_azure
from affiant.attestation.cli.quote.bounded_file import (
    read_quote,
)
from affiant.attestation.cli.quote.eventlog_command import eventlog
from affiant.attestation.cli.quote.explain_command import explain
from affiant.attestation.cli.quote.options import (
    json_option,
    quote_file_argument,
)
from affiant.attestation.cli.quote.policy_command import policy
from affiant.attestation.cli.quote.take_command import sources, take
from affiant.attestation.cli.quote.verify_command import verify
from affiant.command_line import EXIT_REFUSED, UsageGroup, print_json, refusals

__all__ = ["quote"]


@click.group(cls=UsageGroup)
def quote() -> None:
    """Inspect, verify and explain TDX quotes offline; collect one from this TD.

    FILE is a quote in raw bytes, hexadecimal or base64; `-` reads standard input.

    \b
    Examples:
      affiant quote inspect quote.bin
      affiant quote verify quote.bin --collateral collateral.json --reference trust.json
      affiant quote explain quote.bin --collateral collateral.json
      affiant quote eventlog ccel.bin --quote quote.bin
      affiant quote conformance vectors/tdx
      affiant quote policy check appraisal.yaml
      affiant quote take --report-data HEX --output quote.bin
    """


for _command in (verify, verify_azure, explain, eventlog, policy, take, sources):
    quote.add_command(_command)


@quote.command()
@quote_file_argument
@json_option
def inspect(file: Path, *, as_json: bool) -> None:
    """Print everything that a quote claims, by name. Verifies nothing.

    Exit codes: 0 it is a TDX quote, 1 it is not (the error says what it is instead), 2 usage.

    \b
    Examples:
      affiant quote inspect quote.bin
      affiant quote inspect quote.hex --json
      cat /sys/kernel/config/tsm/report/r0/outblob | affiant quote inspect -
    """
    from affiant.attestation.quote.show.inspection import inspect_quote  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quote.show.inspection_text import render_inspection  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote.quote import dissect_quote  # noqa: PLC0415 - as above

    with refusals("affiant-quote-inspection/1", as_json=as_json):
        found = read_quote(file)
        document = inspect_quote(dissect_quote(found.data), found)
    if as_json:
        print_json(document)
    else:
        click.echo(render_inspection(document), nl=False)


@quote.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@json_option
def conformance(folder: Path, *, as_json: bool) -> None:
    """Run this verifier on a folder of test vectors, and name every disagreement.

    DIR holds expected.json (schema 1, docs/formats/conformance.md) and the quotes, collateral, roots and event
    logs that it names.

    Exit codes: 0 no disagreement, 1 at least one, 2 usage, also for a folder that is empty or cannot be read.

    \b
    Examples:
      affiant quote conformance vectors/tdx
      affiant quote conformance vectors/tdx --json
    """
    from affiant.attestation.quote.judge.conformance import (  # noqa: PLC0415 - help must stay cheap
        render_conformance,
        run_conformance,
    )
    from affiant.attestation.quote.judge.vector_folder import open_vectors  # noqa: PLC0415 - as above

    result = run_conformance(open_vectors(folder))
    if as_json:
        print_json(result.to_json())
    else:
        click.echo(render_conformance(result), nl=False)
    if result.disagreements:
        raise click.exceptions.Exit(EXIT_REFUSED)
