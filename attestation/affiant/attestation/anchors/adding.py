"""Adds anchors to a bundle that was made before them: the first of each kind that covers all its records."""

from __future__ import annotations

from collections.abc import Sequence

from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.anchors.carrying import AnyAnchorFile, first_covering, with_anchor
from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.signatures.timestamps.errors import AnchorAbsent, AnchorSettingsInvalid
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.proof import LogProof, parse_log_proof

__all__ = ["add_anchors", "covering"]


def add_anchors(
    bundle: Bundle, source: LogSource, trust: LogTrust, folder: AnchorFolder
) -> tuple[Bundle, tuple[AnyAnchorFile, ...]]:
    """``bundle`` with the first anchor of each kind in ``folder`` that covers all its records, and those anchors.

    Raises:
        AnchorAbsent: none does yet.
        AnchorSettingsInvalid: no record of it is of this log, or it has as many anchors as a bundle may have.
        AffiantError: the log, its checkpoints, or what an anchor is about do not hold.
    """
    proofs = [parse_log_proof(text.encode("utf-8", "surrogatepass")) for text in bundle.proofs.values()]
    if not proofs or len(proofs) != len(bundle.receipts):
        raise AnchorSettingsInvalid("not every receipt of the bundle has a proof of inclusion")
    proven = _proven(trust, proofs)
    last = max(proof.index for proof in proofs)
    files = covering(folder, last)
    if not files:
        raise AnchorAbsent(
            "no anchor covers the bundle's last record yet",
            expected=f"one over more than {last} leaves",
            hint="Anchor the log now, or add it tomorrow.",
        )
    newest = trust.verify_log(
        read_checkpoint(source)
    ).checkpoint  # of older trees, a log keeps complete tiles alone
    tree = LogTree(source, newest)
    for file in files:
        anchored = trust.verify_log(parse_note(file.note)).checkpoint
        smaller, larger = sorted((anchored, proven), key=lambda each: each.size)
        path = tree.consistency(smaller.size, larger.size)
        bundle = with_anchor(bundle, file, smaller, larger, path)
    return bundle, files


def covering(folder: AnchorFolder, index: int) -> tuple[AnyAnchorFile, ...]:
    """The first anchor of each kind whose tree has leaf ``index``: tokens before signatures.

    Raises:
        AffiantError: as the folder refuses to read one.
    """
    stamped, signed = first_covering(folder.sizes(), index), first_covering(folder.signed_sizes(), index)
    found: list[AnyAnchorFile] = [] if stamped is None else [folder.read(stamped)]
    return tuple(found if signed is None else [*found, folder.read_signed(signed)])


def _proven(trust: LogTrust, proofs: Sequence[LogProof]) -> Checkpoint:
    """The one checkpoint that the proofs are under."""
    texts = {proof.note.text for proof in proofs}
    if len(texts) != 1:
        raise AnchorSettingsInvalid("the bundle's proofs are under several checkpoints", found=len(texts))
    trust.verify_log(proofs[0].note)
    return parse_checkpoint(proofs[0].note.text)
