"""Asks a timestamp authority over HTTP (RFC 3161, section 3.4): one bounded request, no redirects, no settings from
the environment.

What an authority answers is believed for nothing here: ``token`` judges it.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

from affiant.attestation.log_reading.bounded_http import (
    HTTPResponse,
    HTTPSettings,
    bounded_request,
    make_client,
)
from affiant.attestation.log_reading.errors import (
    ExtraMissing,
    LogUnavailable,
    LogUnreachable,
    RedirectRefused,
    ResourceTooLarge,
)
from affiant.attestation.signatures.timestamps.errors import (
    AnchorExtraMissing,
    AnchorSettingsInvalid,
)
from affiant.attestation.signatures.timestamps.response import MAX_RESPONSE
from affiant.errors import UnreachableError

__all__ = ["ask_authority", "check_authority"]

_QUERY: Final = "application/timestamp-query"
_REPLY: Final = "application/timestamp-reply"


def check_authority(url: str) -> None:
    """Refuse an address that could not be asked, or that holds a password.

    Raises:
        AnchorSettingsInvalid: neither http nor https, no host, or a user.
    """
    try:
        parts = urlsplit(url)
        plain = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and "@" not in parts.netloc
        )
    except ValueError:
        plain = False
    if not plain or not url.isprintable():  # the address is not repeated: it may hold a password
        raise AnchorSettingsInvalid("not the address of a timestamp authority", expected="https://host/path")


def ask_authority(url: str, request: bytes, settings: HTTPSettings) -> bytes:
    """The authority's response to ``request``, at most 64 KiB.

    Raises:
        AnchorSettingsInvalid: an address that could not be asked.
        AnchorExtraMissing: ``httpx`` is not installed.
        ``anchor.unreachable``: no connection, or no whole answer in time.
        ``anchor.unavailable``: an answer that is none.
        ServerNotAuthentic: the server's TLS certificate does not hold.
    """
    check_authority(url)
    try:
        answer = asyncio.run(_posted(url, request, settings))
    except ExtraMissing as error:
        raise AnchorExtraMissing(
            "asking a timestamp authority needs the package 'httpx', which is not installed",
            hint="Install it with: pip install 'affiant[timestamps]'",
        ) from error
    except LogUnreachable as error:
        raise UnreachableError(
            error.message, where=url, expected=error.expected, found=error.found, code="anchor.unreachable"
        ) from error
    except (RedirectRefused, ResourceTooLarge, LogUnavailable) as error:
        raise UnreachableError(
            error.message, where=url, expected=error.expected, found=error.found, code="anchor.unavailable"
        ) from error
    if answer.status != 200 or answer.media_type != _REPLY:
        raise UnreachableError(
            "the server has no timestamp for us",
            where=url,
            expected=f"HTTP 200, {_REPLY}",
            found=f"HTTP {answer.status}, {answer.media_type[:60] or 'no media type'}",
            code="anchor.unavailable",
        )
    return answer.body


async def _posted(url: str, request: bytes, settings: HTTPSettings) -> HTTPResponse:
    async with make_client(settings) as client:
        return await bounded_request(
            client,
            "POST",
            url,
            limit=MAX_RESPONSE,
            answer_s=settings.answer_s,
            content=request,
            headers={"Content-Type": _QUERY, "Accept": _REPLY},
        )
