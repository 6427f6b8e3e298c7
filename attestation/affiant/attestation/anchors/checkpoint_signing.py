"""Has an identity sign a log's newest checkpoint through sigstore, and verifies the result.

Clock, network and identity are arguments. Nothing is signed for a log that has contradicted what was anchored before,
and nothing is kept that a reader who believes this signer would refuse. A signature that was made stays in sigstore's
log all the same: the signer has published it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from affiant.attestation.anchors.anchor_files import AnchorFolder, SignedAnchorFile
from affiant.attestation.anchors.continuing import note_to_keep
from affiant.attestation.bundle.bundle_anchors import MAX_SIGSTORE
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.log_reading.proving import prove_consistency
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.signatures.sigstore.signed_statement import LogRecord
from affiant.attestation.signatures.sigstore.sigstore_anchor import (
    checkpoint_statement,
    signer_of_anchor,
    verify_by_named,
    verify_sigstore_anchor,
)
from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
from affiant.attestation.signatures.timestamps.errors import StatementMalformed
from affiant.attestation.signatures.timestamps.renewal import AcceptedRoot
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import parse_note

__all__ = ["SignedAnchor", "Signing", "judge_signed", "sign_newest"]


@dataclass(frozen=True, slots=True)
class Signing:
    """How a checkpoint is signed.

    Args:
        sign: asks sigstore: an in-toto statement -> a sigstore bundle.
        trusted_root: what the bundle must hold under, and those before it.
        now: the time, UTC.
    """

    sign: Callable[[bytes], bytes]
    trusted_root: bytes
    now: datetime


@dataclass(frozen=True, slots=True)
class SignedAnchor:
    """A signed checkpoint as it is now. ``new``: whether anything was signed; ``why`` not."""

    checkpoint: Checkpoint
    root: SigstoreRoot
    record: LogRecord
    new: bool = False
    why: str = ""


def sign_newest(
    source: LogSource, trust: LogTrust, folder: AnchorFolder, signing: Signing, *, again: bool = False
) -> SignedAnchor:
    """Have the log's newest checkpoint signed, and keep it; once a day unless ``again``, and never a size twice.

    Raises:
        AffiantError: the log, the anchors that are there, or what came back are refused; nothing is written.
    """
    note = read_checkpoint(source)
    newest = trust.verify(note).checkpoint
    LogTree(source, newest)  # its tiles lead to its root: what is signed can be proven from
    raw = note_to_keep(source, trust, folder, note)
    if sizes := folder.signed_sizes():
        found = _judged(trust, folder.read_signed(sizes[-1]), signing.trusted_root)
        prove_consistency(source, found.checkpoint, newest)
        if found.checkpoint.size == newest.size:
            return replace(found, why="the log has not grown since")
        if not again and found.record.at.astimezone(UTC).date() >= signing.now.astimezone(UTC).date():
            return replace(found, why="there is one of today")
    bundle = signing.sign(checkpoint_statement(note.text))
    if len(bundle) > MAX_SIGSTORE:
        raise StatementMalformed(
            "what came back is larger than any bundle may carry", expected=f"{MAX_SIGSTORE} bytes"
        )
    root = SigstoreRoot(signing.trusted_root, signer_of_anchor(bundle))
    record = verify_sigstore_anchor(bundle, note.text, root)
    folder.write_signed(newest.size, raw, bundle)
    return SignedAnchor(newest, root, record, new=True)


def judge_signed(
    trust: LogTrust,
    file: SignedAnchorFile,
    *,
    roots: Sequence[tuple[AcceptedRoot, SigstoreRoot]],
    at: datetime,
) -> SignedAnchor:
    """An anchor as a reader judges it: the log's signature, and that of a signer whom the reader named.

    Raises:
        AffiantError: one of them does not hold.
    """
    note = parse_note(file.note)
    checkpoint = trust.verify_log(note).checkpoint
    record, root = verify_by_named(file.bundle, note.text, roots=roots, at=at)
    return SignedAnchor(checkpoint, root, record)


def _judged(trust: LogTrust, file: SignedAnchorFile, trusted_root: bytes) -> SignedAnchor:
    """One that is there, by any signer: it says when, and its signer is shown."""
    note = parse_note(file.note)
    root = SigstoreRoot(trusted_root, signer_of_anchor(file.bundle))
    return SignedAnchor(
        trust.verify_log(note).checkpoint, root, verify_sigstore_anchor(file.bundle, note.text, root)
    )
