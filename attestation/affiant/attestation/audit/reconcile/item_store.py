"""The independent record as it was read, in a temporary SQLite database of the process's own: read once, walked often.

Nothing of it is in memory; SQLite puts it into its temporary folder and the file has no name there. A log may be larger
than memory, and may grow while it is read: every later step sees what the first one saw.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from affiant.attestation.audit.records_of_others.facts import Authority, Facts
from affiant.attestation.audit.records_of_others.item import Item
from affiant.errors import StateError

__all__ = ["ItemStore", "Row", "open_item_store", "packed", "unpacked"]

Row = tuple[int, str | None, str | None]
"""Line; the item, packed, if it is one; why it is followed no further, if it is not."""

_BATCH: Final = 2000


class ItemStore:
    """Rows in the order in which they were added. Made by :func:`open_item_store`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, rows: Iterable[Row]) -> None:
        """Append ``rows``."""
        with _sqlite_errors():
            self._connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)

    def __iter__(self) -> Iterator[Row]:
        with _sqlite_errors():
            cursor = self._connection.execute("SELECT line, item, reason FROM rows ORDER BY rowid")
            cursor.arraysize = _BATCH
            yield from cursor


@contextmanager
def open_item_store() -> Iterator[ItemStore]:
    """An empty store, gone when the block ends.

    Raises:
        ``reconcile.scratch``: its temporary file cannot be written (also later, while it is used).
    """
    with _sqlite_errors():
        connection = sqlite3.connect("", isolation_level=None)
    try:
        with _sqlite_errors():
            connection.execute("PRAGMA synchronous = OFF")  # nothing of it outlives the process
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("CREATE TABLE rows (line INTEGER NOT NULL, item TEXT, reason TEXT) STRICT")
        yield ItemStore(connection)
    finally:
        connection.close()


def packed(item: Item) -> str:
    """``item`` as text, for :func:`unpacked`."""
    place, facts = item.authority, item.facts
    return json.dumps(
        [
            item.begun,
            item.ended,
            None if place is None else [place.host, place.port],
            [getattr(facts, name) for name in Facts.__slots__],
            item.receipt,
            item.maybe_receipt,
            item.tunnel,
            item.query_unknown,
            item.reference,
        ]
    )


def unpacked(text: str) -> Item:
    """The item that was packed."""
    begun, ended, place, facts, *rest = json.loads(text)
    values = dict(zip(Facts.__slots__, facts, strict=True))
    trace = values.pop("trace")
    return Item(
        begun,
        ended,
        None if place is None else Authority(*place),
        Facts(**values, trace=None if trace is None else (trace[0], trace[1])),
        *rest,
    )


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(
            "the temporary store of items failed",
            found=str(error)[:200],
            hint="It is as large as the record that is read; SQLITE_TMPDIR names another folder for it.",
            code="reconcile.scratch",
        ) from error
