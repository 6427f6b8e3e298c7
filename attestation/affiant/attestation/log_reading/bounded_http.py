"""Sends one bounded request over ``httpx`` (the extras ``log`` and ``gateway``) to a log, a witness or a timestamp
authority.

TLS is verified always, by explicit authorities; nothing is taken from the environment and no redirect is followed. A
time limit covers each answer as a whole, so that a server which trickles gains nothing. Bodies are counted as they
come; one that comes compressed, as C2SP tlog-tiles allows, is counted as it unfolds.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from affiant.attestation.log_reading.errors import (
    ExtraMissing,
    LogSettingsInvalid,
    LogUnavailable,
    LogUnreachable,
    RedirectRefused,
    ResourceTooLarge,
    ServerNotAuthentic,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["HTTPResponse", "HTTPSettings", "bounded_request", "check_prefix", "make_client"]

_HEADERS: Final = {"Accept-Encoding": "gzip, identity", "User-Agent": "affiant-log"}
_GZIP: Final = 31
"""``wbits`` of zlib for a gzip frame and no other."""


@dataclass(frozen=True, slots=True)
class HTTPSettings:
    """How a server is reached.

    Args:
        tls_ca: PEM file of the authorities that TLS certificates are verified by, instead of the public ones.
        log_spki: TLS keys that the server of the log may have, and no other server: SHA-256 of a SubjectPublicKeyInfo,
            43 characters each; empty: authorities.
        answer_s: seconds that one answer may take as a whole.
        silence_s: seconds without a byte.
    """

    tls_ca: Path | None = None
    log_spki: tuple[str, ...] = ()
    answer_s: float = 30.0
    silence_s: float = 10.0


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """Status, media type in lower case without parameters, and the whole body."""

    status: int
    media_type: str
    body: bytes


def check_prefix(prefix: str) -> None:
    """Refuse an address that could not be asked, or that holds a password.

    Raises:
        LogSettingsInvalid: neither http nor https, no host, a user, a query or a fragment.
    """
    if not _is_prefix(prefix):  # the address itself is not repeated: it may hold a password
        raise LogSettingsInvalid(
            "not the address of a log or a witness", expected="https://host/path without user and query"
        )


def _is_prefix(prefix: str) -> bool:
    try:
        parts = urlsplit(prefix)
        named = parts.hostname is not None and parts.hostname != "" and parts.port != 0
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and named and plain and prefix.isprintable()


def make_client(
    settings: HTTPSettings,
    *,
    sockets: Mapping[str, str] = MappingProxyType({}),
    tls: ssl.SSLContext | None = None,
) -> httpx.AsyncClient:
    """A client that verifies TLS always, follows nothing and reads no environment.

    Args:
        sockets: address without path (``http://name``) -> the Unix socket behind it.
        tls: what servers are verified by, in place of the authorities of ``settings``.

    Raises:
        ExtraMissing: ``httpx`` is not installed.
        LogSettingsInvalid: the authorities cannot be used.
    """
    try:
        import httpx  # noqa: PLC0415 - an extra; the base install has none
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            "reading a log over HTTP needs the package 'httpx', which is not installed",
            hint="Install it with: pip install 'affiant[log]'",
        ) from error
    tls = _tls_context(settings.tls_ca) if tls is None else tls
    return httpx.AsyncClient(
        verify=tls,
        trust_env=False,
        follow_redirects=False,
        headers=_HEADERS,
        timeout=httpx.Timeout(settings.silence_s),
        mounts={name: httpx.AsyncHTTPTransport(verify=tls, uds=path) for name, path in sockets.items()},
    )


async def bounded_request(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    limit: int,
    answer_s: float,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> HTTPResponse:
    """One request, and its whole answer of at most ``limit`` bytes, within ``answer_s`` seconds.

    Raises:
        LogUnreachable, ServerNotAuthentic, RedirectRefused, ResourceTooLarge: as named.
    """
    import httpx  # noqa: PLC0415 - loaded already, by `make_client`

    try:
        async with asyncio.timeout(answer_s):
            async with client.stream(method, url, content=content, headers=headers) as response:
                return await _answer(response, url, limit)
    except TimeoutError as error:
        raise LogUnreachable(
            "no whole answer in time", where=url, expected=f"within {answer_s:g} s"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if (failed := _verification_error(error)) is not None:
            raise ServerNotAuthentic(
                "the server's TLS certificate does not hold",
                where=url,
                found=failed.verify_message,
                hint="A server of your own: give its authority with --tls-ca; a "
                "gateway: its TLS key with --tls-spki. Verification cannot be turned off.",
            ) from error
        raise LogUnreachable(
            "the server cannot be reached, or ended the connection early",
            where=url,
            found=f"{type(error).__name__}: {str(error)[:200]}",
        ) from error


async def _answer(response: httpx.Response, url: str, limit: int) -> HTTPResponse:
    if 300 <= response.status_code < 400:
        raise RedirectRefused(
            "the server sends us elsewhere",
            where=url,
            found=f"HTTP {response.status_code}",
            hint="Give the address of the log itself.",
        )
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise LogUnavailable("an encoding that was not asked for", where=url, found=repr(encoding[:40]))
    unfold = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk if unfold is None else unfold.decompress(chunk, limit + 1 - len(body))
            if len(body) > limit:
                raise ResourceTooLarge(
                    "the answer is too large", where=url, expected=f"at most {limit} bytes"
                )
    except zlib.error as error:
        raise LogUnavailable("an answer that does not unfold", where=url) from error
    if unfold is not None and (not unfold.eof or unfold.unused_data or unfold.unconsumed_tail):
        raise LogUnavailable("an answer that is cut short, or goes on after its end", where=url)
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return HTTPResponse(response.status_code, media_type, bytes(body))


def _tls_context(authorities: Path | None) -> ssl.SSLContext:
    """Made by hand: the library's own default reads SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE."""
    import certifi  # noqa: PLC0415 - comes with httpx

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=certifi.where() if authorities is None else str(authorities))
    except (OSError, ssl.SSLError) as error:
        raise LogSettingsInvalid(
            "the file of TLS authorities cannot be used",
            expected="PEM certificates",
            found=str(authorities),
        ) from error
    return context


def _verification_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """The failed certificate check that ``error`` comes from, if it does."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__ or error.__context__
    return None
