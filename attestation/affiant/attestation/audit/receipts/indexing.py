"""Puts one bundle into the store: reads it, judges it, keeps it or rejects it. I/O boundary: reads files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from affiant.attestation.audit.receipts.rows import BundleRow, rows_of
from affiant.attestation.audit.receipts.store import ReceiptStore
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verifier.files.bundle_case import open_case
from affiant.errors import AffiantError, StateError

__all__ = ["End", "Indexed", "index_file"]


class End(StrEnum):
    """What became of a file."""

    INDEXED = "indexed"
    KNOWN = "known"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Indexed:
    """The end of one file. ``bundle`` and ``receipts`` of one that was indexed, ``error`` of one that was refused."""

    path: Path
    end: End
    bundle: BundleRow | None = None
    receipts: int = 0
    error: AffiantError | None = None


def index_file(path: Path, store: ReceiptStore, trust: TrustFile, *, at: datetime, build: str) -> Indexed:
    """Judge one bundle and keep it; what is refused leaves nothing behind.

    Raises:
        StateError: the store itself cannot be written.
    """
    try:
        with open_case(path, trust, at=at, build=build, unless=store.has) as judged:
            if judged is None:
                return Indexed(path, End.KNOWN)
            rows = rows_of(*judged, name=path.name)
        if not store.add(rows):
            return Indexed(path, End.KNOWN)
        return Indexed(path, End.INDEXED, rows.bundle, len(rows.receipts))
    except StateError:
        raise
    except AffiantError as error:
        return Indexed(path, End.REFUSED, error=error)
