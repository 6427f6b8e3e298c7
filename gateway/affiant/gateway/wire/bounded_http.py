"""The server's HTTP/1.1 with four bounds that uvicorn's lacks: what is no body, requests sent ahead, two of time.

A head, a trailer or a chunk's extension that never ends would otherwise be collected for as long as it comes; one
read can hold thousands of requests, each with its own state; a head that comes byte by byte keeps its connection
for ever; and so does a client that takes nothing of its answer, with all that the answer holds: a slot at an upstream,
a connection to it, room in the limits. Any client that can connect could do the first three, and any session
the last.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from affiant.gateway.wire.connections import connection_of

__all__ = ["BoundedHTTP", "taken_bytes"]

_MAX_HEAD: Final = 64 << 10
"""Bytes of a head; and of anything else between two pieces of a body."""
_MAX_AHEAD: Final = 4
"""Requests that wait on one connection for the answer before theirs."""
_INFO_SIZE: Final = 128
_BYTES_ACKED: Final = 120
"""Where ``tcpi_bytes_acked`` is in Linux's ``struct tcp_info`` (include/uapi/linux/tcp.h): 8 bytes, native."""
_LOOKS: Final = 4
"""How often within its time a stalled client is looked at; all of them must find that it took nothing. Counted rather
than timed: a machine that stood still for a minute has looked once."""


class _TooMany(Exception):
    """More requests sent ahead than are kept."""


class BoundedHTTP(HttpToolsProtocol):
    """One connection; beyond a bound it is answered 400, 408 or 431, and closed."""

    head_s: ClassVar[float] = 10.0
    """Seconds until a head must have come, from its first byte, or from the connection's start; also until the rest
    of a body must have come that was answered unread."""
    stalled_s: ClassVar[float] = 60.0
    """Seconds, and up to a quarter more, in which a client that is owed more than buffers hold must take a byte, or its
    connection is ended. A minute: agents that work between two reads, and networks that change, come back within it;
    and it is less than what an upstream may take between two reads (:class:`~.http1.Timeouts`)."""

    _framing = 0
    """Bytes since the last piece of a body, or the last end of a head or message."""
    _asked = False
    _in_head = False
    _in_body = False
    _due: asyncio.TimerHandle | None = None
    _look_due: asyncio.TimerHandle | None = None
    _unanswered: tuple[RequestResponseCycle, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """As uvicorn's."""
        super().connection_made(transport)
        if (connection := connection_of({"state": self.app_state})) is not None:
            connection.end = transport.abort
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's, which reports only to the last of the requests that were sent ahead that its client is gone.

        A request whose body came whole with the end gets that first: who signed for it knows that it was received, so
        its record must have its counter, and for that its digest. Its reader is woken before what is called now.
        """
        self._arrived()
        self._unwatch()
        if (connection := connection_of({"state": self.app_state})) is not None:
            connection.leave()
        if any(cycle.message_event.is_set() and not cycle.more_body for cycle in self._unanswered):
            self.loop.call_soon(self._lost, exc)
        else:
            self._lost(exc)

    def _lost(self, exc: Exception | None) -> None:
        for cycle in self._unanswered:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """As uvicorn's: from now on a sender waits for the client."""
        super().pause_writing()
        self._watch(taken_bytes(self.transport), idle=0)

    def resume_writing(self) -> None:
        """As uvicorn's."""
        self._unwatch()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        self._framing += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._framing > _MAX_HEAD:
            self._reject(b"431 Request Header Fields Too Large", "Request head too large.")
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
        waiting = (cycle for cycle in self._unanswered if not cycle.response_complete)
        self._unanswered = (*waiting, self.cycle)

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
        """Whether something has begun that the client alone must end; a body is timed by its reader."""
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
            self._reject(b"408 Request Timeout", "The request's head did not come in time.")

    def _watch(self, taken: int, *, idle: int) -> None:
        self._unwatch()
        self._look_due = self.loop.call_later(self.stalled_s / _LOOKS, self._look, taken, idle)

    def _unwatch(self) -> None:
        if self._look_due is not None:
            self._look_due.cancel()
            self._look_due = None

    def _look(self, before: int, idle: int) -> None:
        """Give the client up after enough looks in a row at which it had taken nothing since the one before."""
        taken = taken_bytes(self.transport)
        idle = idle + 1 if taken == before else 0
        if idle < _LOOKS:
            self._watch(taken, idle=idle)
        else:
            self.transport.abort()  # not close, which waits for the client to take the rest

    def _reject(self, status: bytes, text: str) -> None:
        """Answer and close; like uvicorn's 400, also where an answer is under way: the connection ends with it."""
        body = text.encode("ascii")
        head = b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n" % status
        self.transport.write(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        self.transport.close()


def taken_bytes(transport: asyncio.Transport) -> int:
    """A count that changes when the peer takes bytes: of TCP, what it has acknowledged, as the kernel counts.

    The transport's buffers do not show it: they shrink when the kernel takes bytes, which it does in steps of up to
    some MiB while the peer's acknowledgements move byte by byte; and a TLS peer can make them grow.

    Where the kernel does not say (a Unix socket; another system than Linux), what the transport still holds, negated.
    """
    peer: socket.socket | None = transport.get_extra_info("socket")
    if peer is not None and peer.family != getattr(socket, "AF_UNIX", None):
        try:
            info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
        except (AttributeError, OSError):
            info = b""
        if len(info) == _INFO_SIZE:
            (acknowledged,) = struct.unpack_from("=Q", info, _BYTES_ACKED)
            return int(acknowledged)
    return -transport.get_write_buffer_size()
