"""Access logs of proxies that can be read without guessing: our own NDJSON, Envoy, Squid, nginx. Pure, line by line.

| format | a line | time is | bytes |
|---|---|---|---|
| ``ndjson`` | a JSON object with :data:`MEMBERS` | the end, ``duration_ms`` after the begin | bodies |
| ``envoy-json`` | Envoy's JSON log with Istio's keys | ``start_time``, and ``duration`` (ms) after it | bodies |
| ``squid`` | Squid's native format | the end; the second field is the duration | not compared: with headers |
| ``nginx-combined`` | nginx's and Apache's combined format | the end | not compared: may be compressed or framed |

The member ``x-request-id`` and its like are shown and never compared: no receipt knows them. Squid cuts queries off,
unless its configuration says otherwise; a path without one is compared without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from affiant.attestation.audit.records_of_others.facts import Authority, Facts, parse_authority
from affiant.attestation.audit.records_of_others.foreign_json import (
    ForeignJSONError,
    decimal_number,
    parse_foreign_object,
)
from affiant.attestation.audit.records_of_others.item import Item, Unreadable
from affiant.attestation.audit.records_of_others.timestamps import common_log, rfc3339, squid
from affiant.attestation.schema.trace_context import trace_of

__all__ = ["MEMBERS", "PROXY_FORMATS", "LineReader"]

LineReader = Callable[[str, Authority | None], Item | Unreadable]
"""A line without its end, and the host that the log is of where its lines name none -> what it says."""

MEMBERS: Final = (
    *("time", "duration_ms", "host", "method", "path", "status"),
    *("request_bytes", "response_bytes", "receipt_id", "traceparent", "request_id"),
)
"""Of the format ``ndjson``; ``time`` and ``host`` are required, other members are ignored."""

_ENVOY: Final = {
    "host": "authority",
    "status": "response_code",
    "request_bytes": "bytes_received",
    "response_bytes": "bytes_sent",
    "receipt_id": "affiant_receipt_id",
}
"""Our name of a member -> Envoy's, where they differ."""
_RECEIPT: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_METHOD: Final = re.compile(r"[A-Z]{1,16}", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}
_SQUID: Final = re.compile(
    r"(\S{1,20}) +(\d{1,12}) (\S+) [A-Z_]+/(\d{3}) \d+ ([A-Z]{1,16}) (\S+) \S+ [A-Z_]+/\S+ \S+", re.ASCII
)
_COMBINED: Final = re.compile(
    r'\S+ \S+ \S+ \[([^\]]{1,40})\] "([A-Z]{1,16}) (\S+) HTTP/[0-9.]{1,4}" (\d{3}) (?:\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*")?',
    re.ASCII,
)
_LONGEST_MS: Final = 7 * 86_400_000
"""A request of more than a week is a wrong duration; believed, it would reach over half of a log."""


def read_ndjson(line: str, host: Authority | None) -> Item | Unreadable:
    """One line of our own format."""
    return _from_members(line, host, {})


def read_envoy(line: str, host: Authority | None) -> Item | Unreadable:
    """One line of Envoy's JSON log."""
    return _from_members(line, host, _ENVOY)


def _from_members(line: str, host: Authority | None, names: Mapping[str, str]) -> Item | Unreadable:
    try:
        members = parse_foreign_object(line)
        values = {name: _stated(members.get(names.get(name, name))) for name in MEMBERS}
        if names:
            begun = rfc3339(_text(members.get("start_time"), "start_time"))
            ended = begun + _duration(members.get("duration"))
        else:
            ended = rfc3339(_text(values["time"], "time"))
            begun = ended - _duration(values["duration_ms"])
        return _item(values, begun, ended, host)
    except (ForeignJSONError, ValueError) as error:
        return Unreadable(str(error))


def _stated(value: object) -> object:
    """Envoy writes what is not there as ``-`` or null."""
    return None if value in ("-", "") else value


