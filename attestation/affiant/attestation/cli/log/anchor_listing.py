"""Implements ``affiant log anchors``, which lists the anchors of a folder and verifies them against the trusted
signers in its options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.log.anchor_options import (
    anchors_folder,
    out_option,
    roots_from,
    roots_options,
    stamp_document,
    trust_in,
)
from affiant.attestation.cli.log.options import (
    EXIT_REFUSED_LOG,
    EXIT_WARNING,
    LogAccess,
    LogCommand,
    log_options,
)
from affiant.attestation.cli.log.sigstore_options import believing_options, named_signer, signed_document
from affiant.document_output import Output
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.anchors.anchor_files import AnchorFolder
    from affiant.attestation.anchors.anchoring import Roots
    from affiant.attestation.log_reading.log_trust import LogTrust
    from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
    from affiant.attestation.signatures.timestamps.renewal import AcceptedRoot
    from affiant.attestation.tlog.checkpoint import Checkpoint

__all__ = ["anchors"]

_TYP: Final = "affiant-log-anchors/1"


@dataclass(frozen=True, slots=True)
class _Believed:
    """The signers whose anchors count; None: no signer of this kind is named, and such anchors are not verified."""

    tokens: Roots | None
    signers: Sequence[tuple[AcceptedRoot, SigstoreRoot]] | None


@click.command(cls=LogCommand, typ=_TYP)
@log_options()
@roots_options
@believing_options
@out_option
def anchors(
    *,
    access: LogAccess,
    tsa_roots: tuple[Path, ...],
    trust_path: Path | None,
    trusted_root: Path | None,
    identity: str | None,
    issuer: str | None,
    out: Path | None,
) -> Output:
    """List a log's anchors, and verify each: signature, tokens, and that the log still continues it.

    Tokens are verified under --tsa-root, signatures by sigstore under --trusted-root, --identity and --issuer, or both
    under what --trust names. An anchor of a kind for which no signer is named is listed as not verified.

    Exit codes: 0 all hold, 10 there are none or one was not verified, 20 one does not hold, 30 the log cannot be read,
    2 usage.

    \b
    Examples:
      affiant log anchors /var/lib/affiant/gateway/log/ID --key "$VKEY" --tsa-root tsa.pem
      affiant log anchors https://log.example/affiant --out anchors --policy witnesses.policy --trust trust.json --json
      affiant log anchors LOG --key "$VKEY" --trusted-root trusted_root.json --identity ops@example.org \\
          --issuer https://accounts.example.org
    """
    from affiant.attestation.anchors.anchor_files import AnchorFolder  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.log_reading.proving import prove_consistency  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above

    folder, trust, at = AnchorFolder(anchors_folder(access.log, out)), access.trust(), datetime.now(UTC)
    believed = _believed(tsa_roots, trust_path, named_signer(trusted_root, identity, issuer))
    rows: list[Mapping[str, object]] = []
    with access.opened() as source:
        newest = trust.verify_log(read_checkpoint(source)).checkpoint
        kept = [(size, "tsr") for size in folder.sizes()]
        kept += [(size, "sigstore") for size in folder.signed_sizes()]
        for size, kind in sorted(kept, key=lambda each: each[0]):
            try:
                checkpoint, row = _judged(folder, trust, believed, size, kind, at=at)
                prove_consistency(source, checkpoint, newest)
            except AffiantError as error:
                row = {"size": size, "kind": kind, "refused": error.to_json()}
            rows.append(row)
    refused = any("refused" in row for row in rows)
    whole = rows and not any("not_verified" in row for row in rows)
    return Output(
        {"typ": _TYP, "origin": newest.origin, "size": newest.size, "anchors": rows},
        EXIT_REFUSED_LOG if refused else 0 if whole else EXIT_WARNING,
    )


def _believed(
    files: tuple[Path, ...],
    trust_path: Path | None,
    named: Sequence[tuple[AcceptedRoot, SigstoreRoot]] | None,
) -> _Believed:
    """Of the command line, or of a trust file.

    Raises:
        AnchorSettingsInvalid: no signer, both, or a trust file that names none.
    """
    from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid  # noqa: PLC0415 - help must stay cheap

    if trust_path is None:
        return _Believed(roots_from(files, None) if files or named is None else None, named)
    if files or named is not None:
        raise AnchorSettingsInvalid(
            "name whose anchors you believe", expected="--trust, or roots and a signer; not both"
        )
    trust = trust_in(trust_path)
    if trust.tsa_roots is None and trust.sigstore_root is None:
        raise AnchorSettingsInvalid(
            "the trust file names no timestamp authority and no signer", where=trust_path.name
        )
    return _Believed(trust.tsa_roots, trust.sigstore_root)


def _judged(
    folder: AnchorFolder, trust: LogTrust, believed: _Believed, size: int, kind: str, *, at: datetime
) -> tuple[Checkpoint, Mapping[str, object]]:
    """The anchor's checkpoint and document; where no signer of its kind is named, only the log's signature counts."""
    from affiant.attestation.anchors.anchoring import judge_anchor  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.anchors.checkpoint_signing import judge_signed  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.note import parse_note  # noqa: PLC0415 - as above

    if kind == "tsr":
        file, named = folder.read(size), "--tsa-root"
        if believed.tokens is not None:
            checkpoint, stamp = judge_anchor(trust, file, roots=believed.tokens, at=at)
            return checkpoint, stamp_document(size, stamp)
        note = file.note
    else:
        signed, named = folder.read_signed(size), "--trusted-root, --identity and --issuer"
        if believed.signers is not None:
            found = judge_signed(trust, signed, roots=believed.signers, at=at)
            return found.checkpoint, signed_document(found)
        note = signed.note
    checkpoint = trust.verify_log(parse_note(note)).checkpoint
    why = f"no signer is named by {named}, or by --trust"
    return checkpoint, {"size": checkpoint.size, "kind": kind, "not_verified": why}
