"""Byte streams to the agent: plain, and TLS terminated in memory with the session's certificate.

The first bytes of a tunnel are looked at before it is known what becomes of them, so TLS runs over
``ssl.MemoryBIO`` on what was already read; asyncio's own ``start_tls`` would lose it. Reading is bounded by
the caller's sizes, writing waits until the peer takes the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final, Protocol

__all__ = ["ByteStream", "PlainStream", "TLSStream"]

_PIECE: Final = 64 * 1024


class ByteStream(Protocol):
    """Bytes in, bytes out."""

    async def read(self) -> bytes:
        """Some bytes, at most 64 KiB; empty: the peer has ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Send ``data``; returns when the peer's window has room again."""
        ...

    async def close(self) -> None:
        """End the stream; never raises for a peer that is gone."""
        ...


class PlainStream:
    """A socket as it is. ``unread`` gives bytes back to be read again."""

    __slots__ = ("_reader", "_unread", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._unread = b""

    def unread(self, data: bytes) -> None:
        """Put ``data`` before what is read next."""
        self._unread = data + self._unread

    async def read(self) -> bytes:
        """As :class:`ByteStream`."""
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        return await self._reader.read(_PIECE)

    async def write(self, data: bytes) -> None:
        """As :class:`ByteStream`."""
        self._writer.write(data)
        await self._writer.drain()

    def write_eof(self) -> None:
        """Say that no more bytes follow."""
        with contextlib.suppress(OSError, RuntimeError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def close(self) -> None:
        """As :class:`ByteStream`."""
        self._writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """End the stream at once; what was not sent is lost."""
        self._writer.transport.abort()


class TLSStream:
    """The server's side of TLS over ``inner``."""

    __slots__ = ("_incoming", "_inner", "_object", "_outgoing")

    def __init__(self, inner: ByteStream, context: ssl.SSLContext) -> None:
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def handshake(self) -> None:
        """Complete the handshake.

        Raises:
            ssl.SSLError: the client refuses, or speaks no TLS that is accepted here.
        """
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except ssl.SSLError:
                await self._flush()  # the alert that says why
                raise
            else:
                await self._flush()
                return

    async def read(self) -> bytes:
        """As :class:`ByteStream`."""
        while True:
            try:
                return self._object.read(_PIECE)
            except ssl.SSLWantReadError:
                await self._flush()
                if self._incoming.eof:
                    return b""
                await self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    async def write(self, data: bytes) -> None:
        """As :class:`ByteStream`."""
        for start in range(0, len(data), _PIECE):
            self._object.write(data[start : start + _PIECE])
            await self._flush()

    async def close(self) -> None:
        """As :class:`ByteStream`: close_notify, then the socket."""
        with contextlib.suppress(ssl.SSLError, OSError):
            self._object.unwrap()
        with contextlib.suppress(OSError):
            await self._flush()
        await self._inner.close()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._inner.write(self._outgoing.read())

    async def _fill(self) -> None:
        data = await self._inner.read()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
