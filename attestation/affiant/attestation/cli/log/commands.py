"""Implements ``affiant log``. It reads files, the network and the clock, prints, and chooses exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from affiant.attestation.cli.log.anchor_commands import anchor
from affiant.attestation.cli.log.anchor_listing import anchors
from affiant.attestation.cli.log.monitor_commands import monitor
from affiant.attestation.cli.log.options import (
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
    tls_spki_option,
    trust_from,
    verified_note,
)
from affiant.attestation.cli.log.proof_commands import consistency, prove
from affiant.attestation.cli.log.publish_commands import publish
from affiant.command_line import print_json

__all__ = ["log"]

_SHOWN: Final = 20


@click.group(cls=LogGroup)
def log() -> None:
    """Read, check and watch a transparency log. LOG is a folder, an http(s) address, or s3://bucket/prefix.

    \b
    Examples:
      affiant log show https://log.example/affiant
      affiant log fsck /var/lib/affiant/gateway/log/ID --key "$VKEY"
      affiant log prove https://log.example/affiant 4711 -o receipt.tlog-proof
      affiant log consistency https://log.example/affiant yesterday.checkpoint --key "$VKEY"
      affiant log monitor https://log.example/affiant --policy witnesses.policy --state /var/lib/monitor
      affiant log anchor /var/lib/affiant/gateway/log/ID --key "$VKEY" --tsa https://tsa.example --tsa-root tsa.pem
      affiant log publish /var/lib/affiant/gateway/log/ID s3://bucket/prefix --key "$VKEY"
    """


for _command in (monitor, prove, consistency, anchor, anchors, publish):
    log.add_command(_command)


@log.command()
@log_argument
@click.option("--from", "start", type=click.IntRange(min=0), help="First leaf to show.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Leaf to stop before.")
@key_option
@policy_option
@tls_ca_option
@tls_spki_option
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
    tls_spki: tuple[str, ...],
    timeout: float,
    as_json: bool,
) -> None:
    """Print the checkpoint, its signatures, and leaves (the last 20, or those of --from and --to).

    Every leaf is held against the tree of the checkpoint; the checkpoint itself against --key or --policy, if given.

    Exit codes: 0 done, 20 something does not hold, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log show /var/lib/affiant/gateway/log/ID
      affiant log show https://log.example/affiant --from 0 --to 100 --json
    """
    from affiant.attestation.log_reading.reader import LogTree, read_checkpoint  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.show_text import document, lines  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above

    with (
        refusals("affiant-log/1", as_json=as_json),
        opened_log(log, settings_of(tls_ca, timeout, tls_spki)) as source,
    ):
        note = read_checkpoint(source)
        signed = verified_note(note, keys, policy)
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
@tls_spki_option
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
    tls_spki: tuple[str, ...],
    timeout: float,
    as_json: bool,
) -> None:
    """Compute the whole tree again from its leaves, and hold every tile, bundle and the signed root against it.

    In a folder or a store of objects also: files that no log has, links, and partial tiles of earlier checkpoints. What
    a gateway keeps in its log's folder belongs there; its key does not in a copy that others can read.

    Exit codes: 0 everything is as signed, 10 files that no log has, 20 something does not hold, 30 the log cannot be
    read, 2 usage.

    \b
    Examples:
      affiant log fsck /var/lib/affiant/gateway/log/ID --key "$VKEY"
      affiant log fsck https://log.example/affiant --policy witnesses.policy --json
      affiant log fsck s3://bucket/prefix --key "$VKEY"
      affiant log fsck https://127.0.0.1:8443/log --key "$VKEY" --tls-spki "$SPKI"
    """
    from affiant.attestation.log.fsck.fsck import check_log  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log.fsck.text import fsck_document, fsck_lines  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.severity import Severity  # noqa: PLC0415 - as above

    trust = trust_from(keys, policy)
    with (
        refusals("affiant-log-fsck/1", as_json=as_json),
        opened_log(log, settings_of(tls_ca, timeout, tls_spki)) as source,
    ):
        signed = trust.verify(read_checkpoint(source))
        report = check_log(
            source, signed.checkpoint, progress=progress_of("leaves checked", signed.checkpoint.size)
        )
    if as_json:
        print_json(fsck_document(source.name, report))
    else:
        click.echo("\n".join(fsck_lines(source.name, report)))
    ctx.exit(
        {None: 0, Severity.WARNING: EXIT_WARNING, Severity.CONTRAINDICATED: EXIT_REFUSED_LOG}[report.severity]
    )
