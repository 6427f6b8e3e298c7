"""What a store holds, read as a new boot would, for tests that compare it with what a client saw."""

from __future__ import annotations

from pathlib import Path

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.gateway.store.entries import BootEntry, Entry, OpenEntry, RecordEntry, decode_entry
from affiant.gateway.store.journal_format import scan


def entries_of(store: Path) -> list[list[Entry]]:
    """The entries of each boot, oldest first."""
    boots: dict[bytes, list[Entry]] = {}
    for path in sorted(store.glob("*.seg")):
        segment = scan(path.read_bytes())
        boots.setdefault(segment.boot, []).extend(decode_entry(p) for p in segment.payloads)
    return list(boots.values())


def payload_of(record: RecordEntry) -> dict:
    return dict(parse_object(from_b64u(record.jws.split(".")[1])))


def records_of(entries: list[Entry]) -> list[dict]:
    return [payload_of(entry) for entry in entries if isinstance(entry, RecordEntry)]


def opens_of(entries: list[Entry]) -> set[str]:
    """Receipt ids of requests without a record."""
    closed = {entry.jti for entry in entries if isinstance(entry, RecordEntry)}
    return {entry.jti for entry in entries if isinstance(entry, OpenEntry)} - closed


def statement_of(entries: list[Entry]) -> bytes:
    return from_b64u(next(entry.statement for entry in entries if isinstance(entry, BootEntry)))
