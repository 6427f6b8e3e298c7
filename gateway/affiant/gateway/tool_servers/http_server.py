"""A server of tools over streamable HTTP: TLS as the configuration pins it, bounded answers, its key in one header.

The SDK's transport follows redirects within the server's own origin only. Beside that nothing ambient: no proxies and
no certificates of the environment, no cookies, no content coding, and no more bytes of one answer than a result may
have.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.gateway.tool_gate.link import Opener
from affiant.gateway.tool_gate.results import MAX_RESULT
from affiant.gateway.upstream.openai_upstream import Credentials, pinned_context

__all__ = ["http_opener"]

_MAX_ANSWER: Final = 2 * MAX_RESULT
_CONNECT_S: Final = 10.0


def http_opener(config: MCPServerConfig, credentials: Credentials) -> Opener:
    """Opens connections to the server at ``config.url``.

    Raises:
        ``gateway.settings``: its roots are not those of the configuration.
    """
    assert config.url is not None
    url = config.url
    context = pinned_context(config.id, config.roots, credentials) if url.startswith("https:") else None
    headers = {"accept-encoding": "identity", "user-agent": "affiant-gateway"}

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        secret = {}
        if config.header is not None and credentials.key is not None:
            value = credentials.key.reveal().decode("ascii")
            bearer = config.header.lower() == "authorization"
            secret = {config.header: f"Bearer {value}" if bearer else value}
        async with (
            httpx2.AsyncClient(
                transport=_Bounded(context),
                headers={**headers, **secret},
                timeout=httpx2.Timeout(_CONNECT_S, read=float(config.timeout_s)),
                trust_env=False,
                follow_redirects=False,
            ) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MAX_RESULT) as streams,
        ):
            yield streams

    return opened


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport whose answers end with an error where they are encoded, or larger than any result."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._inner = httpx2.AsyncHTTPTransport(
            verify=True if context is None else context,  # of http without TLS, nothing is asked
            trust_env=False,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("an encoded answer", request=request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._stream = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > _MAX_ANSWER:
                raise httpx2.ReadError("too large an answer", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
