"""Reads a time from the command line: ``now``, RFC 3339 in UTC, or seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

import click

__all__ = ["timestamp", "timestamp_if_given"]


def timestamp(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime:
    """The callback of an option; without the option, the time of the call."""
    from affiant.attestation.tdx.pki.times import parse_rfc3339_utc  # noqa: PLC0415 - help must stay cheap

    if value is None or value == "now":
        return datetime.now(UTC)
    if value.isascii() and value.isdigit() and len(value) <= 11:
        return datetime.fromtimestamp(int(value), UTC)
    try:
        return parse_rfc3339_utc(value)
    except ValueError as error:
        raise click.BadParameter(
            "not a timestamp: now, 2026-11-21T12:00:00Z, or seconds since 1970"
        ) from error


def timestamp_if_given(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """The same; without the option, None."""
    return None if value is None else timestamp(ctx, param, value)
