"""Implements ``affiant log publish``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from affiant.attestation.cli.log.options import (
    FILE,
    LogAccess,
    LogCommand,
    log_options,
    progress_of,
    read_bounded,
)
from affiant.document_output import Output

__all__ = ["publish"]

_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(cls=LogCommand, typ="affiant-log-publish/1")
@log_options("folder", metavar="DIR", type=_FOLDER, tls=False)
@click.argument("url", metavar="URL")
@click.option("--checkpoint", "note_file", type=FILE, help="Show this checkpoint, instead of the one in DIR.")
def publish(*, access: LogAccess, url: str, note_file: Path | None) -> Output:
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

    folder = Path(access.log)
    store = open_objects(url, answer_s=access.settings.answer_s)
    source = FolderLog(folder)
    note = (
        parse_note(read_bounded(note_file, MAX_NOTE_BYTES))
        if note_file is not None
        else read_checkpoint(source)
    )
    signed = access.verified(note)
    publisher = Publisher(source, AnchorSource(folder / "anchors"), store)
    done = publisher.publish(note, progress=progress_of("published"))
    return Output(
        {
            "typ": "affiant-log-publish/1",
            "url": store.name,
            "origin": done.origin,
            "size": done.size,
            "written": done.written,
            "checkpoint_written": done.checkpoint,
            "signature_checked": signed is not None,
        }
    )
