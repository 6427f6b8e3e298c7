"""``affiant erase retention``: beside the commands of the authority, the one that reads a gateway's store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from affiant.attestation.cli.platform.hold_commands import erase
from affiant.attestation.erasure.keys import AUTHORITY_KEY
from affiant.attestation.erasure.making_orders import erasure_request
from affiant.attestation.erasure.request_file import MAX_ORDERS, Request
from affiant.command_line import print_json
from affiant.files import write_whole
from affiant.folders import default_home
from affiant.report_files import keep_apart

if TYPE_CHECKING:
    from affiant.gateway.erasure.retention import OldBoot

__all__ = ["erase"]


@erase.command()
@click.option(
    "--days",
    type=click.IntRange(1, 36500),
    required=True,
    help="Boots whose newest record is older than this. How long to retain is yours to decide.",
)
@click.option(
    "--store",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The gateway's folder, or a copy of it; default: gateway/ in --home.",
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="Folder that holds gateway/.",
)
@click.option("--basis", required=True, help="Why: the rule of retention. The record says it in clear.")
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The authority's key file, as `affiant erase keygen` made it.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Where to write the request; nothing is written where nothing is old enough.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retention(
    *, days: int, store: Path | None, home: Path, basis: str, key: Path, output: Path, as_json: bool
) -> None:
    """Sign a request to prune whole boots of a gateway whose retention is over: level 3.

    Reads the store and changes nothing in it. What the store says is believed: verify an export of the period first.
    The newest boot is never named, nor one of which something is held.

    \b
    Example:
      affiant erase retention --days 400 --basis "retention plan 4" --key officer.key -o r.json
      affiant erase --request r.json

    \b
    Exit codes: 0 written, or nothing is old enough; 1 refused; 2 usage.
    """
    try:
        from affiant.gateway.bundles.period_store import open_store  # noqa: PLC0415 - help needs no extra
        from affiant.gateway.erasure.retention import old_boots  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"'affiant erase retention' needs the package {error.name!r}. "
            "Install it with: pip install 'affiant[gateway]'"
        ) from error
    keep_apart([output], inputs=[key])
    signer = AUTHORITY_KEY.read(key)
    opened = open_store(store or home.absolute() / "gateway")
    now = datetime.now(UTC)
    found = old_boots(opened, before=(now - timedelta(days=days)).timestamp())
    items = [chain.item(basis) for boot in found.boots for chain in boot.chains]
    made = erasure_request(signer, items, origin=opened.log.origin, made=int(now.timestamp()))
    part = Request(made.kind, made.origin, tuple(made.orders)[:MAX_ORDERS])
    left = len(made.orders) - len(part.orders)
    if items:
        try:
            write_whole(output, part.to_bytes())
        except OSError as error:
            raise click.ClickException(f"{output}: {error.strerror}") from error
    _print_boots(found.boots, found.held, left, output if items else None, as_json=as_json)


def _print_boots(
    boots: Sequence[OldBoot], held: int, left: int, output: Path | None, *, as_json: bool
) -> None:
    if as_json:
        old = [
            {"records": boot.records, "chains": len(boot.chains), "newest": _shown(boot)} for boot in boots
        ]
        written = None if output is None else str(output)
        print_json({"boots": old, "held": held, "orders_left": left, "file": written})
        return
    for boot in boots:
        click.echo(f"boot of {boot.records} records in {len(boot.chains)} chains, newest {_shown(boot)}")
    if held:
        click.echo(f"{held} boots are old enough, and something of them is held")
    if output is None:
        click.echo("nothing to prune; nothing was written")
        return
    if left:
        click.echo(f"{left} orders do not fit: hand this request over, then make the next one", err=True)
    click.echo(f"hand it over with: affiant erase --request {output}", err=True)


def _shown(boot: OldBoot) -> str:
    return datetime.fromtimestamp(boot.newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
