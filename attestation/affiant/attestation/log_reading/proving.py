"""Makes proofs for others from a log's tiles, and verifies each before it is written."""

from __future__ import annotations

import re
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u, from_hex
from affiant.attestation.log_reading.errors import LogSettingsInvalid
from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import LogEntry
from affiant.attestation.tlog.note import Note
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tree import verify_consistency, verify_inclusion
from affiant.errors import AffiantError, StateError

__all__ = ["parse_leaf_name", "prove_consistency", "prove_leaf"]

_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})\Z")
_HEX: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z")


def parse_leaf_name(text: str) -> int | bytes | None:
    """An index, or the 32 bytes of a receipt's hash in hexadecimal or base64url; None where it is neither."""
    if _INDEX.match(text):
        return int(text)
    try:
        if (match := _HEX.match(text)) is not None:
            return from_hex(match.group(1))
        return from_b64u(text) if len(text) == 43 else None
    except AffiantError:
        return None


def prove_leaf(tree: LogTree, index: int, note: Note) -> tuple[LogEntry, LogProof]:
    """Leaf ``index`` of ``tree``, and the proof that it is there.

    Raises:
        ``log.no_such_leaf``: there is no such leaf.
        ProofMalformed, InclusionInvalid: the proof does not hold; the log's fault or ours, nothing is written.
    """
    proof = tree.inclusion(index, note)
    entry = next((entry for _, entry in tree.entries(index, index + 1)), None)
    if entry is None:
        raise StateError("the log has no such leaf", found=index, code="log.no_such_leaf")
    verify_inclusion(
        entry.leaf_hash,
        index=index,
        size=tree.checkpoint.size,
        path=proof.path,
        root=tree.checkpoint.root,
    )
    return entry, proof


def prove_consistency(source: LogSource, old: Checkpoint, new: Checkpoint) -> tuple[bytes, ...]:
    """The proof, from the log's tiles, that ``new``'s tree begins with ``old``'s; verified.

    Raises:
        LogSettingsInvalid: two logs.
        ProofMalformed: ``old`` is the larger.
        ConsistencyInvalid: it does not: one of the two was signed over another tree.
    """
    if old.origin != new.origin:
        raise LogSettingsInvalid("checkpoints of two logs", expected=repr(old.origin), found=repr(new.origin))
    tree = LogTree(source, new)
    path = tree.consistency(old.size)
    verify_consistency(old=old.size, old_root=old.root, new=new.size, new_root=new.root, path=path)
    return path
