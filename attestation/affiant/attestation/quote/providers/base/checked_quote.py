"""Checks what every provider must return: a TDX quote over exactly the 64 bytes that were asked for."""

from __future__ import annotations

import hmac

from affiant.attestation.quote.providers.base.errors import ResponseRefused, SettingsInvalid
from affiant.attestation.tdx.quote.quote import MAX_QUOTE_BYTES, parse_quote
from affiant.errors import AffiantError

__all__ = ["REPORT_DATA_SIZE", "check_quote", "check_report_data"]

REPORT_DATA_SIZE = 64


def check_report_data(report_data: bytes) -> None:
    """Refuse anything but 64 bytes: a shorter value would be padded by somebody, and nobody could say how.

    Raises:
        SettingsInvalid: another size.
    """
    if len(report_data) != REPORT_DATA_SIZE:
        raise SettingsInvalid(
            "report data of another size",
            expected=f"{REPORT_DATA_SIZE} bytes",
            found=f"{len(report_data)} bytes",
        )


def check_quote(data: bytes, report_data: bytes, *, source: str) -> bytes:
    """``data``, if it is a TDX quote over ``report_data``. Not a verification: that is the reader's.

    Raises:
        ResponseRefused: no TDX quote, or one over other report data (another caller's, by a race).
    """
    if len(data) > MAX_QUOTE_BYTES:
        raise ResponseRefused(
            f"{source} gave more than a quote",
            expected=f"at most {MAX_QUOTE_BYTES} bytes",
            found=f"{len(data)} bytes",
            hint="Evidence of another form (DICE, for example) is not supported.",
        )
    try:
        quote = parse_quote(data)
    except AffiantError as error:
        raise ResponseRefused(f"{source} gave something that is no TDX quote: {error}") from error
    if not hmac.compare_digest(quote.body.report_data, report_data):
        raise ResponseRefused(f"{source} gave a quote over other report data")
    return data
