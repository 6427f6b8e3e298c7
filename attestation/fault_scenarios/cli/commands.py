"""``affiant platform evidence`` and ``affiant platform scenarios``: the clock, one new folder, and what is printed.

What a command needs is imported when it runs, so that help costs nothing.
"""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.attestation.encoding.binary_text import EncodingError, from_hex
from affiant.command_line import print_json, printable
from affiant.errors import ConfigurationError

__all__ = ["evidence", "scenarios"]

_LAYOUTS: Final = ("v4", "v5", "v5-td15")
_SEED_SIZE: Final = 32
_YEARS: Final = range(2000, 2100)
"""When evidence can be issued: its certificates reach 32 years back and 31 forward, and X.509 times begin in 1950."""


def _issued(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime:
    """Whole seconds, in the years in which evidence can be issued."""
    issued = timestamp(ctx, param, value).replace(microsecond=0)
    if issued.year not in _YEARS:
        raise click.BadParameter(f"evidence is issued in the years {_YEARS[0]} to {_YEARS[-1]}")
    return issued


def _seed(_ctx: click.Context, _param: click.Parameter, value: str | None) -> bytes:
    if value is None:
        return os.urandom(_SEED_SIZE)
    try:
        return from_hex(value, size=_SEED_SIZE)
    except EncodingError as error:
        raise click.BadParameter(f"not a seed: {_SEED_SIZE} bytes in lower-case hexadecimal") from error


@click.command()
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to write; it must not be there yet, or be empty.",
)
@click.option("--scenario", metavar="NAME", help="Which scenario (default: up-to-date, on which all holds).")
@click.option("--all", "everything", is_flag=True, help="All scenarios, as a folder of test vectors.")
@click.option(
    "--layout",
    type=click.Choice(_LAYOUTS),
    help="Quote v4, v5, or v5 with a TD 1.5 body (default: v4 where it exists; with --all: each).",
)
@click.option(
    "--at",
    callback=_issued,
    metavar="TIME",
    help="When everything is issued and judged: `now` (the default), RFC 3339 in UTC, or seconds since 1970.",
)
@click.option(
    "--seed",
    callback=_seed,
    metavar="HEX",
    help="32 bytes from which all keys come: the same seed and time give the same files. Default: random, not kept. "
    "Who knows a seed can make more evidence under its root.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def evidence(
    *,
    output: Path,
    scenario: str | None,
    everything: bool,
    layout: str | None,
    at: datetime,
    seed: bytes,
    as_json: bool,
) -> None:
    """Write SIMULATED evidence in which exactly one thing is wrong (or nothing), and the command line that judges it.

    A scenario's folder holds quote.bin, collateral.json, root.pem, eventlog.json, expected.json and what the reader
    accepts. --all writes the folder of test vectors that `affiant quote conformance` runs, for any other verifier too.

    Exit codes: 0 written, 2 usage, also for an unknown scenario or a folder that is not new.

    \b
    Examples:
      affiant platform evidence --output ./good
      affiant platform evidence --output ./revoked --scenario pck-revoked
      affiant platform evidence --output ./vectors --all --at 2026-11-21T12:00:00Z
    """
    from fault_scenarios.cli.writing import (  # noqa: PLC0415 - as above
        all_scenarios,
        choose,
        one_scenario,
    )
    from fault_scenarios.files import verify_command  # noqa: PLC0415 - help must stay cheap
    from fault_scenarios.new_folder import write_new_folder  # noqa: PLC0415 - as above
    from fault_scenarios.scenario import LAYOUT_NAMES  # noqa: PLC0415 - as above

    if everything and scenario is not None:
        raise click.UsageError("--all and --scenario: give one of them")
    asked = next((known for known, name in LAYOUT_NAMES.items() if name == layout), None)
    document: dict[str, object] = {
        "typ": "affiant-platform-evidence/1",
        "simulated": True,
        "output": str(output),
        "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
    }
    try:
        if everything:
            made, files = all_scenarios(seed=seed, at=at, layout=asked)
            document |= {"cases": len(made.cases), "eventlogs": len(made.event_logs)}
            command = f"affiant quote conformance {shlex.quote(str(output))}"
            text = f"{len(made.cases)} cases and {len(made.event_logs)} event logs"
        else:
            chosen, form = choose(scenario or "up-to-date", asked)
            found, files = one_scenario(chosen, form, seed=seed, at=at, folder=output)
            document |= {"scenario": chosen.to_json(), "layout": LAYOUT_NAMES[form]}
            command = verify_command(output, found)
            text = f"{chosen.name} ({LAYOUT_NAMES[form]}): {chosen.description}\nexpected: {chosen.expected}"
        write_new_folder(output, files)
    except ConfigurationError as error:
        raise click.UsageError(f"{printable(str(error))} [{error.code}]") from error
    if as_json:
        print_json(document | {"command": command})
    else:
        click.echo(f"SIMULATED evidence in {output}\n{text}\n\n{command}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the list.")
def scenarios(*, as_json: bool) -> None:
    """List the scenarios of `affiant platform evidence`: what is wrong in each, and what must come of it.

    \b
    Examples:
      affiant platform scenarios
      affiant platform scenarios --json
    """
    from fault_scenarios.cli.catalogue import FAMILIES  # noqa: PLC0415 - help must stay cheap

    if as_json:
        listed = [
            {"family": family, **scenario.to_json()}
            for family, members in FAMILIES.items()
            for scenario in members
        ]
        print_json({"typ": "affiant-platform-scenarios/1", "simulated": True, "scenarios": listed})
        return
    for family, members in FAMILIES.items():
        click.echo(f"{family}:")
        for scenario in members:
            click.echo(f"  {scenario.name:<46} {scenario.expected}")
            click.echo(f"      {scenario.description}")
