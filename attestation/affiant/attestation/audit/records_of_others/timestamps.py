"""Reads the times in other programs' records: each format has one form, and any other form is an error.

Results are milliseconds since 1970, UTC. Fractions beyond milliseconds are cut off.

>>> rfc3339("2026-11-21T12:00:05.25Z")
1795262405250
>>> common_log("21/Nov/2026:13:00:05 +0100")
1795262405000
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["common_log", "rfc3339", "rfc3339_text", "squid", "unix_nanoseconds"]

_HOUR: Final = r"(?:[01]\d|2[0-3])"
_RFC3339: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\dT{_HOUR}:\d\d:\d\d(?:\.\d{{1,9}})?(?:Z|[+-]{_HOUR}:[0-5]\d)", re.ASCII
)
_COMMON_LOG: Final = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d{4})", re.ASCII)
_SQUID: Final = re.compile(r"\d{1,11}\.\d{3}", re.ASCII)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 253402300799999
"""The last millisecond of the year 9999."""


def rfc3339(text: str) -> int:
    """RFC 3339 with ``T`` and a zone: ``2026-11-21T12:00:05.123Z``, ``...+01:00``.

    Raises:
        ValueError: another form, or no such time (as with the others below).
    """
    if _RFC3339.fullmatch(text) is None:
        raise ValueError("a time that is not RFC 3339 with a zone")
    try:
        return (datetime.fromisoformat(text).astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise ValueError("a time that no calendar has") from error


def rfc3339_text(milliseconds: int) -> str:
    """The time as text, with milliseconds where there are any; the number itself where no calendar has it."""
    try:
        at = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{at:%Y-%m-%dT%H:%M:%S}{f'.{at.microsecond // 1000:03}' if at.microsecond else ''}Z"


def common_log(text: str) -> int:
    """The access logs' ``21/Nov/2026:12:00:05 +0000``."""
    match = _COMMON_LOG.fullmatch(text)
    if match is None or match[2] not in _MONTHS:
        raise ValueError("a time that is not like 21/Nov/2026:12:00:05 +0000")
    day, month, year, clock, zone = match.groups()
    try:
        return rfc3339(f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}{zone[:3]}:{zone[3:]}")
    except ValueError as error:
        raise ValueError("a time that no calendar or time zone has") from error


def squid(text: str) -> int:
    """Seconds since 1970 with three digits of milliseconds."""
    if _SQUID.fullmatch(text) is None:
        raise ValueError("a time that is not like 1795262405.123")
    return int(text.replace(".", ""))


def unix_nanoseconds(value: object) -> int:
    """Nanoseconds since 1970, as an integer or in decimal digits (OTLP JSON)."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and 0 < len(text) <= 20):
        raise ValueError("a time that is not nanoseconds since 1970")
    milliseconds = int(text) // 1_000_000
    if not 0 < milliseconds <= _LATEST:
        raise ValueError("a time that no calendar has")
    return milliseconds
