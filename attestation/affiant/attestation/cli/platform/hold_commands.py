"""Implements ``affiant erase`` and ``affiant hold``: keys, signed requests, and their delivery to the gateway."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle, parse_bundle
from affiant.attestation.cli.platform.submit_hold import submit
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.erasure.errors import RequestFileMalformed
from affiant.attestation.erasure.keys import AUTHORITY_KEY
from affiant.attestation.erasure.making_orders import erasure_request, hold_request, origin_of, session_items
from affiant.attestation.erasure.request_file import MAX_REQUEST, Request, parse_request
from affiant.command_line import Group, print_json, printable
from affiant.document_output import Output, print_output
from affiant.files import write_whole
from affiant.folders import default_home
from affiant.report_files import keep_apart

__all__ = ["erase", "hold"]

_home = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="State folder of the gateway.",
)
_request = click.option(
    "--request", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A signed request."
)
_bundle = click.argument("bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_key = click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The authority's key file, as `affiant erase keygen` made it.",
)
_basis = click.option(
    "--basis", required=True, help="Why: the order, the article, the case. The record says it in clear."
)
_output = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Where to write the request.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=Group, invoke_without_command=True)
@_home
@_request
@_json
@click.pass_context
def erase(context: click.Context, *, home: Path, request: Path | None, as_json: bool) -> None:
    """Erase the content of records, or records, by the order of an erasure authority.

    With --request it is handed to the gateway that serves from --home: each order is recorded and logged first, then
    carried out. The record proves that it was ordered. That nothing is left (in backups, in bundles that were handed
    out, on the disk) it does not prove.

    \b
    Examples:
      affiant erase keygen -o officer.key > officer.jwk
      affiant erase make s.affiant.json --session ID --level 1 --basis "Art. 17" --key officer.key -o r.json
      affiant erase show r.json
      affiant erase --request r.json
      affiant erase retention --days 400 --basis "retention plan 4" --key officer.key -o r.json

    \b
    Exit codes: 0 done, 1 refused, 2 usage.
    """
    if context.invoked_subcommand is None:
        if request is None:
            raise click.UsageError("name a request with --request FILE, or a command")
        _hand_over(home, request, "erasure", as_json=as_json)


@click.group(cls=Group, invoke_without_command=True)
@_home
@_request
@_json
@click.pass_context
def hold(context: click.Context, *, home: Path, request: Path | None, as_json: bool) -> None:
    """Hold a session or a record, so that nothing of it is erased, or end a hold.

    \b
    Examples:
      affiant hold make s.affiant.json --target ID --basis "case 12/26" --key officer.key -o hold.json
      affiant hold --request hold.json
      affiant hold release s.affiant.json --target ID --hold RH --basis settled --key officer.key -o end.json
      affiant hold --request end.json

    \b
    Exit codes: 0 done, 1 refused, 2 usage.
    """
    if context.invoked_subcommand is None:
        if request is None:
            raise click.UsageError("name a request with --request FILE, or a command")
        _hand_over(home, request, "hold", as_json=as_json)


@erase.command()
@_output
def keygen(*, output: Path) -> None:
    """Make a key for an erasure authority; print its public half as a JWK. Never writes over a file.

    \b
    Example:
      affiant erase keygen -o officer.key > officer.jwk
    """
    content = AUTHORITY_KEY.make(os.urandom)
    try:
        write_whole(output, content, mode=0o600, exact=True, replace=False)
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from error
    click.echo(json.dumps(public_jwk(AUTHORITY_KEY.parse(content).public_key)))


@erase.command()
@_bundle
@click.option("--session", required=True, metavar="ID", help="Everything of this session in the bundle.")
@click.option(
    "--level",
    type=click.IntRange(1, 2),
    required=True,
    help="1: the content; receipts still verify. 2: the records too; of start, close and the like the content alone.",
)
@_basis
@_key
@_output
def make(*, bundle: Path, session: str, level: int, basis: str, key: Path, output: Path) -> None:
    """Sign a request to erase what BUNDLE has of one session. Read the bundle's verdict first.

    \b
    Example:
      affiant erase make s.affiant.json --session ID --level 1 --basis "Art. 17" --key officer.key -o r.json
    """
    keep_apart([output], inputs=[bundle, key])
    found = _read_bundle(bundle)
    items = session_items(found, session, level=level, basis=basis)
    _write(output, erasure_request(AUTHORITY_KEY.read(key), items, origin=origin_of(found), made=_now()))
    click.echo(f"{len(items)} records named; hand it over with: affiant erase --request {output}", err=True)


@hold.command("make")
@_bundle
@click.option("--target", required=True, metavar="ID", help="A session's id, or a receipt hash.")
@_basis
@_key
@_output
def make_hold(*, bundle: Path, target: str, basis: str, key: Path, output: Path) -> None:
    """Sign a request to hold a session or record in the log of BUNDLE.

    \b
    Example:
      affiant hold make s.affiant.json --target ID --basis "case 12/26" --key officer.key -o hold.json
    """
    keep_apart([output], inputs=[bundle, key])
    origin = origin_of(_read_bundle(bundle))
    _write(output, hold_request(AUTHORITY_KEY.read(key), target, basis, origin=origin, made=_now()))


@hold.command()
@_bundle
@click.option("--target", required=True, metavar="ID", help="The held session's id, or a receipt hash.")
@click.option(
    "--hold",
    "ends",
    required=True,
    metavar="RH",
    help="Receipt hash of the hold's record.",
)
@_basis
@_key
@_output
def release(*, bundle: Path, target: str, ends: str, basis: str, key: Path, output: Path) -> None:
    """Sign a request to end a hold.

    \b
    Example:
      affiant hold release s.affiant.json --target ID --hold RH --basis settled --key officer.key -o end.json
    """
    keep_apart([output], inputs=[bundle, key])
    origin = origin_of(_read_bundle(bundle))
    made = hold_request(AUTHORITY_KEY.read(key), target, basis, origin=origin, made=_now(), ends=ends)
    _write(output, made)


@erase.command()
@click.argument("request", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_json
def show(*, request: Path, as_json: bool) -> None:
    """Show what a request orders. The signatures are not verified here; the gateway and the verifier do that.

    \b
    Example:
      affiant erase show r.json
    """
    found = parse_request(_read(request, MAX_REQUEST))
    if as_json:
        print_json(json.loads(found.to_bytes()))
        return
    click.echo(
        f"{found.kind}, log {printable(found.origin)}, {len(found.orders)} orders, signatures not verified"
    )
    for order in found.orders:
        for line in _lines(order):
            click.echo(printable(line))


hold.add_command(show)


def _lines(order: Any) -> list[str]:
    if "del" in order:
        what = {1: "content of", 2: "record", 3: "chain up to"}
        return [
            f"  {what[each['lvl']]} {each['chn']}:{each['seq']}  {each['rh']}  {each['basis']!r}"
            for each in order["del"]
        ]
    verb = "end the hold " + order["rel"] + " of" if "rel" in order else "hold"
    return [f"  {verb} {order['tgt']}  {order['basis']!r}"]


def _hand_over(home: Path, path: Path, kind: str, *, as_json: bool) -> None:
    data = _read(path, MAX_REQUEST)
    if parse_request(data).kind != kind:
        raise RequestFileMalformed(
            "a request of the other kind", expected=f"affiant-{kind}-request/1", where=str(path)
        )
    taken = submit(home.absolute(), data)
    print_output(Output({"orders": taken}), as_json=as_json)


def _read_bundle(path: Path) -> Bundle:
    return parse_bundle(_read(path, MAX_BUNDLE))


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise RequestFileMalformed(
            "the file cannot be read", where=str(path), found=error.strerror
        ) from error


def _write(path: Path, request: Request) -> None:
    try:
        write_whole(path, request.to_bytes())
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error


def _now() -> int:
    return int(datetime.now(UTC).timestamp())
