"""An upstream's bill or usage export: CSV with a header line, whose columns the reader names. Pure, line by line.

One line is one record: a quoted field does not go over a line's end here, because one lost quotation mark would then
swallow the rest of a bill. Counts are decimal digits alone; ``1,234``, ``12.0`` and ``1e3`` are unreadable.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from affiant.attestation.audit.records_of_others.errors import SettingsInvalid
from affiant.attestation.audit.records_of_others.facts import Facts
from affiant.attestation.audit.records_of_others.foreign_json import decimal_number
from affiant.attestation.audit.records_of_others.item import Item, Unreadable
from affiant.attestation.audit.records_of_others.timestamps import rfc3339

__all__ = ["COLUMNS", "TIME_FORMS", "BillFormat", "BilledSpan", "read_header", "read_row", "read_span_row"]

COLUMNS: Final = ("time", "model", "input", "output", "id", "requests")
"""What a column may be named as; only bills over time spans have ``requests``."""
TIME_FORMS: Final = ("rfc3339", "unix", "date")
"""``unix``: whole seconds since 1970; ``date``: ``2026-11-21``, a day in UTC."""
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class BillFormat:
    """How a bill is read.

    Args:
        columns: one of :data:`COLUMNS` -> the header of its column.
        time_form: one of :data:`TIME_FORMS`.
        models: a model as billed -> as it was asked for.
    """

    columns: Mapping[str, str]
    time_form: str = "rfc3339"
    models: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class BilledSpan:
    """A row over a time span. None: the bill has no such column."""

    begun: int
    model: str
    requests: int | None
    tokens_in: int | None
    tokens_out: int | None


def read_header(line: str, bill: BillFormat) -> Mapping[str, int]:
    """The position of each column.

    Raises:
        SettingsInvalid: a column that the header does not have, or has twice.
    """
    names = _fields(line.removeprefix("\ufeff"))
    if names is None:
        raise SettingsInvalid("the bill's first line is no CSV header")
    places = {}
    for what, name in bill.columns.items():
        if names.count(name) != 1:
            raise SettingsInvalid(
                f"the bill's header has no column for {what}"
                if name not in names
                else f"two columns {name!r}",
                expected=repr(name),
                found=", ".join(map(repr, names[:16]))[:300],
            )
        places[what] = names.index(name)
    return {**places, "": len(names)}


def read_row(line: str, places: Mapping[str, int], bill: BillFormat) -> Item | Unreadable:
    """A row that is one request."""
    try:
        values = _values(line, places)
        at = _time(values["time"], bill.time_form)
        return Item(
            at,
            at,
            facts=Facts(
                model=_model(values["model"], bill),
                tokens_in=_count(values.get("input"), "input"),
                tokens_out=_count(values.get("output"), "output"),
            ),
            maybe_receipt=values.get("id") or None,
            reference=values.get("id") or None,
        )
    except ValueError as error:
        return Unreadable(str(error))


def read_span_row(line: str, places: Mapping[str, int], bill: BillFormat) -> BilledSpan | Unreadable:
    """A row that sums up a time span."""
    try:
        values = _values(line, places)
        return BilledSpan(
            begun=_time(values["time"], bill.time_form),
            model=_model(values["model"], bill),
            requests=_count(values.get("requests"), "requests"),
            tokens_in=_count(values.get("input"), "input"),
            tokens_out=_count(values.get("output"), "output"),
        )
    except ValueError as error:
        return Unreadable(str(error))


def _values(line: str, places: Mapping[str, int]) -> Mapping[str, str]:
    fields = _fields(line)
    if fields is None:
        raise ValueError("not CSV, or a field that goes over the line's end")
    if len(fields) != places[""]:
        raise ValueError(f"{len(fields)} fields under a header of {places['']}")
    return {what: fields[place] for what, place in places.items() if what}


def _fields(line: str) -> Sequence[str] | None:
    try:
        rows = list(csv.reader([line], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _time(text: str, form: str) -> int:
    if form == "unix":
        if not (text.isascii() and text.isdigit() and len(text) <= 11):
            raise ValueError("a time that is not whole seconds since 1970")
        return int(text) * 1000
    if form == "date":
        match = _DATE.fullmatch(text)
        if match is None:
            raise ValueError("a time that is not like 2026-11-21")
        day = datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
        return int(day.timestamp()) * 1000
    return rfc3339(text)


def _model(text: str, bill: BillFormat) -> str:
    if not text:
        raise ValueError("no model")
    return (bill.models or {}).get(text, text)


def _count(text: str | None, name: str) -> int | None:
    if text is None or not text:
        return None
    number = decimal_number(text)
    if number is None:
        raise ValueError(f"{name} is no count in decimal digits")
    return number
