"""Defines what the commands of ``affiant collateral`` share: options, the clock, and how an error is shown."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.command_line import printable
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.tdx.pki.roots import TrustRoots

__all__ = [
    "ca_option",
    "cache_option",
    "default_cache",
    "fmspc_option",
    "json_option",
    "now",
    "pccs_option",
    "proxy_option",
    "root_option",
    "roots_of",
    "timeout_option",
    "tls_ca_option",
]

FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)

fmspc_option = click.option("--fmspc", metavar="HEX", help="The platform's FMSPC, 12 hexadecimal digits.")
ca_option = click.option(
    "--ca", type=click.Choice(["platform", "processor"]), help="Who issues its PCK certificates."
)
cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="The cache's folder. Default: collateral/ in $AFFIANT_HOME, or in affiant of the XDG state folder.",
)
root_option = click.option(
    "--root",
    metavar="intel|FILE",
    default="intel",
    show_default=True,
    help="The root key you accept: Intel's, or a certificate or public key. Only Intel's is hardware.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of the table."
)
pccs_option = click.option(
    "--pccs", metavar="URL", help="Ask this PCCS instead of Intel's own service. https only."
)
tls_ca_option = click.option(
    "--tls-ca", type=FILE, help="PEM authorities for TLS, instead of the public ones."
)
proxy_option = click.option(
    "--proxy", metavar="URL", help="Go through this proxy; the environment is not read."
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For each answer, as a whole.",
)


def default_cache() -> Path:
    """``collateral/`` in ``$AFFIANT_HOME``, or in ``affiant`` of the XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(os.environ.get("AFFIANT_HOME") or Path(state) / "affiant") / "collateral"


def now() -> datetime:
    return datetime.now(UTC)


def roots_of(root: str) -> TrustRoots:
    from affiant.attestation.quote.judge.pins import MAX_ROOT_FILE, parse_root_file  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.pki.roots import TrustRoots  # noqa: PLC0415 - as above

    if root == "intel":
        return TrustRoots.intel()
    try:
        with open(root, "rb") as opened:
            return parse_root_file(opened.read(MAX_ROOT_FILE + 1))
    except (OSError, AffiantError) as error:
        raise click.UsageError(f"--root: {printable(str(error))}") from error
