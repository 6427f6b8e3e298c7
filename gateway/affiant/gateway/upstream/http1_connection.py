"""One HTTP/1.1 connection to an upstream and the answer that comes over it: exact bytes, with backpressure.

Parsing is httptools' (llhttp); what it lets through and we do not want (an upgrade, a head beyond 64 KiB, a second
answer, an answer that ends with its connection) is refused here.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, cast

import httptools

from affiant.errors import AffiantError, MalformedError, UnreachableError
from affiant.gateway.wire.errors import UpstreamCut
from affiant.gateway.wire.tls import certificate_spki

__all__ = ["Connection", "HTTPResponse"]

_HIGH_WATER: Final = 256 << 10
"""Bytes read ahead of the client, after which reading pauses."""
_LOW_WATER: Final = 64 << 10
_HINT: Final = "The gateway's operator sets it with --upstream-timeout"
_MAX_HEAD: Final = 64 << 10
_TCP_INFO_SIZE: Final = 128
_BYTES_ACKED: Final = struct.Struct("=120xQ")
"""Where ``struct tcp_info`` of Linux (4.1 and later) holds ``tcpi_bytes_acked``."""


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._answer: HTTPResponse | None = None
        self._socket: socket.socket | None = None
        self._acked_before: int | None = None
        self.idle_since = 0.0
        self.unread = False
        """The connection ended, and its peer has received no byte of the last request."""
        self.spki: bytes | None = None
        """SHA-256 of the peer's SubjectPublicKeyInfo, if there is TLS."""

    # -- asyncio.Protocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by inheritance
        if (found := self._transport.get_extra_info("socket")) is not None:
            self._socket = socket.socket(
                fileno=os.dup(found.fileno())
            )  # the transport closes its own too early
        tls = self._transport.get_extra_info("ssl_object")
        if tls is not None and (der := tls.getpeercert(binary_form=True)) is not None:
            self.spki = certificate_spki(der)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or self._parser is None:
            self.abort()  # bytes without a request
            return
        answer.started = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            answer.fail(
                MalformedError(
                    "the upstream's answer is not HTTP", found=type(error).__name__, code="upstream.malformed"
                )
            )
            self.abort()
        except AffiantError as error:
            answer.fail(error)
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        if self._socket is not None:
            self.unread = self._acked_before is not None and self._acked(self._socket) == self._acked_before
            self._socket.close()
        if self._answer is not None:
            self._answer.connection_closed()

    @staticmethod
    def _acked(connected: socket.socket) -> int | None:
        """How many bytes the peer's kernel has acknowledged; None where the kernel does not say."""
        try:
            info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
        except OSError:  # a Unix socket
            return None
        acked: int | None = _BYTES_ACKED.unpack(info)[0] if len(info) == _TCP_INFO_SIZE else None
        return acked

    # -- requests ------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    def send(self, data: bytes) -> HTTPResponse:
        """Write one request, head and body at once."""
        assert self._transport is not None, "checked by the caller in the same turn"
        self._answer = HTTPResponse(self)
        self._parser = httptools.HttpResponseParser(self._answer)
        self._answer.parser = self._parser
        self._acked_before = None if self._socket is None else self._acked(self._socket)
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


class HTTPResponse:
    """One answer, from the parser's callbacks to the reader."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._head_size = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._failure: AffiantError | None = None
        self._wake: asyncio.Future[None] | None = None
        self._release: Callable[[Connection], None] | None = None
        self._idle_s = self._ends_at = math.inf
        self._total_s = math.inf
        self.parser: httptools.HttpResponseParser | None = None
        self.started = False
        self.has_head = False
        self.complete = False
        self.status = 0
        self.spki = connection.spki

    # -- httptools' callbacks ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise MalformedError("a second answer to one request", code="upstream.malformed")
        self.headers = []  # the size goes on: interim responses are no way around its bound

    def on_status(self, status: bytes) -> None:
        self._count(len(status))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        self.headers.append((name.lower(), value))

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
            raise MalformedError(
                "the head of the answer is too large",
                expected=f"at most {_MAX_HEAD} bytes",
                code="upstream.malformed",
            )

    # -- the connection ------------------------------------------------------------------------------------

    def fail(self, error: AffiantError) -> None:
        """Nothing more will come."""
        if self._failure is None and not self.complete:
            self._failure = error
            self._notify()

    def connection_closed(self) -> None:
        """The connection ended. Without a length, that is how an answer ends; it is refused all the same: who
        cannot distinguish an end from a cut must not sign that it was complete."""
        self.fail(UpstreamCut("the upstream closed the connection before the answer was complete"))

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # -- the reader ----------------------------------------------------------------------------------------

    def header(self, name: bytes) -> bytes | None:
        """One header's value; of a repeated one, all, joined by a comma."""
        joined: bytes | None = None
        for found, value in self.headers:
            if found == name:
                joined = value if joined is None else joined + b", " + value
        return joined

    async def head(
        self, *, head_s: float, idle_s: float, total_s: float, release: Callable[[Connection], None]
    ) -> None:
        """Wait for the head of the answer; all of it must have come ``total_s`` seconds from now."""
        self._idle_s, self._total_s, self._release = idle_s, total_s, release
        self._ends_at = asyncio.get_running_loop().time() + total_s
        await self._until(lambda: self.has_head, head_s, "head")

    async def read(self) -> bytes:
        """The next bytes of the body; ``b""`` once it is complete."""
        await self._until(lambda: bool(self._chunks) or self.complete, self._idle_s, "idle")
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
            self.fail(UpstreamCut("the answer was abandoned"))
            self._connection.abort()

    def _joined(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data

    async def _until(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        loop = asyncio.get_running_loop()
        if not self.complete and loop.time() >= self._ends_at:  # also where bytes come all the time
            self._connection.abort()
            raise _timed_out("total", self._total_s)
        while not ready():
            if self._failure is not None:
                raise self._failure
            self._wake = loop.create_future()
            until = loop.time() + timeout
            due = loop.call_at(min(until, self._ends_at), self._overdue, what, timeout, until)
            try:
                await self._wake
            finally:
                due.cancel()

    def _overdue(self, what: str, seconds: float, until: float) -> None:
        error = _timed_out("total", self._total_s) if self._ends_at <= until else _timed_out(what, seconds)
        self.fail(error)
        self._connection.abort()


def _timed_out(what: str, seconds: float) -> UnreachableError:
    expected = f"within {seconds:g} s, as `{what}_s` of this upstream says"
    match what:
        case "head":
            text = "the upstream's response did not begin in time"
            error = UnreachableError(text, expected=expected, hint=_HINT, code="upstream.head_timeout")
        case "idle":
            text = "the upstream's response stopped coming"
            error = UnreachableError(text, expected=expected, hint=_HINT, code="upstream.idle_timeout")
        case _:
            text = "the upstream's response did not end in time"
            error = UnreachableError(text, expected=expected, hint=_HINT, code="upstream.total_timeout")
    return error
