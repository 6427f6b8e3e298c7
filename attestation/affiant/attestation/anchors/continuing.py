"""Requires that a log still extends every checkpoint that was anchored before; otherwise no new anchor is made.

Both kinds share a checkpoint's note; one that is kept is never replaced, since bundles name it by its digest.
"""

from __future__ import annotations

from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.log_reading.proving import prove_consistency
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.signatures.timestamps.errors import AnchorUnproven
from affiant.attestation.tlog.note import Note, parse_note

__all__ = ["note_to_keep"]


def note_to_keep(source: LogSource, trust: LogTrust, folder: AnchorFolder, newest: Note) -> bytes:
    """The note under which an anchor of ``newest`` is kept: the one that is there of this size already, or itself.

    Args:
        newest: verified by the caller.

    Raises:
        ConsistencyInvalid, ProofMalformed: the log contradicts the newest anchored checkpoint, or lacks leaves of it.
        AnchorUnproven: the same tree was anchored under another text.
        AffiantError: the newest anchored note is not this log's, or a file or tile cannot be read.
    """
    sizes = {*folder.sizes(), *folder.signed_sizes()}
    if not sizes:
        return newest.to_bytes()
    raw = folder.read_note(max(sizes))
    kept = parse_note(raw)
    old, new = trust.verify_log(kept).checkpoint, trust.verify_log(newest).checkpoint
    prove_consistency(source, old, new)
    if old.size != new.size:
        return newest.to_bytes()
    if kept.text != newest.text:
        raise AnchorUnproven("this tree was anchored under another text", found=f"{old.size} leaves")
    return raw
