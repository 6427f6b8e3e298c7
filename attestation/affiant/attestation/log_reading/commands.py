"""``affiant log``: the rim. Reads files, the network and the clock; prints; chooses exit codes; decides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.log_reading.options import (
    EXIT_REFUSED_LOG,
    EXIT_WARNING,
    LogGroup,
    json_option,
    key_option,
    log_argument,
    opened_log,
    policy_option,
    progress_of,
    refusals,
    settings_of,
    timeout_option,
    tls_ca_option,
    trust_from,
)
from affiant.attestation.monitor.commands import monitor
from affiant.command_line import print_json, printable

if TYPE_CHECKING:
    from affiant.attestation.log_reading.log_trust import LogTrust, SignedCheckpoint
    from affiant.attestation.tlog.note import Note

__all__ = ["log"]

_NOTE_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_SHOWN: Final = 20


@click.group(cls=LogGroup)
def log() -> None:
    """Read, check and watch a transparency log. LOG is a folder or an http(s) address.

    \b
    Examples:
      affiant log show https://log.example/affiant
      affiant log fsck /var/lib/affiant/gateway/log --key "$VKEY"
      affiant log prove https://log.example/affiant 4711 -o receipt.tlog-proof
      affiant log consistency https://log.example/affiant yesterday.checkpoint --key "$VKEY"
      affiant log monitor https://log.example/affiant --policy witnesses.policy --state /var/lib/monitor
    """


log.add_command(monitor)


@log.command()
@log_argument
@click.option("--from", "start", type=click.IntRange(min=0), help="First leaf to show.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Leaf to stop before.")
@key_option
@policy_option
@tls_ca_option
@timeout_option
@json_option
def show(
    *,
    log: str,
    start: int | None,
    end: int | None,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Print the checkpoint, its signatures, and leaves (the last 20, or those of --from and --to).

    Every leaf is held against the tree of the checkpoint; the checkpoint itself against --key or --policy, if given.

    Exit codes: 0 done, 20 something does not hold, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log show /var/lib/affiant/gateway/log
      affiant log show https://log.example/affiant --from 0 --to 100 --json
    """
    from affiant.attestation.log_reading.reader import LogTree, read_checkpoint  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.show_text import document, lines  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above

    with (
        refusals("affiant-log/1", as_json=as_json),
        opened_log(log, settings_of(tls_ca, timeout)) as source,
    ):
        note = read_checkpoint(source)
        signed = _verified(note, keys, policy)
        checkpoint = parse_checkpoint(note.text)
        tree = LogTree(source, checkpoint)
        last = checkpoint.size if end is None else min(end, checkpoint.size)
        first = max(0, last - _SHOWN) if start is None else start
        entries = tree.entries(first, last)
        if as_json:
            print_json(document(note, checkpoint, signed, entries))
        else:
            for line in lines(note, checkpoint, signed, entries):
                click.echo(line)


