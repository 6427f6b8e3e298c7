"""Defines what the commands of ``affiant quote`` share: arguments, options and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.attestation.encoding.binary_text import from_hex
from affiant.errors import AffiantError

__all__ = [
    "EXIT_CONTRAINDICATED",
    "EXIT_SIMULATED",
    "at_option",
    "cache_option",
    "collateral_option",
    "hexadecimal",
    "json_option",
    "quote_file_argument",
    "reference_option",
    "refuse_two_sources",
    "root_option",
]

EXIT_CONTRAINDICATED: Final = 20
EXIT_SIMULATED: Final = 40

quote_file_argument = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of the table."
)


def hexadecimal(_ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    """Bytes in hexadecimal of either case; None where nothing was given."""
    if value is None:
        return None
    try:
        return from_hex(value.lower())
    except AffiantError as error:
        raise click.BadParameter(f"{error}", param=param) from error


collateral_option = click.option(
    "--collateral",
    type=click.Path(exists=True, readable=True, path_type=Path),
    help="Collateral of the quote's platform: one JSON file, or a folder of the service's answers.",
)
cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="Or take it from this cache of `affiant collateral fetch`, which also remembers the newest it has held. "
    "Without --collateral: the default cache. No network is used.",
)
at_option = click.option(
    "--at",
    callback=timestamp,
    metavar="TIME",
    help="Judge at this time: `now` (the default), RFC 3339 in UTC, or seconds since 1970.",
)
root_option = click.option(
    "--root",
    metavar="intel|FILE",
    help="The root key you accept: Intel's, or a certificate or public key. Only Intel's is hardware. "
    "Default: the root that --reference or --policy names, else intel.",
)
reference_option = click.option(
    "--reference",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="What you accept to run: reference values, or your trust file. Without it or --policy nothing is appraised.",
)


def refuse_two_sources(collateral: Path | None, cache: Path | None) -> None:
    """Refuse --collateral beside --cache."""
    if collateral is not None and cache is not None:
        raise click.UsageError("--collateral and --cache are two sources of the same: give one of them")
