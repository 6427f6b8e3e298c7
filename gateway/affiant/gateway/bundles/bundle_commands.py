"""``affiant bundle``: what is in a bundle, and period bundles out of a gateway's store."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from affiant.attestation.cli.bundle.bundle_show import show
from affiant.attestation.cli.options.timestamp_option import timestamp_if_given
from affiant.command_line import Group, print_json

if TYPE_CHECKING:
    from affiant.gateway.bundles.export import Exported

__all__ = ["bundle"]

_MAX_LABEL: Final = 16 * 1024


@click.group(cls=Group)
def bundle() -> None:
    """Bundles of receipts: export a period of a gateway, look into one."""


bundle.add_command(show)


def _default_home() -> str:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return str(Path(state) / "affiant")


def _label(file: BinaryIO | None) -> tuple[str, ...]:
    from affiant.attestation.encoding.canonical import JSONError, parse_object  # noqa: PLC0415 - help needs no extra

    if file is None:
        return ()
    try:
        match parse_object(file.read(_MAX_LABEL + 1), limit=_MAX_LABEL):
            case {"disclosures": list() as found} if all(
                isinstance(each, str) and each.isascii() for each in found
            ):
                return tuple(found)
    except JSONError:
        pass
    raise click.UsageError(f"{file.name} is not a task label. Use `task.json` from the session's folder.")


@bundle.command()
@click.option(
    "--from", "since", callback=timestamp_if_given, metavar="TIME", help="Begin here (RFC 3339, or seconds)."
)
@click.option("--to", "until", callback=timestamp_if_given, metavar="TIME", help="End before this.")
@click.option("--session", "sessions", multiple=True, metavar="ID", help="Only these sessions; repeatable.")
@click.option(
    "--store",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The gateway's folder; default: gateway/ in --home.",
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=_default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="Folder that holds gateway/.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    required=True,
    help="The archive to write; a file that is there is replaced once the new one is whole.",
)
@click.option(
    "--openings",
    "openings",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="KEYFILE",
    help="Open what is sealed to this tenant's key (openings.key of the user who started the sessions), and put it in; "
    "repeatable. The archive is then readable for you alone.",
)
@click.option(
    "--label",
    type=click.File("rb", lazy=False),
    metavar="FILE",
    help="Show a session's task label: `task.json` in the session's folder of its starter. Its disclosures are put in, "
    "so the archive is readable for you alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def export(
    *,
    since: datetime | None,
    until: datetime | None,
    sessions: tuple[str, ...],
    store: Path | None,
    home: Path,
    output: Path,
    openings: tuple[Path, ...],
    label: BinaryIO | None,
    as_json: bool,
) -> None:
    """Write the records of a period as one archive (*.affiant.zip), with what it takes to check them.

    Reads the store and changes nothing in it; the gateway may be running. Sessions that have a record in the range
    are exported whole. Receipts carry no disclosures unless you give --openings (a tenant's key that opens them; the
    command counts what it does not open) or --label. With either, the archive is readable for you alone (mode 0600).
    After Ctrl-C, or worse, the same command goes on where it was; another range begins anew. The same range of the
    same store gives the same bytes, with the same keys.

    \b
    Examples:
      affiant bundle export --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z -o november.affiant.zip
      affiant bundle export --session 0o2m0yYbVQkLhX4dJmQ3Ng --store /var/lib/affiant/gateway -o one.affiant.zip
      affiant bundle export --from 2026-11-01T00:00:00Z --openings openings.key -o november.affiant.zip

    \b
    Exit codes: 0 written, 1 refused, 2 usage, 130 stopped (go on with the same command).
    """
    from affiant.attestation.bundle.period.progress import period_progress  # noqa: PLC0415 - as above
    from affiant.attestation.records.sealed_disclosures_key import read_disclosure_key  # noqa: PLC0415 - as above
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - as above

    try:
        from affiant.gateway.bundles.export import Asked, export_period  # noqa: PLC0415 - as above
        from affiant.gateway.bundles.period_store import open_store  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"'affiant bundle export' needs the package {error.name!r}. "
            "Install it with: pip install 'affiant[gateway]'"
        ) from error
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--from must be before --to")
    keys = tuple(read_disclosure_key(path) for path in openings)
    asked = Asked(since, until, tuple(sorted(set(sessions))) or None, keys, _label(label))
    try:
        done = export_period(
            open_store(store or home.absolute() / "gateway"),
            asked,
            output,
            exporter=f"affiant {build_name()}"[:200],
            progress=period_progress(),
        )
    except KeyboardInterrupt:
        click.echo("\nstopped; the same command goes on from here", err=True)
        raise
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    _show(done, output, as_json=as_json)


def _show(done: Exported, output: Path, *, as_json: bool) -> None:
    from affiant.attestation.verifier.files.opened_disclosures import Outcome, told  # noqa: PLC0415 - help needs no extra

    if as_json:
        print_json(
            {
                "file": str(output),
                "bytes": output.stat().st_size,
                "receipts": done.receipts,
                "leaves": done.leaves,
                "checkpoint": done.size,
                "cosigned": done.witnessed,
                "disclosures": done.opened is not None and done.opened[Outcome.OPENED] > 0,
                "resumed": done.resumed,
                "range": done.manifest.range.to_json(),
                **({} if done.opened is None else {"openings": dict(done.opened)}),
            }
        )
        return
    again = ", gone on from a draft" if done.resumed else ""
    click.echo(f"{output}: {done.receipts} receipts over {done.leaves} leaves of the range{again}")
    if done.opened is None:
        click.echo("no disclosures: what receipts commit to is not opened")
    else:
        click.echo(f"disclosures: of the receipts that hide something {told(done.opened)}")
    kind = "cosigned by witnesses" if done.witnessed else "signed by the log alone"
    click.echo(f"checkpoint of {done.size} leaves, {kind}")
    if not done.witnessed:
        click.echo(
            "under witnesses: export again once an epoch names a cosigned checkpoint after the range, or end it earlier"
        )