@log.command()
@log_argument
@key_option
@policy_option
@tls_ca_option
@timeout_option
@json_option
@click.pass_context
def fsck(
    ctx: click.Context,
    *,
    log: str,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Compute the whole tree again from its leaves, and hold every tile, bundle and the signed root against it.

    In a folder also: files that no log has, links, and partial tiles of earlier checkpoints.

    Exit codes: 0 everything is as signed, 10 files that no log has, 20 something does not hold, 30 the log cannot be
    read, 2 usage.

    \b
    Examples:
      affiant log fsck /var/lib/affiant/gateway/log --key "$VKEY"
      affiant log fsck https://log.example/affiant --policy witnesses.policy --json
    """
    from affiant.attestation.log_reading.fsck import Weight, check_log  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.fsck_text import fsck_document, fsck_lines  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above

    trust = trust_from(keys, policy)
    with (
        refusals("affiant-log-fsck/1", as_json=as_json),
        opened_log(log, settings_of(tls_ca, timeout)) as source,
    ):
        signed = trust.verify(read_checkpoint(source))
        report = check_log(
            source, signed.checkpoint, progress=progress_of("leaves checked", signed.checkpoint.size)
        )
    if as_json:
        print_json(fsck_document(source.name, report))
    else:
        click.echo("\n".join(fsck_lines(source.name, report)))
    ctx.exit({None: 0, Weight.WARNING: EXIT_WARNING, Weight.CONTRAINDICATED: EXIT_REFUSED_LOG}[report.weight])


@log.command()
@log_argument
@click.argument("leaf", metavar="INDEX|RECEIPT-HASH")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write; nothing is overwritten.",
)
@key_option
@policy_option
@tls_ca_option
@timeout_option
@json_option
def prove(
    *,
    log: str,
    leaf: str,
    output: Path,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Write a proof that a leaf is in the log (C2SP tlog-proof), with the log's newest checkpoint.

    The leaf is named by its index, or by the SHA-256 of its receipt's JWS (43 characters of base64url, or 64 of
    hexadecimal), which is looked for from the start. The proof is verified before it is written.

    Exit codes: 0 written, 20 something does not hold or there is no such leaf, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log prove https://log.example/affiant 4711 -o receipt.tlog-proof
      affiant log prove /var/lib/affiant/gateway/log "$RH" --key "$VKEY" -o receipt.tlog-proof
    """
    from affiant.attestation.log_reading.proving import prove_leaf  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.reader import LogTree, read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above

    with (
        refusals("affiant-log-prove/1", as_json=as_json),
        opened_log(log, settings_of(tls_ca, timeout)) as source,
    ):
        wanted = _leaf(leaf)
        if output.exists():
            raise click.UsageError(f"{output} exists already: name another file")
        note = read_checkpoint(source)
        signed = _verified(note, keys, policy)
        tree = LogTree(source, parse_checkpoint(note.text))
        index = wanted if isinstance(wanted, int) else tree.find(wanted)
        entry, proof = prove_leaf(tree, index, note)
        _write(output, proof.to_bytes())
    if as_json:
        print_json(
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
    else:
        click.echo(
            printable(
                f"{output}: leaf {index} ({entry.kind}) of {tree.checkpoint.size}, {tree.checkpoint.origin}"
            )
        )


@log.command()
@log_argument
@click.argument("old", type=_NOTE_FILE, metavar="OLD-CHECKPOINT")
@click.argument("new", type=_NOTE_FILE, metavar="[NEW-CHECKPOINT]", required=False)
@key_option
@policy_option
@tls_ca_option
@timeout_option
@json_option
def consistency(
    *,
    log: str,
    old: Path,
    new: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Prove that the tree of an older checkpoint is the beginning of a newer one's: nothing was changed or removed.

    OLD-CHECKPOINT and NEW-CHECKPOINT are signed notes in files; without the second, the log's newest one counts. The
    proof is made from the log's tiles, and verified.

    Exit codes: 0 it is, 20 it is not or something does not hold, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log consistency https://log.example/affiant yesterday.checkpoint --key "$VKEY"
      affiant log consistency /var/lib/affiant/gateway/log old.checkpoint new.checkpoint --policy witnesses.policy
    """
    from affiant.attestation.log_reading.proving import prove_consistency  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.note import to_base64  # noqa: PLC0415 - as above

    with (
        refusals("affiant-log-consistency/1", as_json=as_json),
        opened_log(log, settings_of(tls_ca, timeout)) as source,
    ):
        notes = (_note_file(old), read_checkpoint(source) if new is None else _note_file(new))
        checked = [_verified(note, keys, policy) for note in notes]
        first, second = (parse_checkpoint(note.text) for note in notes)
        path = prove_consistency(source, first, second)
    if as_json:
        print_json(
            {
                "typ": "affiant-log-consistency/1",
                "origin": second.origin,
                "old": first.size,
                "new": second.size,
                "proof": [to_base64(each) for each in path],
                "signature_checked": all(each is not None for each in checked),
            }
        )
    else:
        click.echo(
            printable(f"{second.origin}: the tree of {second.size} leaves begins with that of {first.size}")
        )


def _verified(note: Note, keys: tuple[str, ...], policy: Path | None) -> SignedCheckpoint | None:
    """``note`` as verified; None, and said so, where the user has named no key."""
    if not keys and policy is None:
        click.echo("affiant: no --key or --policy: whether the log has signed this was not checked", err=True)
        return None
    trust: LogTrust = trust_from(keys, policy)
    return trust.verify(note)


def _note_file(path: Path) -> Note:
    from affiant.attestation.tlog.note import MAX_NOTE_BYTES, parse_note  # noqa: PLC0415 - as above
    from affiant.errors import AffiantError  # noqa: PLC0415 - as above

    with path.open("rb") as opened:
        content = opened.read(MAX_NOTE_BYTES + 1)
    try:
        return parse_note(content)
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


def _write(path: Path, data: bytes) -> None:
    from affiant.files import write_whole  # noqa: PLC0415 - as above

    try:
        write_whole(path, data, replace=False)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
