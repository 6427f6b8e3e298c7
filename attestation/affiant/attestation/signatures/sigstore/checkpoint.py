"""Checks that an inclusion proof belongs to the tree of the checkpoint that it carries.

The signature is the library's to verify. The library holds the proof's root against the checkpoint's and leaves the
proof's own size and index as they are claimed: the last leaf of a tree of 5 proves itself as the last of a tree of 9
just as well, since both paths consist of the same hashes. So size, index and path are held against the signed
size here, whereby the place of the entry is the log's word and no longer the bundle's.
"""

from __future__ import annotations

from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.signatures.sigstore.bundle import LoggedEntry
from affiant.attestation.signatures.sigstore.errors import NotLogged
from affiant.attestation.tlog import checkpoint as tlog_checkpoint
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.tree import verify_inclusion
from affiant.errors import AffiantError, MalformedError

__all__ = ["parse_checkpoint", "require_proven"]


def parse_checkpoint(note: str) -> Checkpoint:
    """The checkpoint in a signed note; its signature is not verified here.

    Raises:
        NotLogged: another form.
    """
    try:
        return tlog_checkpoint.parse_checkpoint(parse_note(note.encode("utf-8")).text)
    except (MalformedError, UnicodeEncodeError) as error:
        raise NotLogged(f"the checkpoint cannot be read: {error}", where="checkpoint") from error


def require_proven(entry: LoggedEntry) -> Checkpoint:
    """Refuse an entry whose proof does not lead to the root of its checkpoint, at the place that it claims.

    Raises:
        NotLogged: another size or root, another place, or a path that leads elsewhere.
    """
    checkpoint, proof = parse_checkpoint(entry.proof.checkpoint), entry.proof
    if (proof.size, proof.root) != (checkpoint.size, checkpoint.root):
        raise NotLogged(
            "the inclusion proof is of another tree than the checkpoint",
            where="inclusionProof",
            expected=f"{checkpoint.size} entries",
            found=f"{proof.size} entries",
        )
    try:
        verify_inclusion(
            leaf_hash(entry.body),
            index=proof.index,
            size=checkpoint.size,
            path=proof.path,
            root=checkpoint.root,
        )
    except AffiantError as error:
        raise NotLogged(
            "the inclusion proof does not lead to the checkpoint's root", where="inclusionProof"
        ) from error
    if entry.promised_at is None and entry.index != proof.index:
        raise NotLogged(
            "the entry's number is not the one that is proven",
            where="logIndex",
            expected=proof.index,
            found=entry.index,
        )
    return checkpoint
