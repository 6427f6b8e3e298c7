"""The command line of `affiant reconcile` as one object; what cannot be meant is refused before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from affiant.attestation.audit.reconcile.buckets import SPANS
from affiant.attestation.audit.records_of_others.bill import COLUMNS, BillFormat
from affiant.attestation.audit.records_of_others.errors import SettingsInvalid
from affiant.attestation.audit.records_of_others.facts import Authority, parse_authority
from affiant.attestation.audit.records_of_others.scope import Scope
from affiant.attestation.audit.records_of_others.timestamps import rfc3339

__all__ = ["RecordOptions", "bound", "record_options", "scope_of"]


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Which record is read, and how.

    Args:
        kind: ``proxy-log``, ``bill`` or ``spans``.
        form: the proxy's format, or how a bill is read, to show.
        span: of a bill over time spans, milliseconds.
    """

    kind: str
    path: Path
    form: str
    host: Authority | None = None
    bill: BillFormat | None = None
    span: int | None = None


def bound(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """The callback of ``--from`` and ``--to``: milliseconds since 1970."""
    if value is None:
        return None
    try:
        return rfc3339(value)
    except ValueError as error:
        raise click.BadParameter("not a time: 2026-11-21T12:00:00Z") from error


def scope_of(begin: int | None, end: int | None, hosts: Sequence[str]) -> Scope:
    """What is asked about.

    Raises:
        SettingsInvalid: nothing could be inside, or a host is none.
    """
    if begin is not None and end is not None and begin >= end:
        raise SettingsInvalid("an empty range", expected="--from before --to")
    return Scope(begin, end, frozenset(map(_authority, hosts)) if hosts else None)


def _authority(text: str) -> Authority:
    found = parse_authority(text)
    if found is None:
        raise SettingsInvalid("not a host", expected="name or name:port", found=repr(text[:80]))
    return found


def record_options(
    *,
    proxy_log: Path | None,
    bill: Path | None,
    spans: Path | None,
    proxy_format: str | None,
    log_host: str | None,
    columns: Sequence[str],
    models: Sequence[str],
    bucket: str | None,
    bill_time: str,
) -> RecordOptions:
    """The record that the options name.

    Raises:
        SettingsInvalid: none, several, or an option of another kind of record.
    """
    if sum(path is not None for path in (proxy_log, bill, spans)) != 1:
        raise SettingsInvalid("which record is followed", expected="one of --proxy-log, --bill and --spans")
    if proxy_log is None and (proxy_format or log_host):
        raise SettingsInvalid("--proxy-format and --log-host are for --proxy-log")
    if bill is None and (columns or models or bucket):
        raise SettingsInvalid("--column, --model-name and --bucket are for --bill")
    if proxy_log is not None:
        return _proxy(proxy_log, proxy_format, log_host)
    if bill is not None:
        return _bill(bill, columns, models, bucket, bill_time)
    assert spans is not None
    return RecordOptions("spans", spans, "OTLP JSON lines")


def _proxy(path: Path, form: str | None, log_host: str | None) -> RecordOptions:
    if form is None:
        raise SettingsInvalid("which format the log has", expected="--proxy-format")
    return RecordOptions("proxy-log", path, form, host=None if log_host is None else _authority(log_host))


def _bill(
    path: Path, columns: Sequence[str], models: Sequence[str], bucket: str | None, time_form: str
) -> RecordOptions:
    named = _pairs(columns, "--column")
    if unknown := sorted(set(named) - set(COLUMNS)):
        raise SettingsInvalid("no such column", expected=", ".join(COLUMNS), found=unknown[0][:60])
    if missing := [each for each in ("time", "model") if each not in named]:
        raise SettingsInvalid(f"which column is the {missing[0]}", expected=f"--column {missing[0]}=HEADER")
    if bucket is None and "requests" in named:
        raise SettingsInvalid("only bills over time spans have a count of requests", expected="--bucket")
    if time_form == "date" and bucket != "day":
        raise SettingsInvalid("a date says no time of a request", expected="--bucket day")
    form = "one request a row" if bucket is None else f"one {bucket} and model a row"
    return RecordOptions(
        "bill",
        path,
        form,
        bill=BillFormat(named, time_form, _pairs(models, "--model-name")),
        span=None if bucket is None else SPANS[bucket],
    )


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name or not value or name in found:
            raise SettingsInvalid(f"{option} {text[:80]!r}", expected="NAME=VALUE, each name once")
        found[name] = value
    return found
