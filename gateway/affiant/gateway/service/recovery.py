"""What earlier boots left in the store, as far as it must be disclosed.

A leftover becomes at most a ``gap`` record in the new boot's chain (trust rules, 2): this module signs nothing,
admits nothing and resumes nothing. It names, for each earlier boot whose chain has no ``end``, the last record
whose signature verifies under that boot's own statement, and counts what was open. Boots are looked at from the
newest backwards, down to one that completed its own start: what lay before it was disclosed then.

A torn tail is cut, so that the next segment chains to what holds; how many bytes were cut is disclosed as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.statement import KeysetStatement, parse_statement
from affiant.errors import AffiantError
from affiant.files import sync_folder
from affiant.gateway.store.entries import (
    BootEntry,
    Entry,
    ErasingEntry,
    OpenEntry,
    RecordEntry,
    StartedEntry,
    decode_entry,
)
from affiant.gateway.store.journal import segment_path
from affiant.gateway.store.journal_format import Segment, scan
from affiant.gateway.wire.errors import JournalMalformed

__all__ = ["Leftover", "Recovery", "gap_members", "leftover_of", "recover", "unrecorded"]

_SEGMENT: Final = re.compile(r"([0-9]{8})\.seg\Z")
_EXTENSION: Final = "tag:affiant.dev,2026:gap/"


@dataclass(frozen=True, slots=True)
class Leftover:
    """An earlier boot whose chain was not ended."""

    last: Head
    """The last of its records whose signature verifies."""
    opens: int
    """Requests that were admitted and have no record."""
    torn: int
    """Bytes that were cut."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Where the next segment goes on, and what is to be disclosed, oldest first."""

    number: int
    link: bytes
    leftovers: tuple[Leftover, ...]


@dataclass(slots=True)
class _Boot:
    entries: list[Entry] = field(default_factory=list)
    torn: int = 0


def recover(folder: Path) -> Recovery:
    """Read what the newest boots left in ``folder`` and cut what is torn.

    Raises:
        ``journal.version``: it is another build's.
    """
    numbers = _segment_numbers(folder)
    boots: dict[bytes, _Boot] = {}
    number, link, torn = (numbers[-1] + 1 if numbers else 0), bytes(32), 0
    newest = True
    for segment_number in reversed(numbers):
        segment, cut = _read_segment(segment_path(folder, segment_number))
        torn += cut
        if segment is None:
            continue
        if newest:
            link, newest = segment.link, False
        if segment.boot not in boots and any(_completed(boot) for boot in boots.values()):
            break
        boot = boots.setdefault(segment.boot, _Boot())
        boot.entries[:0] = _decode_all(segment)
        boot.torn, torn = boot.torn + torn, 0
    if numbers:
        sync_folder(folder)
    found = (leftover_of(boot.entries, torn=boot.torn) for boot in reversed(boots.values()))
    return Recovery(number, link, tuple(leftover for leftover in found if leftover is not None))


def gap_members(leftover: Leftover) -> Mapping[str, object]:
    """The members of the ``gap`` record that discloses ``leftover``."""
    extension = {"opens": leftover.opens, "torn": leftover.torn}
    return {
        "lst": leftover.last.to_json(),
        "src": "untrusted-store",
        "ext": {f"{_EXTENSION}{name}": str(value) for name, value in extension.items()},
    }


def leftover_of(entries: Sequence[Entry], *, torn: int) -> Leftover | None:
    """What one boot's entries leave to disclose; None if its chain was ended, or never began.

    Without one record that verifies there is no chain that could be named, hence nothing to disclose about it.
    """
    statement = _statement_of(entries)
    records = [entry for entry in entries if isinstance(entry, RecordEntry)]
    if statement is None:
        return None
    last = next((found for record in reversed(records) if (found := _verified(record, statement))), None)
    if last is None or (last.kind == "end" and not torn):
        return None
    return Leftover(Head(last.chn, last.seq, last.rh), unrecorded(entries), torn)


def unrecorded(entries: Sequence[Entry]) -> int:
    """How many requests were admitted and have no record; one whose record is erased had it."""
    closed = {entry.jti for entry in entries if isinstance(entry, RecordEntry)}
    closed |= {jti for entry in entries if isinstance(entry, ErasingEntry) for jti in entry.gone}
    return sum(isinstance(entry, OpenEntry) and entry.jti not in closed for entry in entries)


def _statement_of(entries: Sequence[Entry]) -> KeysetStatement | None:
    for entry in entries:
        if isinstance(entry, BootEntry):
            try:
                return parse_statement(from_b64u(entry.statement))
            except AffiantError:  # whatever an untrusted store holds instead names no chain
                return None
    return None


def _verified(record: RecordEntry, statement: KeysetStatement) -> VerifiedReceipt | None:
    try:
        return verify_receipt(parse_receipt(record.jws + "~"), statement)
    except AffiantError:  # not a record of that boot: look further back
        return None


def _completed(boot: _Boot) -> bool:
    return any(isinstance(entry, StartedEntry) for entry in boot.entries)


def _segment_numbers(folder: Path) -> list[int]:
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _SEGMENT.match(path.name)))


def _read_segment(path: Path) -> tuple[Segment | None, int]:
    """The segment, and how many bytes were cut; a file that is no segment at all is set aside."""
    data = path.read_bytes()
    try:
        segment = scan(data)
    except JournalMalformed:
        path.rename(path.with_suffix(".torn"))
        return None, len(data)
    if segment.size < len(data):
        _cut(path, segment.size)
    return segment, len(data) - segment.size


def _cut(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decode_all(segment: Segment) -> list[Entry]:
    entries = []
    for payload in segment.payloads:
        try:
            entries.append(decode_entry(payload))
        except JournalMalformed:  # foreign, but chained: it is not known what it was
            continue
    return entries
