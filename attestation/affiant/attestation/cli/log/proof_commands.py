"""Implements ``affiant log prove`` and ``consistency``, which make proofs for others from a log's tiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from affiant.attestation.cli.log.options import (
    FILE,
    LogAccess,
    LogCommand,
    log_options,
    read_bounded,
    require_new,
    write_new,
)
from affiant.document_output import Output

if TYPE_CHECKING:
    from affiant.attestation.tlog.note import Note

__all__ = ["consistency", "prove"]


@click.command(cls=LogCommand, typ="affiant-log-prove/1")
@log_options()
@click.argument("leaf", metavar="INDEX|RECEIPT-HASH")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write; nothing is overwritten.",
)
def prove(*, access: LogAccess, leaf: str, output: Path) -> Output:
    """Write a proof that a leaf is in the log (C2SP tlog-proof), with the log's newest checkpoint.

    The leaf is named by its index, or by the SHA-256 of its receipt's JWS (43 characters of base64url, or 64 of
    hexadecimal), which is looked for from the start. The proof is verified before it is written.

    Exit codes: 0 written, 20 something does not hold or there is no such leaf, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log prove https://log.example/affiant 4711 -o receipt.tlog-proof
      affiant log prove /var/lib/affiant/gateway/log/ID "$RH" --key "$VKEY" -o receipt.tlog-proof
    """
    from affiant.attestation.log_reading.proving import prove_leaf  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.reader import LogTree, read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above

    require_new(output)
    with access.opened() as source:
        wanted = _leaf(leaf)
        note = read_checkpoint(source)
        signed = access.verified(note)
        tree = LogTree(source, parse_checkpoint(note.text))
        index = wanted if isinstance(wanted, int) else tree.find(wanted)
        entry, proof = prove_leaf(tree, index, note)
        write_new(output, proof.to_bytes())
    return Output(
        {
            "typ": "affiant-log-prove/1",
            "written": str(output),
            "index": index,
            "size": tree.checkpoint.size,
            "origin": tree.checkpoint.origin,
            "kind": entry.kind,
            "receipt": entry.rh.hex(),
            "signature_checked": signed is not None,
        }
    )


@click.command(cls=LogCommand, typ="affiant-log-consistency/1")
@log_options()
@click.argument("old", type=FILE, metavar="OLD-CHECKPOINT")
@click.argument("new", type=FILE, metavar="[NEW-CHECKPOINT]", required=False)
def consistency(*, access: LogAccess, old: Path, new: Path | None) -> Output:
    """Prove that the tree of an older checkpoint is the beginning of a newer one's: nothing was changed or removed.

    OLD-CHECKPOINT and NEW-CHECKPOINT are signed notes in files; without the second, the log's newest one counts. The
    proof is made from the log's tiles, and verified.

    Exit codes: 0 it is, 20 it is not or something does not hold, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log consistency https://log.example/affiant yesterday.checkpoint --key "$VKEY"
      affiant log consistency /var/lib/affiant/gateway/log/ID old.checkpoint new.checkpoint --policy witnesses.policy
    """
    from affiant.attestation.log_reading.proving import prove_consistency  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.note import to_base64  # noqa: PLC0415 - as above

    with access.opened() as source:
        notes = (_note_file(old), read_checkpoint(source) if new is None else _note_file(new))
        checked = [access.verified(note) for note in notes]
        first, second = (parse_checkpoint(note.text) for note in notes)
        path = prove_consistency(source, first, second)
    return Output(
        {
            "typ": "affiant-log-consistency/1",
            "origin": second.origin,
            "old": first.size,
            "new": second.size,
            "proof": [to_base64(each) for each in path],
            "signature_checked": all(each is not None for each in checked),
        }
    )


def _note_file(path: Path) -> Note:
    from affiant.attestation.tlog.note import MAX_NOTE_BYTES, parse_note  # noqa: PLC0415 - as above
    from affiant.errors import AffiantError  # noqa: PLC0415 - as above

    try:
        return parse_note(read_bounded(path, MAX_NOTE_BYTES))
    except AffiantError as error:
        error.where = path.name
        raise


def _leaf(text: str) -> int | bytes:
    """An index, or the hash of a receipt."""
    from affiant.attestation.log_reading.proving import parse_leaf_name  # noqa: PLC0415 - as above

    wanted = parse_leaf_name(text)
    if wanted is None:
        raise click.BadParameter("neither an index nor a receipt hash", param_hint="INDEX|RECEIPT-HASH")
    return wanted
