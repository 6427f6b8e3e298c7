"""Sends the requests to the provisioning service, over ``httpx`` (the extra ``collateral``).

TLS is verified always, by explicit authorities; no environment variable adds a proxy, an authority or a key log.
A time limit covers each answer as a whole, from the name look-up to the last byte, so that a server which
trickles gains nothing. Bodies are counted as they come and arrive as they were sent: no encoding is asked for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from affiant.attestation.quote.collateral.errors import (
    ExtraMissing,
    ResponseRefused,
    ServerNotAuthentic,
    ServiceUnreachable,
    SettingsInvalid,
)
from affiant.attestation.quote.collateral.pcs_responses import Response
from affiant.attestation.quote.collateral.service import Question
from affiant.attestation.quote.collateral.transport import Transport

if TYPE_CHECKING:
    import httpx

__all__ = ["HTTPSettings", "connect"]

_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "affiant-collateral"}


@dataclass(frozen=True, slots=True)
class HTTPSettings:
    """How to reach the service.

    Args:
        tls_ca: PEM file of the authorities that TLS certificates are verified by, instead of the public ones
            that ``httpx`` brings along (``certifi``).
        proxy: ``http://`` or ``https://`` address of a proxy; never taken from the environment.
        answer_s: seconds that one answer may take as a whole.
        silence_s: seconds without a byte.
    """

    tls_ca: Path | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    answer_s: float = 30.0
    silence_s: float = 10.0


@asynccontextmanager
async def connect(settings: HTTPSettings) -> AsyncIterator[Transport]:
    """A transport that keeps its connections until the block ends.

    Raises:
        ExtraMissing: ``httpx`` is not installed.
        SettingsInvalid: the authorities' file or the proxy's address cannot be used.
    """
    try:
        import httpx  # noqa: PLC0415 - an extra; the base install has none
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            "fetching collateral needs the package 'httpx', which is not installed",
            hint="Install it with: pip install 'affiant[collateral]'",
        ) from error
    context = _tls_context(settings.tls_ca)
    try:
        proxy = _proxy(settings.proxy, context)
        client = httpx.AsyncClient(
            verify=context,
            trust_env=False,
            proxy=proxy,
            follow_redirects=False,
            headers=_HEADERS,
            timeout=httpx.Timeout(settings.silence_s),
        )
    except (httpx.InvalidURL, ValueError) as error:
        # Neither the address nor the library's text about it: it may hold a password.
        raise SettingsInvalid("the proxy's address cannot be used", expected="http://host:port") from error
    async with client:
        yield _HTTPXTransport(client, settings.answer_s)


def _proxy(url: str | None, context: ssl.SSLContext) -> httpx.Proxy | None:
    """A proxy over TLS is verified by the same authorities."""
    import httpx  # noqa: PLC0415 - loaded already, by `connect`

    if url is None:
        return None
    if httpx.URL(url).scheme not in ("http", "https"):
        raise ValueError("neither http nor https")
    return httpx.Proxy(url, ssl_context=context if httpx.URL(url).scheme == "https" else None)


def _tls_context(authorities: Path | None) -> ssl.SSLContext:
    """Made by hand: the library's own default reads SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE."""
    import certifi  # noqa: PLC0415 - comes with httpx

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=certifi.where() if authorities is None else str(authorities))
    except (OSError, ssl.SSLError) as error:
        raise SettingsInvalid(
            "the file of TLS authorities cannot be used",
            expected="PEM certificates",
            found=str(authorities),
        ) from error
    return context


class _HTTPXTransport:
    """See ``Transport``."""

    __slots__ = ("_answer_s", "_client")

    def __init__(self, client: httpx.AsyncClient, answer_s: float) -> None:
        self._client = client
        self._answer_s = answer_s

    async def ask(self, question: Question) -> Response:
        import httpx  # noqa: PLC0415 - loaded already, by `connect`

        host = httpx.URL(question.url).netloc.decode("ascii")
        try:
            async with asyncio.timeout(self._answer_s):
                return await self._get(question)
        except TimeoutError as error:
            raise ServiceUnreachable(
                f"{host} did not answer in time",
                where=question.title,
                expected=f"a whole answer within {self._answer_s:g} s",
            ) from error
        except httpx.TimeoutException as error:
            raise ServiceUnreachable(
                f"{host} is silent",
                where=question.title,
                expected="a byte now and then",
                found=type(error).__name__,
            ) from error
        except httpx.HTTPError as error:
            if (refusal := _verification_error(error)) is not None:
                raise ServerNotAuthentic(
                    f"the TLS certificate of {host} does not hold",
                    where=question.title,
                    found=refusal.verify_message,
                    hint="A PCCS of your own: give its authority with --tls-ca. Verification cannot be turned off.",
                ) from error
            raise ServiceUnreachable(
                f"{host} cannot be reached, or ended the connection early",
                where=question.title,
                found=f"{type(error).__name__}: {str(error)[:200]}",
                hint="Behind a proxy: give its address with --proxy; the environment is not read.",
            ) from error

    async def _get(self, question: Question) -> Response:
        async with self._client.stream("GET", question.url) as response:
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > question.limit:
                    raise ResponseRefused(
                        "the answer is too large",
                        where=question.title,
                        expected=f"at most {question.limit} bytes",
                    )
            headers = tuple(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw
            )
            return Response(response.status_code, headers, bytes(body))


def _verification_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """The failed certificate check that ``error`` comes from, if it does."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__ or error.__context__
    return None
