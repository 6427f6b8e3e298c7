"""Adding an anchor to a bundle that was made before it: the first one that covers all its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from affiant.attestation.anchors.anchor_files import AnchorFile, AnchorFolder
from affiant.attestation.anchors.errors import AnchorAbsent, AnchorSettingsInvalid
from affiant.attestation.bundle import Bundle
from affiant.attestation.bundle_anchors import MAX_ANCHORS, StampedCheckpoint
from affiant.attestation.encoding import sha256_name
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.proof import LogProof, parse_log_proof
from affiant.attestation.tlog.tree import verify_consistency

__all__ = ["add_anchor", "first_covering", "with_anchor"]


def add_anchor(
    bundle: Bundle, source: LogSource, trust: LogTrust, folder: AnchorFolder
) -> tuple[Bundle, AnchorFile]:
    """``bundle`` with the first anchor of ``folder`` that covers all its records, and that anchor.

    Raises:
        AnchorAbsent: none does yet.
        AnchorSettingsInvalid: no record of it is of this log, or it has as many anchors as a bundle may have.
        AffiantError: the log or its checkpoints do not hold.
    """
    proofs = [parse_log_proof(text.encode("utf-8", "surrogatepass")) for text in bundle.proofs.values()]
    if not proofs or len(proofs) != len(bundle.receipts):
        raise AnchorSettingsInvalid("not every receipt of the bundle has a proof of inclusion")
    proven = _proven(trust, proofs)
    last = max(proof.index for proof in proofs)
    size = first_covering(folder.sizes(), last)
    if size is None:
        raise AnchorAbsent(
            "no anchor covers the bundle's last record yet",
            expected=f"one over more than {last} leaves",
            hint="Anchor the log now, or add it tomorrow.",
        )
    file = folder.read(size)
    anchored = trust.verify_log(parse_note(file.note)).checkpoint
    smaller, larger = sorted((anchored, proven), key=lambda each: each.size)
    newest = trust.verify_log(
        read_checkpoint(source)
    ).checkpoint  # of older trees, a log keeps complete tiles alone
    path = LogTree(source, newest).consistency(smaller.size, larger.size)
    return with_anchor(bundle, file, smaller, larger, path), file


def with_anchor(
    bundle: Bundle, file: AnchorFile, smaller: Checkpoint, larger: Checkpoint, path: Sequence[bytes]
) -> Bundle:
    """``bundle`` with ``file``, the proof of consistency verified; unchanged where it has this anchor already.

    Raises:
        AnchorAbsent: the anchor has no token.
        ConsistencyInvalid, ProofMalformed: the two checkpoints are not of one tree.
        AnchorSettingsInvalid: one more than a bundle may have.
    """
    if not file.tokens:
        raise AnchorAbsent("the anchor has no token", where=f"{file.size}.tsr")
    verify_consistency(
        old=smaller.size, old_root=smaller.root, new=larger.size, new_root=larger.root, path=path
    )
    name = sha256_name(file.note)
    others = tuple(each for each in bundle.anchors.tsr if each.checkpoint != name)
    if len(others) >= MAX_ANCHORS:
        raise AnchorSettingsInvalid(
            "the bundle has as many anchors as it may have", expected=f"{MAX_ANCHORS}"
        )
    entry = StampedCheckpoint(name, tuple(path), file.tokens)
    return replace(
        bundle,
        checkpoints={**bundle.checkpoints, name: file.note},
        anchors=replace(bundle.anchors, tsr=(*others, entry)),
    )


def first_covering(sizes: Sequence[int], index: int) -> int | None:
    """The smallest of ``sizes``, ascending, whose tree has leaf ``index``."""
    return next((size for size in sizes if size > index), None)


def _proven(trust: LogTrust, proofs: Sequence[LogProof]) -> Checkpoint:
    """The one checkpoint that the proofs are under."""
    texts = {proof.note.text for proof in proofs}
    if len(texts) != 1:
        raise AnchorSettingsInvalid("the bundle's proofs are under several checkpoints", found=len(texts))
    trust.verify_log(proofs[0].note)
    return parse_checkpoint(proofs[0].note.text)
