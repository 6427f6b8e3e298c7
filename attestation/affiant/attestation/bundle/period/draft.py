"""A period bundle while it is gathered: a folder in the layout, filled file by file, each whole or not there.

Whoever was stopped goes on with the number of the first file of receipts that is missing (:attr:`Draft.shards`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from affiant.attestation.bundle.period.layout import LINES_PER_FILE, object_name, shard_name
from affiant.attestation.bundle.period.lines import disclosures_line, receipt_line
from affiant.attestation.bundle.period.readme_text import README_TEXT
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.records.receipt import receipt_hash

__all__ = ["Draft"]


class Draft:
    """The files of one period bundle.

    Args:
        folder: made where it is missing; 0700.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self.put("README.txt", README_TEXT)

    @property
    def shards(self) -> int:
        """How many files of receipts are whole."""
        number = 0
        while (self.folder / shard_name("receipts", number)).exists():
            number += 1
        return number

    def put(self, name: str, data: bytes) -> None:
        """Write one file of the layout; what stands there already in the same size is left."""
        place = self.folder / name
        if place.exists() and place.stat().st_size == len(data) and place.read_bytes() == data:
            return
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = place.with_name(f"{place.name}.part")
        draft.write_bytes(data)
        draft.replace(place)

    def put_object(self, folder: str, data: bytes) -> None:
        """Write one object of a map of bundles."""
        self.put(object_name(folder, sha256_name(data)), data)

    def put_log(self, path: str, data: bytes) -> None:
        """Write one file of the log, by its path there."""
        self.put(f"log/{path}", data)

    def put_receipts(self, number: int, receipts: Iterable[tuple[str, tuple[str, ...]]]) -> int:
        """Write one file of receipts, each a JWS and its disclosures, in log order; how many.

        Nothing is written where there are none. At most :data:`~.layout.LINES_PER_FILE` may be given.
        """
        place = self.folder / shard_name("receipts", number)
        opened = self.folder / shard_name("disclosures", number)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        opened.parent.mkdir(mode=0o700, exist_ok=True)
        count = disclosed = 0
        draft, draft_opened = place.with_suffix(".part"), opened.with_suffix(".part")
        with open(draft, "wb") as lines, open(draft_opened, "wb") as values:
            for jws, disclosures in receipts:
                lines.write(receipt_line(jws))
                count += 1
                if disclosures:
                    disclosed += 1
                    values.write(disclosures_line(receipt_hash(jws), disclosures))
        assert count <= LINES_PER_FILE, "the caller counts"
        if disclosed:
            draft_opened.replace(opened)
        else:
            draft_opened.unlink()
        if count:
            draft.replace(place)
        else:
            draft.unlink()
        return count

    def drop_receipts(self) -> None:
        """Remove every file of receipts, with what is opened of them."""
        for folder in ("receipts", "disclosures"):
            for file in (self.folder / folder).glob("*"):
                file.unlink()

    def clean(self) -> None:
        """Remove what a stop left half written."""
        for part in self.folder.rglob("*.part"):
            part.unlink()
