"""Carrying one anchor in a bundle: the checkpoint that was anchored, consistent with the one its proofs are under.

Which anchor that is, and whose log it is of, is known to the caller; what is asked here needs neither the log's tiles
nor any keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from affiant.attestation.anchors.anchor_files import AnchorFile, SignedAnchorFile
from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.bundle.bundle_anchors import MAX_ANCHORS, PublishedCheckpoint, StampedCheckpoint
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.sigstore.bundle import parse_bundle
from affiant.attestation.signatures.sigstore.sigstore_anchor import require_about
from affiant.attestation.signatures.timestamps.errors import AnchorAbsent, AnchorSettingsInvalid
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.tree import verify_consistency

__all__ = ["AnyAnchorFile", "first_covering", "with_anchor"]

AnyAnchorFile = AnchorFile | SignedAnchorFile
_Carried = TypeVar("_Carried", StampedCheckpoint, PublishedCheckpoint)


def with_anchor(
    bundle: Bundle, file: AnyAnchorFile, smaller: Checkpoint, larger: Checkpoint, path: Sequence[bytes]
) -> Bundle:
    """``bundle`` with ``file``, the proof of consistency verified; unchanged where it has this anchor already.

    Raises:
        AnchorAbsent: the anchor has no token.
        StatementMalformed, ImprintWrong, BundleMalformed: what was signed is not this checkpoint.
        ConsistencyInvalid, ProofMalformed: the two checkpoints are not of one tree.
        AnchorSettingsInvalid: one more than a bundle may have.
    """
    verify_consistency(
        old=smaller.size, old_root=smaller.root, new=larger.size, new_root=larger.root, path=path
    )
    name = sha256_name(file.note)
    if isinstance(file, SignedAnchorFile):
        require_about(parse_bundle(file.bundle).statement, parse_note(file.note).text)
        published = PublishedCheckpoint(name, tuple(path), file.bundle)
        anchors = replace(bundle.anchors, sigstore=(*_others(bundle.anchors.sigstore, name), published))
    elif not file.tokens:
        raise AnchorAbsent("the anchor has no token", where=f"{file.size}.tsr")
    else:
        stamped = StampedCheckpoint(name, tuple(path), file.tokens)
        anchors = replace(bundle.anchors, tsr=(*_others(bundle.anchors.tsr, name), stamped))
    return replace(bundle, checkpoints={**bundle.checkpoints, name: file.note}, anchors=anchors)


def _others(anchors: Sequence[_Carried], name: str) -> tuple[_Carried, ...]:
    """Those over other checkpoints, with a place for one more."""
    others = tuple(each for each in anchors if each.checkpoint != name)
    if len(others) >= MAX_ANCHORS:
        raise AnchorSettingsInvalid(
            "the bundle has as many anchors as it may have", expected=f"{MAX_ANCHORS}"
        )
    return others


def first_covering(sizes: Sequence[int], index: int) -> int | None:
    """The smallest of ``sizes``, ascending, whose tree has leaf ``index``."""
    return next((size for size in sizes if size > index), None)
