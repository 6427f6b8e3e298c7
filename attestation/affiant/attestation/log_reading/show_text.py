"""Formats what ``affiant log show`` prints. Names and origins come from the log, so they are escaped and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log_reading.log_trust import SignedCheckpoint
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import LogEntry
from affiant.attestation.tlog.note import Note, to_base64
from affiant.command_line import printable

__all__ = ["document", "instant", "lines"]


def instant(seconds: int) -> str:
    """RFC 3339 in UTC; the number itself where no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def lines(
    note: Note,
    checkpoint: Checkpoint,
    signed: SignedCheckpoint | None,
    entries: Iterable[tuple[int, LogEntry]],
) -> Iterator[str]:
    """Text for a terminal."""
    yield f"origin   {printable(checkpoint.origin, limit=255)}"
    yield f"size     {checkpoint.size}"
    yield f"root     {to_base64(checkpoint.root)}"
    yield f"verified {_verdict(signed)}"
    for extension in checkpoint.extensions:
        yield f"extension {printable(extension, limit=200)}"
    for each in note.signatures:
        yield f"signature {each.key.key_id.hex()} {printable(each.key.name, limit=255)}"
    for name, seconds in ({} if signed is None else signed.times).items():
        yield f"witness  {printable(name, limit=100)} {instant(seconds)}"
    for index, entry in entries:
        yield (
            f"{index:>10} {entry.kind:<13} {b64u(entry.chn)} {entry.seq:>7} {instant(entry.iat)} "
            f"{b64u(entry.rh)}"
        )


def document(
    note: Note,
    checkpoint: Checkpoint,
    signed: SignedCheckpoint | None,
    entries: Iterable[tuple[int, LogEntry]],
) -> Mapping[str, object]:
    """The same for programs."""
    return {
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
            for index, entry in entries
        ],
    }


def _verdict(signed: SignedCheckpoint | None) -> str:
    if signed is None:
        return "no: neither --key nor --policy was given"
    return "under the key given" if not signed.times else "under the policy given, quorum included"
