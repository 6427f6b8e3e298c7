"""A small HTTP/1.1 client: exact bytes, kept connections, timeouts, backpressure.

What it is for decides what it lacks: one body out, one body in, no redirects, no cookies, no content coding, no
proxies. Head and body go out in one write; a connection's certificate is at hand before that write. Where a kept
connection turns out to be closed, the request is sent once more if the kernel shows that the peer received no byte of
it. Both attempts are reported.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from affiant.attestation.statements.gateway_config import UpstreamConfig
from affiant.errors import AffiantError
from affiant.gateway.upstream.http1_connection import Connection, HTTPResponse
from affiant.gateway.wire.errors import UpstreamConnectTimeout, UpstreamCut, UpstreamNotConnected

__all__ = ["Connector", "HTTPClient", "TCPConnector", "Timeouts", "request_head"]

_KEPT: Final = 32
_KEEP_ALIVE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait, at most."""

    connect: float = 10.0
    head: float = math.inf
    """From the request's last byte to the answer's head."""
    idle: float = math.inf
    """Between two reads of the body."""
    total: float = math.inf
    """From the request's last byte to the answer's end."""

    def of(self, config: UpstreamConfig) -> Timeouts:
        """Those of one upstream: of each, what is less, this or what its configuration says."""
        return replace(
            self,
            head=min(config.head_s, self.head),
            idle=min(config.idle_s, self.idle),
            total=min(config.total_s, self.total),
        )


class Connector(Protocol):
    """Opens connections to one place."""

    async def connect(self, factory: Callable[[], Connection]) -> Connection:
        """A connection that is ready for its first request.

        Raises:
            OSError, ssl.SSLError: it cannot be had.
        """
        ...


@dataclass(frozen=True, slots=True)
class TCPConnector:
    """TCP, with TLS where ``context`` is given: the peer's certificate is verified before anything is sent."""

    host: str
    port: int
    context: ssl.SSLContext | None = None

    async def connect(self, factory: Callable[[], Connection]) -> Connection:
        """Connect; asyncio sets TCP_NODELAY."""
        loop = asyncio.get_running_loop()
        name = self.host if self.context is not None else None
        _, connection = await loop.create_connection(
            factory, self.host, self.port, ssl=self.context, server_hostname=name
        )
        return connection


class HTTPClient:
    """Requests to one place, over kept connections."""

    def __init__(self, connector: Connector, *, timeouts: Timeouts) -> None:
        self._connector = connector
        self._timeouts = timeouts
        self._kept: list[Connection] = []

    async def request(
        self, data: bytes, *, tried: Callable[[str, bytes | None], None], within_s: float = math.inf
    ) -> HTTPResponse:
        """Send one whole request and wait for the head of its answer.

        Args:
            tried: gets each attempt: a stable code or ``ok``, and the peer's SPKI digest (32 bytes).
            within_s: the answer's end, where that is less than the client's own total.

        Raises:
            ``upstream.unreachable``, ``upstream.timeout``, ``upstream.head_timeout``, ``upstream.total_timeout``,
            UpstreamCut, ``upstream.malformed``: as named.
        """
        kept = self._take()
        while True:
            connection = kept or await self._connect(tried)
            answer = connection.send(data)
            try:
                await answer.head(
                    head_s=self._timeouts.head,
                    idle_s=self._timeouts.idle,
                    total_s=min(self._timeouts.total, within_s),
                    release=self._keep,
                )
            except AffiantError as error:
                tried(error.code, connection.spki)
                if kept is not None and isinstance(error, UpstreamCut) and connection.unread:
                    kept = None  # the peer closed it while it was kept
                    continue
                raise
            except BaseException:
                answer.abort()
                raise
            tried("ok", connection.spki)
            return answer

    async def close(self) -> None:
        """Close the kept connections."""
        for connection in self._kept:
            connection.abort()
        self._kept.clear()
        await asyncio.sleep(0)

    async def _connect(self, tried: Callable[[str, bytes | None], None]) -> Connection:
        try:
            async with asyncio.timeout(self._timeouts.connect):
                return await self._connector.connect(Connection)
        except TimeoutError as error:
            tried("upstream.timeout", None)
            raise UpstreamConnectTimeout(
                "the upstream did not accept a connection in time", expected=f"{self._timeouts.connect:g} s"
            ) from error
        except (OSError, ssl.CertificateError) as error:
            tried("upstream.unreachable", None)
            raise UpstreamNotConnected(
                "the upstream cannot be reached", found=_reason(error), hint="Is it running?"
            ) from error

    def _take(self) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._kept:
            connection = self._kept.pop()
            if connection.usable and now - connection.idle_since < _KEEP_ALIVE_S:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection) -> None:
        connection.idle_since = asyncio.get_running_loop().time()
        if connection.usable and len(self._kept) < _KEPT:
            self._kept.append(connection)
        else:
            connection.abort()


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    return error.strerror or type(error).__name__


def request_head(method: str, target: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head of a request; names and values are ours and hold no line ends."""
    lines = [
        f"{method} {target} HTTP/1.1".encode("ascii"),
        *(name + b": " + value for name, value in headers),
    ]
    assert not any(b"\r" in line or b"\n" in line for line in lines)
    return b"\r\n".join([*lines, b"", b""])