def _item(values: Mapping[str, object], begun: int, ended: int, host: Authority | None) -> Item:
    method = _form(values["method"], _METHOD, "method")
    authority = _authority(values["host"], method) if values["host"] is not None else host
    if authority is None:
        raise ValueError("no host")
    tunnel = method == "CONNECT"
    path = None if tunnel or values["path"] is None else _text(values["path"], "path")
    return Item(
        begun,
        ended,
        authority,
        Facts(
            method=method,
            path=path,
            status=None if tunnel else _count(values["status"], "status"),
            sent=None if tunnel else _count(values["request_bytes"], "request_bytes"),
            received=None if tunnel else _count(values["response_bytes"], "response_bytes"),
            trace=_trace(values["traceparent"]),
        ),
        receipt=_form(values["receipt_id"], _RECEIPT, "receipt_id"),
        tunnel=tunnel,
        reference=None if values["request_id"] is None else _text(values["request_id"], "request_id"),
    )


def _authority(value: object, method: str | None) -> Authority:
    found = parse_authority(_text(value, "host"), default_port=443 if method == "CONNECT" else None)
    if found is None:
        raise ValueError("a host that is none")
    return found


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"no {name}" if value is None else f"a {name} that is no text")  # noqa: TRY004 - caught above
    return value


def _form(value: object, form: re.Pattern[str], name: str) -> str | None:
    if value is None:
        return None
    text = _text(value, name)
    if form.fullmatch(text) is None:
        raise ValueError(f"a {name} of another form")
    return text


def _count(value: object, name: str) -> int | None:
    if value is None:
        return None
    number = decimal_number(value)
    if number is None:
        raise ValueError(f"a {name} that is no count")
    return number


def _duration(value: object) -> int:
    number = _count(value, "duration") or 0
    if number > _LONGEST_MS:
        raise ValueError("a duration of more than a week")
    return number


def _trace(value: object) -> tuple[str, str] | None:
    """Trace and parent of a W3C ``traceparent``; another form is no trace, as it is to a receiver."""
    found = trace_of([value.encode("utf-8", "replace")]) if isinstance(value, str) else None
    return None if found is None else (found.trace, found.span)


def read_squid(line: str, host: Authority | None) -> Item | Unreadable:
    """One line of Squid's native format (``logformat squid``)."""
    match = _SQUID.fullmatch(line)
    if match is None:
        return Unreadable("not Squid's native format")
    try:
        ended = squid(match[1])
        begun = ended - _duration(match[2])
        method, address = match[5], match[6]
        tunnel = method == "CONNECT"
        authority, path = (parse_authority(address), None) if tunnel else _url(address, host)
    except ValueError as error:
        return Unreadable(str(error))
    if authority is None:
        return Unreadable("no host")
    status = int(match[4]) or None  # 000: the caller left before an answer
    facts = Facts(method=method, path=path, status=None if tunnel else status)
    stripped = path is not None and "?" not in path
    return Item(begun, ended, authority, facts, tunnel=tunnel, query_unknown=stripped)


def read_combined(line: str, host: Authority | None) -> Item | Unreadable:
    """One line of the combined (or common) format."""
    match = _COMBINED.fullmatch(line)
    if match is None:
        return Unreadable("not the combined format")
    method, target = match[2], match[3]
    tunnel = method == "CONNECT"
    try:
        at = common_log(match[1])
        authority, path = (parse_authority(target), None) if tunnel else _url(target, host)
    except ValueError as error:
        return Unreadable(str(error))
    if authority is None:
        return Unreadable("no host")
    facts = Facts(method=method, path=path, status=None if tunnel else int(match[4]))
    return Item(at, at, authority, facts, tunnel=tunnel)


def _url(address: str, host: Authority | None) -> tuple[Authority | None, str]:
    """An absolute address, or a path at the log's own host."""
    if address.startswith("/"):
        return host, address
    parts = urlsplit(address)
    if parts.scheme not in _PORTS:
        raise ValueError("an address that is neither http nor https")
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return parse_authority(parts.netloc, default_port=_PORTS[parts.scheme]), path


PROXY_FORMATS: Final[Mapping[str, LineReader]] = {
    "ndjson": read_ndjson,
    "envoy-json": read_envoy,
    "squid": read_squid,
    "nginx-combined": read_combined,
}
"""What ``--proxy-format`` may name."""
