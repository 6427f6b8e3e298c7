"""Implements ``affiant log anchors``, which lists the anchors of a folder and verifies them against the trusted
signers in its options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.attestation.cli.log.anchor_options import (
    anchors_folder,
    out_option,
    roots_from,
    roots_options,
    stamp_document,
    stamp_line,
    trust_in,
)
from affiant.attestation.cli.log.options import (
    EXIT_REFUSED_LOG,
    EXIT_WARNING,
    json_option,
    key_option,
    log_argument,
    opened_log,
    policy_option,
    refusals,
    settings_of,
    timeout_option,
    tls_ca_option,
    tls_spki_option,
    trust_from,
)
from affiant.attestation.cli.log.sigstore_options import (
    believing_options,
    named_signer,
    signed_document,
    signed_line,
)
from affiant.command_line import print_json, printable
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
    """Whose anchors count. None: of this kind nobody is named, and nothing is verified but the log's word."""

    tokens: Roots | None
    signers: Sequence[tuple[AcceptedRoot, SigstoreRoot]] | None


@dataclass(frozen=True, slots=True)
class _Row:
    """One anchor: its checkpoint, what ``--json`` and a person are told."""

    checkpoint: Checkpoint
    document: Mapping[str, object]
    line: str


@click.command()
@log_argument
@roots_options
@believing_options
@out_option
@key_option
@policy_option
@tls_ca_option
@tls_spki_option
@timeout_option
@json_option
@click.pass_context
def anchors(
    ctx: click.Context,
    *,
    log: str,
    tsa_roots: tuple[Path, ...],
    trust_path: Path | None,
    trusted_root: Path | None,
    identity: str | None,
    issuer: str | None,
    out: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    tls_spki: tuple[str, ...],
    timeout: float,
    as_json: bool,
) -> None:
    """List a log's anchors, and verify each: signature, tokens, and that the log still continues it.

    Tokens are verified under --tsa-root, signatures by sigstore under --trusted-root, --identity and --issuer, or both
    by what --trust names. Of a kind for which nobody is named, anchors are listed as not verified.

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

    rows: list[Mapping[str, object]] = []
    lines: list[str] = []
    with refusals(_TYP, as_json=as_json):
        folder, trust = AnchorFolder(anchors_folder(log, out)), trust_from(keys, policy)
        believed = _believed(tsa_roots, trust_path, named_signer(trusted_root, identity, issuer))
        with opened_log(log, settings_of(tls_ca, timeout, tls_spki)) as source:
            newest = trust.verify_log(read_checkpoint(source)).checkpoint
            for size, kind, judge in _kept(folder, trust, believed, datetime.now(UTC)):
                try:
                    row = judge()
                    prove_consistency(source, row.checkpoint, newest)
                except AffiantError as refusal:
                    rows.append({"size": size, "kind": kind, "refused": refusal.to_json()})
                    lines.append(printable(f"{size} leaves: REFUSED {refusal} [{refusal.code}]"))
                    continue
                rows.append(row.document)
                lines.append(row.line)
    if as_json:
        print_json({"typ": _TYP, "origin": newest.origin, "size": newest.size, "anchors": rows})
    else:
        click.echo("\n".join(lines or ["no anchor"]))
    refused = any("refused" in row for row in rows)
    whole = rows and not any("not_verified" in row for row in rows)
    ctx.exit(EXIT_REFUSED_LOG if refused else 0 if whole else EXIT_WARNING)


def _believed(
    files: tuple[Path, ...],
    trust_path: Path | None,
    named: Sequence[tuple[AcceptedRoot, SigstoreRoot]] | None,
) -> _Believed:
    """Of the command line, or of a trust file.

    Raises:
        AnchorSettingsInvalid: nobody, both, or a trust file that names nobody.
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


def _kept(
    folder: AnchorFolder, trust: LogTrust, believed: _Believed, at: datetime
) -> list[tuple[int, str, Callable[[], _Row]]]:
    """What is in the folder, by size: how each is judged."""
    stamped = [(size, "tsr", _stamped(folder, trust, believed, size, at)) for size in folder.sizes()]
    signed = [
        (size, "sigstore", _signed(folder, trust, believed, size, at)) for size in folder.signed_sizes()
    ]
    return sorted([*stamped, *signed], key=lambda each: each[0])


def _stamped(
    folder: AnchorFolder, trust: LogTrust, believed: _Believed, size: int, at: datetime
) -> Callable[[], _Row]:
    from affiant.attestation.anchors.anchoring import judge_anchor  # noqa: PLC0415 - help must stay cheap

    def judge() -> _Row:
        file = folder.read(size)
        if believed.tokens is None:
            return _unverified(trust, file.note, "tsr", "--tsa-root")
        checkpoint, stamp = judge_anchor(trust, file, roots=believed.tokens, at=at)
        return _Row(checkpoint, stamp_document(size, stamp), stamp_line(size, stamp))

    return judge


def _signed(
    folder: AnchorFolder, trust: LogTrust, believed: _Believed, size: int, at: datetime
) -> Callable[[], _Row]:
    from affiant.attestation.anchors.checkpoint_signing import judge_signed  # noqa: PLC0415 - help must stay cheap

    def judge() -> _Row:
        file = folder.read_signed(size)
        if believed.signers is None:
            return _unverified(trust, file.note, "sigstore", "--trusted-root, --identity and --issuer")
        found = judge_signed(trust, file, roots=believed.signers, at=at)
        return _Row(found.checkpoint, signed_document(found), signed_line(found))

    return judge


def _unverified(trust: LogTrust, raw: bytes, kind: str, options: str) -> _Row:
    """An anchor of a kind for which nobody is named: its checkpoint is the log's, and nothing else is known."""
    from affiant.attestation.tlog.note import parse_note  # noqa: PLC0415 - help must stay cheap

    checkpoint = trust.verify_log(parse_note(raw)).checkpoint
    why = f"nobody is named by {options}, or by --trust"
    document: dict[str, Any] = {"size": checkpoint.size, "kind": kind, "not_verified": why}
    name = "token" if kind == "tsr" else "signature by sigstore"
    return _Row(checkpoint, document, f"{checkpoint.size} leaves: {name} NOT VERIFIED, {why}")
