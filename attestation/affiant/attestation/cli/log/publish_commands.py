"""Implements ``affiant log publish``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from affiant.attestation.cli.log.options import (
    json_option,
    key_option,
    policy_option,
    progress_of,
    refusals,
    timeout_option,
    verified_note,
)
from affiant.command_line import print_json, printable

__all__ = ["publish"]

_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_TYP: Final = "affiant-log-publish/1"


@click.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.argument("url", metavar="URL")
@click.option(
    "--checkpoint", "note_file", type=_FILE, help="Show this checkpoint, instead of the one in DIR."
)
@key_option
@policy_option
@timeout_option
@json_option
def publish(
    *,
    folder: Path,
    url: str,
    note_file: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Bring the copy of the log of DIR at URL (s3://bucket/prefix or file:///folder) up to its checkpoint.

    Tiles and entry bundles are created where they are missing and never written over; anchors follow; the checkpoint
    comes last. Run it as often as you like: it goes on where another ended. Everything that is written is held against
    the checkpoint first, and the checkpoint against --key or --policy, if given.

    Credentials, endpoint and region are read from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    AWS_ENDPOINT_URL, AWS_REGION.

    Exit codes: 0 the store shows it, 20 something does not hold or is in the way, 30 the store or the folder cannot
    be reached, 2 usage.

    \b
    Examples:
      affiant log publish /var/lib/affiant/gateway/log/ID s3://bucket/prefix --key "$VKEY"
      curl -sk https://127.0.0.1:8443/log/checkpoint > newest &&
        affiant log publish /var/lib/affiant/gateway/log/ID s3://bucket --checkpoint newest --policy witnesses.policy
    """
    from affiant.attestation.log.publish.anchor_source import AnchorSource  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log.publish.publishing import Publisher  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.folder import FolderLog  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.object_store import open_objects  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.note import MAX_NOTE_BYTES, parse_note  # noqa: PLC0415 - as above

    with refusals(_TYP, as_json=as_json):
        store = open_objects(url, answer_s=timeout)
        source = FolderLog(folder)
        if note_file is None:
            note = read_checkpoint(source)
        else:
            with note_file.open("rb") as opened:
                note = parse_note(opened.read(MAX_NOTE_BYTES + 1))
        signed = verified_note(note, keys, policy)
        done = Publisher(source, AnchorSource(folder / "anchors"), store).publish(note, progress=_progress())
    if as_json:
        print_json(
            {
                "typ": _TYP,
                "url": store.name,
                "origin": done.origin,
                "size": done.size,
                "written": done.written,
                "checkpoint_written": done.checkpoint,
                "signature_checked": signed is not None,
            }
        )
    else:
        what = f"{done.written} objects written" if done.written or done.checkpoint else "nothing to do"
        click.echo(printable(f"{store.name}: {done.size} leaves of {done.origin}, {what}"))


def _progress() -> Callable[[int, int], None]:
    tell: Callable[[int], None] | None = None

    def progress(done: int, total: int) -> None:
        nonlocal tell
        if tell is None:
            tell = progress_of("published", total)
        tell(done)

    return progress
