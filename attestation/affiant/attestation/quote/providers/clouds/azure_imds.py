"""Asks Azure's instance metadata service to turn a TDREPORT of this VM into a TD quote. Not yet run on Azure.

Source: Microsoft's open guest attestation code: ``POST http://169.254.169.254/acc/tdquote``, ``{"report":<b64url>}``,
is answered by ``{"quote":<b64url>}``. The service belongs to the host, which is not trusted: what it gives is a quote
over the report data that was asked for, or it is refused; and who reads the quote verifies it.

Over ``httpx`` (the extra ``collateral``). Plain HTTP to a link-local address, as the service is; no proxy and nothing
else from the environment, no redirect; a time limit covers each answer as a whole, and its body is bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.errors import AffiantError

if TYPE_CHECKING:
    import httpx

__all__ = ["AZURE_IMDS", "AzureIMDS"]

AZURE_IMDS: Final = "http://169.254.169.254"
_PATH: Final = "/acc/tdquote"
_MAX_ANSWER: Final = 64 * 1024
_HEADERS: Final = {
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "Metadata": "true",
    "User-Agent": "affiant-sources",
}
_BUSY: Final = (408, 429, 500, 502, 503, 504)


class AzureIMDS:
    """The metadata service of the VM that this program runs in.

    Args:
        base: its address, for tests.
        connect_s: seconds until a machine without it is known to have none.
        answer_s: seconds that one answer may take as a whole; the host makes a quote for it.
    """

    def __init__(self, base: str = AZURE_IMDS, *, connect_s: float = 2.0, answer_s: float = 30.0) -> None:
        self._base = base
        self._connect_s = connect_s
        self._answer_s = answer_s

    def td_quote(self, td_report: bytes) -> bytes:
        """The TD quote for ``td_report`` (1024 bytes), as it came: unread and unverified.

        Not to be called where an event loop runs: it waits.

        Raises:
            SettingsInvalid: ``httpx`` is not installed.
            ProviderAbsent: no such service here, or it has no TD quotes.
            ProviderBusy: it does not answer in time, or not now.
            ResponseRefused: another answer than a quote, too large a one, or a redirect.
        """
        try:
            import httpx  # noqa: PLC0415 - an extra; the base install has none
        except ModuleNotFoundError as error:
            raise SettingsInvalid(
                "asking Azure's metadata service needs the package 'httpx', which is not installed",
                hint="Install it with: pip install 'affiant[collateral]'",
            ) from error
        try:
            status, body = asyncio.run(self._post(canonical({"report": b64u(td_report)})))
        except TimeoutError as error:
            raise ProviderBusy(
                "Azure's metadata service did not answer in time",
                where=self._base,
                expected=f"a whole answer within {self._answer_s:g} s",
            ) from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ProviderAbsent(
                "there is no Azure metadata service on this machine",
                where=self._base,
                found=type(error).__name__,
            ) from error
        except httpx.HTTPError as error:
            raise ProviderBusy(
                "Azure's metadata service broke off", where=self._base, found=type(error).__name__
            ) from error
        self._demand_ok(status)
        return _quote_of(body)

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        import httpx  # noqa: PLC0415 - loaded already, by `td_quote`

        timeout = httpx.Timeout(self._answer_s, connect=self._connect_s)
        async with (
            asyncio.timeout(self._answer_s),
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=timeout) as client,
            client.stream("POST", self._base + _PATH, content=body, headers=_HEADERS) as response,
        ):
            return response.status_code, await _bounded(response)

    def _demand_ok(self, status: int) -> None:
        if status == 200:
            return
        if status in _BUSY:
            raise ProviderBusy("Azure's metadata service has no quote now", where=self._base, found=status)
        if status in (404, 405):
            raise ProviderAbsent(
                "this machine's metadata service has no TD quotes",
                where=self._base,
                found=f"status {status}",
                hint="An Azure confidential VM on TDX has them.",
            )
        raise ResponseRefused(
            "Azure's metadata service refuses the question",
            where=self._base,
            expected="status 200; a redirect is not followed",
            found=f"status {status}",
        )


async def _bounded(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_ANSWER:
            raise ResponseRefused(
                "Azure's metadata service answered too much", expected=f"at most {_MAX_ANSWER} bytes"
            )
    return bytes(body)


def _quote_of(body: bytes) -> bytes:
    try:
        quote = parse_object(body, limit=_MAX_ANSWER, strict_form=False).get("quote")
        if not isinstance(quote, str):
            raise ResponseRefused(
                "Azure's metadata service answered without a quote", expected="member quote"
            )
        return from_b64u(quote.rstrip("="))
    except ResponseRefused:
        raise
    except AffiantError as error:
        raise ResponseRefused(f"Azure's metadata service answered something else: {error}") from error
