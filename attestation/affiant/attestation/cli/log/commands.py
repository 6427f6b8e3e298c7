"""Implements ``affiant log``. It reads files, the network and the clock; its commands return documents."""

from __future__ import annotations

from typing import Final

import click

from affiant.attestation.cli.log.anchor_commands import anchor
from affiant.attestation.cli.log.anchor_listing import anchors
from affiant.attestation.cli.log.monitor_commands import monitor
from affiant.attestation.cli.log.options import (
    LogAccess,
    LogCommand,
    LogGroup,
    exit_code_by,
    log_options,
    progress_of,
)
from affiant.attestation.cli.log.proof_commands import consistency, prove
from affiant.attestation.cli.log.publish_commands import publish
from affiant.document_output import AS_JSON, Output

__all__ = ["log"]

_SHOWN: Final = 20
_MAX_TEXT_LEAVES: Final = 100_000


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


@log.command(cls=LogCommand, typ="affiant-log/1")
@log_options()
@click.option("--from", "start", type=click.IntRange(min=0), help="First leaf to show.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Leaf to stop before.")
@click.pass_context
def show(ctx: click.Context, *, access: LogAccess, start: int | None, end: int | None) -> Output:
    """Print the checkpoint, its signatures, and leaves (the last 20, or those of --from and --to).

    Every leaf is held against the tree of the checkpoint; the checkpoint itself against --key or --policy, if given.

    Exit codes: 0 done, 20 something does not hold, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log show /var/lib/affiant/gateway/log/ID
      affiant log show https://log.example/affiant --from 0 --to 100 --json
    """
    from affiant.attestation.encoding.binary_text import b64u  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.reader import LogTree, read_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.checkpoint import parse_checkpoint  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.note import to_base64  # noqa: PLC0415 - as above

    with access.opened() as source:
        note = read_checkpoint(source)
        signed = access.verified(note)
        checkpoint = parse_checkpoint(note.text)
        tree = LogTree(source, checkpoint)
        last = checkpoint.size if end is None else min(end, checkpoint.size)
        first = max(0, last - _SHOWN) if start is None else start
        if last - first > _MAX_TEXT_LEAVES and not ctx.meta[AS_JSON]:
            raise click.UsageError(
                f"text shows at most {_MAX_TEXT_LEAVES:,} leaves: name a shorter range, or --json"
            )
        document = {
            "typ": "affiant-log/1",
            "origin": checkpoint.origin,
            "size": checkpoint.size,
            "root": to_base64(checkpoint.root),
            "extensions": list(checkpoint.extensions),
            "signatures": [{"name": each.key.name, "id": each.key.key_id.hex()} for each in note.signatures],
            "signature_checked": signed is not None,
            "witnesses": {} if signed is None else dict(signed.times),
            "leaves": [
                {
                    "index": index,
                    "kind": entry.kind,
                    "chn": b64u(entry.chn),
                    "seq": entry.seq,
                    "iat": entry.iat,
                    "rh": b64u(entry.rh),
                }
                for index, entry in tree.entries(first, last)
            ],
        }
    under = "key given" if access.policy is None else "policy given, its quorum included"
    return Output(
        document, ending=() if signed is None else (f"The checkpoint was verified under the {under}.",)
    )


@log.command(cls=LogCommand, typ="affiant-log-fsck/1")
@log_options()
def fsck(*, access: LogAccess) -> Output:
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
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above

    trust = access.trust()
    with access.opened() as source:
        signed = trust.verify(read_checkpoint(source))
        report = check_log(
            source, signed.checkpoint, progress=progress_of("leaves checked", signed.checkpoint.size)
        )
    ending = []
    if not report.listed:
        ending.append(
            "An address cannot be listed, so files that do not belong to the log were not looked for."
        )
    if report.ahead:
        ending.append(f"{report.ahead} files of a larger tree, which is not signed yet, were not checked.")
    return Output(report.to_json(source.name), exit_code_by(report.severity), ending)
