"""Reads the independent record line by line into the store, and takes its digest. I/O boundary: reads files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Final

from affiant.attestation.audit.records_of_others.bill import (
    BilledSpan,
    BillFormat,
    read_header,
    read_row,
    read_span_row,
)
from affiant.attestation.audit.records_of_others.errors import SettingsInvalid
from affiant.attestation.audit.records_of_others.facts import Authority
from affiant.attestation.audit.records_of_others.item import Read, Unreadable
from affiant.attestation.audit.records_of_others.line_file import lines_of
from affiant.attestation.audit.records_of_others.proxy_formats import PROXY_FORMATS
from affiant.attestation.audit.records_of_others.spans import read_spans

__all__ = [
    "MAX_LINE",
    "MAX_SPANS",
    "RecordFile",
    "bill_rows",
    "billed_spans",
    "proxy_rows",
    "span_rows",
]

MAX_LINE: Final = 64 * 1024
"""Bytes of a line of a log or bill."""
MAX_SPANS: Final = 16 << 20
"""Bytes of a line of spans: one export of a collector, of many spans."""
_MAX_BUCKETS: Final = 200_000
"""Rows of a bill over time spans: an hour's for 500 models over two weeks."""


class RecordFile:
    """Bytes of the record on their way through: hashed, and counted for the progress line."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None]) -> None:
        self._file = file
        self._progress = progress
        self._digest = hashlib.sha256()
        self._read = 0

    def readline(self, limit: int) -> bytes:
        """As a file's."""
        piece = self._file.readline(limit)
        self._digest.update(piece)
        self._read += len(piece)
        self._progress(self._read)
        return piece

    @property
    def digest(self) -> str:
        """``sha256:`` name of what was read so far."""
        return f"sha256:{self._digest.hexdigest()}"


def proxy_rows(file: RecordFile, form: str, host: Authority | None) -> Iterator[tuple[int, Read]]:
    """The items of a proxy's log."""
    read = PROXY_FORMATS[form]
    for number, line, why in lines_of(file, longest=MAX_LINE):
        yield number, Unreadable(why or "") if line is None else read(line, host)


def span_rows(file: RecordFile) -> Iterator[tuple[int, Read]]:
    """The items of a file of spans; a line may hold many."""
    for number, line, why in lines_of(file, longest=MAX_SPANS):
        if line is None:
            yield number, Unreadable(why or "")
        else:
            yield from ((number, each) for each in read_spans(line))


def bill_rows(file: RecordFile, bill: BillFormat) -> Iterator[tuple[int, Read]]:
    """The items of a bill of which each row is a request."""
    for number, line, places in _below_header(file, bill):
        yield number, Unreadable(line) if places is None else read_row(line, places, bill)


def billed_spans(file: RecordFile, bill: BillFormat) -> Iterator[tuple[int, BilledSpan | Unreadable]]:
    """The rows of a bill over time spans.

    Raises:
        SettingsInvalid: there are more than fit into memory; such a bill is not by hour or day.
    """
    for count, (number, line, places) in enumerate(_below_header(file, bill)):
        if count >= _MAX_BUCKETS:
            raise SettingsInvalid(
                "too many rows for a bill by hour or day", expected=f"at most {_MAX_BUCKETS}"
            )
        yield number, Unreadable(line) if places is None else read_span_row(line, places, bill)


def _below_header(file: RecordFile, bill: BillFormat) -> Iterator[tuple[int, str, Mapping[str, int] | None]]:
    """Each row with the columns' places; without: why the row is none."""
    lines = lines_of(file, longest=MAX_LINE)
    _, header, why = next(lines, (1, None, "an empty file"))
    if header is None:
        raise SettingsInvalid("the bill has no header line", found=why)
    places = read_header(header, bill)
    for number, line, why in lines:
        yield (number, why or "", None) if line is None else (number, line, places)
