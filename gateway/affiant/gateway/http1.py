"""A small HTTP/1.1 client: exact bytes, kept connections, timeouts, backpressure.

What it is for decides what it lacks: one body out, one body in, no redirects, no cookies, no content coding, no
proxies. Head and body go out in one write; a connection's certificate is at hand before that write. A kept
connection that turns out to be closed before any byte of an answer is replaced once, and both attempts are told.

Parsing is httptools' (llhttp); what it lets through and we do not want (an upgrade, a head beyond 64 KiB) is
refused here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

import httptools

from affiant.errors import AffiantError
from affiant.gateway.errors import (
    UpstreamCut,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from affiant.gateway.tls import certificate_spki

__all__ = ["Answer", "Connection", "Connector", "HTTPClient", "TCPConnector", "Timeouts", "request_head"]

_HIGH_WATER: Final = 256 << 10
"""Bytes read ahead of the client, after which reading pauses."""
_LOW_WATER: Final = 64 << 10
_MAX_HEAD: Final = 64 << 10
_KEPT: Final = 32
_KEEP_ALIVE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait, at most."""

    connect: float = 10.0
    head: float = 300.0
    """From the request's last byte to the answer's head: a model may think for long."""
    read: float = 120.0
    """Between two reads of the body."""


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


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: Answer | None = None
        self.idle_since = 0.0
        self.spki: bytes | None = None
        """SHA-256 of the peer's SubjectPublicKeyInfo, if there is TLS."""

    # -- asyncio.Protocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by inheritance
        tls = self._transport.get_extra_info("ssl_object")
        if tls is not None and (der := tls.getpeercert(binary_form=True)) is not None:
            self.spki = certificate_spki(der)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or self._parser is None:
            self.abort()  # bytes that nobody asked for
            return
        answer.started = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            answer.fail(UpstreamMalformed("the upstream's answer is not HTTP", found=type(error).__name__))
            self.abort()
        except AffiantError as error:
            answer.fail(error)
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        if self._answer is not None:
            self._answer.connection_closed()

    # -- requests ------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    def send(self, data: bytes) -> Answer:
        """Write one request, head and body at once."""
        assert self._transport is not None, "checked by the caller in the same turn"
        self._answer = Answer(self)
        self._parser = httptools.HttpResponseParser(self._answer)
        self._answer.parser = self._parser
        self.write(data)
        return self._answer

    def write(self, data: bytes) -> None:
        """Hand bytes to the transport."""
        assert self._transport is not None
        self._transport.write(data)

    def pause(self) -> None:
        """Stop reading: the client does not keep up."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None:
            self._transport.resume_reading()

    def done(self) -> None:
        """The answer is complete; the connection may be used again."""
        self._answer, self._parser = None, None

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


class Answer:
    """One answer, from the parser's callbacks to the reader."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._head_size = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._failure: AffiantError | None = None
        self._wake: asyncio.Future[None] | None = None
        self._release: Callable[[Connection], None] | None = None
        self._read_timeout = 120.0
        self.parser: httptools.HttpResponseParser | None = None
        self.started = False
        self.has_head = False
        self.complete = False
        self.status = 0
        self.spki = connection.spki

    # -- httptools' callbacks ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise UpstreamMalformed("a second answer to one request")
        self._headers, self._head_size = [], 0

    def on_status(self, status: bytes) -> None:
        self._count(len(status))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        assert self.parser is not None
        self.status = self.parser.get_status_code()
        if self.status >= 200:
            self.has_head = True
            self._notify()

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > _HIGH_WATER and not self._paused:
            self._paused = True
            self._connection.pause()
        self._notify()

    def on_message_complete(self) -> None:
        if not self.has_head:  # an interim answer (100 Continue, 103 Early Hints)
            return
        self.complete = True
        keep = self.parser is not None and self.parser.should_keep_alive()
        self._connection.done()
        if keep and self._release is not None:
            self._release(self._connection)
        elif not keep:
            self._connection.abort()
        self._notify()

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > _MAX_HEAD:
            raise UpstreamMalformed(
                "the head of the answer is too large", expected=f"at most {_MAX_HEAD} bytes"
            )

    # -- the connection ------------------------------------------------------------------------------------

    def fail(self, error: AffiantError) -> None:
        """Nothing more will come."""
        if self._failure is None and not self.complete:
            self._failure = error
            self._notify()

    def connection_closed(self) -> None:
        """The connection ended. Without a length, that is how an answer ends; it is refused all the same: who
        cannot tell an end from a cut must not sign that it was complete."""
        self.fail(UpstreamCut("the upstream closed the connection before the answer was complete"))

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # -- the reader ----------------------------------------------------------------------------------------

    def header(self, name: bytes) -> bytes | None:
        """One header's value; of a repeated one, all, joined by a comma."""
        values = [value for found, value in self._headers if found == name]
        return b", ".join(values) if values else None

    async def head(
        self, timeout: float, *, read_timeout: float, release: Callable[[Connection], None]
    ) -> None:
        """Wait for the head of the answer."""
        self._read_timeout, self._release = read_timeout, release
        await self._until(lambda: self.has_head, timeout, "head")

    async def read(self) -> bytes:
        """The next bytes of the body; ``b""`` once it is complete."""
        await self._until(lambda: bool(self._chunks) or self.complete, self._read_timeout, "body")
        if not self._chunks:
            return b""
        data = self._chunks.popleft() if len(self._chunks) == 1 else self._joined()
        self._buffered -= len(data)
        if self._paused and self._buffered < _LOW_WATER:
            self._paused = False
            self._connection.resume()
        return data

    def abort(self) -> None:
        """Read no further."""
        if not self.complete:
            self.fail(UpstreamCut("the answer was given up"))
            self._connection.abort()

    def _joined(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data

    async def _until(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        while not ready():
            if self._failure is not None:
                raise self._failure
            self._wake = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout):
                    await self._wake
            except TimeoutError as error:
                self._connection.abort()
                raise UpstreamTimeout(f"the upstream's {what} did not come in {timeout:g} s") from error


class HTTPClient:
    """Requests to one place, over kept connections."""

    def __init__(self, connector: Connector, *, timeouts: Timeouts) -> None:
        self._connector = connector
        self._timeouts = timeouts
        self._kept: list[Connection] = []

    async def request(self, data: bytes, *, tried: Callable[[str, bytes | None], None]) -> Answer:
        """Send one whole request and wait for the head of its answer.

        Args:
            tried: told of each attempt: a stable code or ``ok``, and the peer's SPKI digest (32 bytes).

        Raises:
            UpstreamUnreachable, UpstreamTimeout, UpstreamCut, UpstreamMalformed: as named.
        """
        while True:
            kept = self._take()
            connection = kept or await self._connect(tried)
            answer = connection.send(data)
            try:
                await answer.head(self._timeouts.head, read_timeout=self._timeouts.read, release=self._keep)
            except AffiantError as error:
                tried(error.code, connection.spki)
                if kept is not None and isinstance(error, UpstreamCut) and not answer.started:
                    continue  # closed while it was kept: nothing was read of it, so nothing answered
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
            tried(UpstreamTimeout.code, None)
            raise UpstreamTimeout("the upstream did not accept a connection in time") from error
        except (OSError, ssl.CertificateError) as error:
            tried(UpstreamUnreachable.code, None)
            raise UpstreamUnreachable(
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
