"""The server's HTTP/1.1 with three bounds that uvicorn's lacks: on what is no body, on requests sent ahead, on time.

A head, a trailer or a chunk's extension that never ends would otherwise be collected for as long as it comes; one
read can hold thousands of requests, each with its own state; and a head that comes byte by byte keeps its
connection for ever. Whoever can connect could do all three.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedHTTP"]

_MAX_HEAD: Final = 64 << 10
"""Bytes of a head; and of anything else between two pieces of a body."""
_MAX_AHEAD: Final = 4
"""Requests that wait on one connection for the answer before theirs."""


class _TooMany(Exception):
    """More requests sent ahead than are kept."""


class BoundedHTTP(HttpToolsProtocol):
    """One connection; beyond a bound it is answered 400, 408 or 431, and closed."""

    head_s: ClassVar[float] = 10.0
    """Seconds until a head must have come, from its first byte, or from the connection's start; also until the rest
    of a body must have come that was answered unread."""

    _framing = 0
    """Bytes since the last piece of a body, or the last end of a head or message."""
    _asked = False
    _in_head = False
    _in_body = False
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """As uvicorn's."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        self._framing += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._framing > _MAX_HEAD:
            self._refuse(b"431 Request Header Fields Too Large", "Request head too large.")
        elif self._due is None and self._is_owed():
            self._wait()

    def on_message_begin(self) -> None:
        """As uvicorn's; what is raised here is a malformed request to the parser."""
        if len(self.pipeline) >= _MAX_AHEAD:
            raise _TooMany
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """As uvicorn's."""
        self._framing, self._in_head, self._in_body = 0, False, True
        self._arrived()
        super().on_headers_complete()
        self._asked = True

    def on_body(self, body: bytes) -> None:
        """As uvicorn's."""
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """As uvicorn's."""
        self._framing, self._in_body = 0, False
        self._arrived()
        super().on_message_complete()

    def _is_owed(self) -> bool:
        """Whether something has begun that the client alone must end; a body is timed by whoever reads it."""
        if self._in_body:
            return self.cycle.response_complete
        return self._in_head or self._framing > 0

    def _wait(self) -> None:
        self._due = self.loop.call_later(self.head_s, self._overdue)

    def _arrived(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _overdue(self) -> None:
        self._due = None
        if self.transport.is_closing():
            return
        if self._asked and not self.cycle.response_complete:
            self._wait()  # an answer is under way: not into it, and not before its end
        elif self._in_body:
            self.transport.close()
        else:
            self._refuse(b"408 Request Timeout", "The request's head did not come in time.")

    def _refuse(self, status: bytes, text: str) -> None:
        """Answer and close; like uvicorn's 400, also where an answer is under way: the connection ends with it."""
        body = text.encode("ascii")
        head = b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n" % status
        self.transport.write(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        self.transport.close()
