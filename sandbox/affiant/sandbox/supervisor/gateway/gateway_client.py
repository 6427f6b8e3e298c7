"""HTTP/1.1 over TLS to the one gateway that was appraised: pinned by its key, never by a name or an authority.

The gateway's certificate is made in its TD at start; the SHA-256 of its public key is in the keyset statement
that a quote binds. A connection whose peer shows another key is closed before a byte of a request goes out. The
first connection, on which the gateway is appraised, has no pin yet: it gives its peer's key to be compared.

Requests are never repeated here: whether a second attempt is harmless only the caller knows. Two things are tried again
for a while, because the gateway did nothing yet: a connection that ended before its handshake, and a request before the
admission that the gateway is too busy for (:meth:`GatewayClient.post`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import h11
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.errors import ConfigurationError
from affiant.policy.model.profile import Approval
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable
from affiant.sandbox.egress.http.request_head import HeaderField

__all__ = ["NOTICED_S", "GatewayClient", "GatewayConnection", "GatewayReply", "Timing"]

_PIECE: Final = 64 * 1024
_QUEUED_S: Final = 300.0
"""For how long a gateway has a request wait for an upstream, and for a connection to it, at most."""
_MARGIN_S: Final = 60.0
NOTICED_S: Final = 5.0
"""Within so many seconds a gateway has noticed, and recorded, that an answer is read no more."""
_CLOSED_WITHIN_S: Final = 1.0
_LEFT_WITHIN_S: Final = 2.0
"""The same where a request is left before its answer: less than a proxy that stops waits for its connections."""
_PATIENCE_S: Final = 10.0
"""How long a gateway that is too busy to begin is asked again."""
_PAUSE_S: Final = 0.25
_ATTEMPTS: Final = 8
_BUSY: Final = (b'"gateway.crowded"', b'"gateway.memory"')
"""Codes of a gateway that has done nothing of what it was asked."""
_MAX_WHOLE: Final = 1 << 20
"""Bytes of an answer that is taken whole; a bundle comes in pieces."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. ``answer``: until the head of an answer; the gateway may queue a request."""

    connect: float = 10.0
    answer: float = 600.0
    piece: float = 600.0
    idle: float = 2.0
    """How long a connection is kept for the next request: less than the gateway keeps it."""

    @classmethod
    def of_session(cls, config: GatewayConfig, approval: Approval) -> Timing:
        """For a session's requests: as long as its gateway's configuration lets an upstream take; and where people
        approve, the gateway holds a whole response until they have."""
        held = approval.ttl if approval.approvers else 0
        total_s = max(each.total_s for each in config.upstreams)
        idle_s = max(each.idle_s for each in config.upstreams)
        return cls(answer=_QUEUED_S + total_s + held, piece=_MARGIN_S + idle_s)


class GatewayConnection:
    """One connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=128 * 1024)
        self.spki = _peer_spki(writer)
        self.used_at = time.monotonic()

    @property
    def reusable(self) -> bool:
        """Whether the last answer was taken to its end and the peer keeps the connection."""
        return (
            self._http.our_state is h11.IDLE and not self._reader.at_eof() and not self._writer.is_closing()
        )

    async def send(self, method: str, target: str, headers: Sequence[HeaderField], body: bytes) -> None:
        """Send a whole request.

        Raises:
            GatewayUnreachable: HTTP/1.1 cannot carry it; nothing was sent.
        """
        fields = [(b"Host", self._host.encode("ascii")), (b"Content-Length", str(len(body)).encode("ascii"))]
        try:
            request = h11.Request(method=method, target=target, headers=[*fields, *headers])
        except h11.LocalProtocolError as error:
            raise GatewayUnreachable("a request that HTTP/1.1 cannot carry") from error
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()

    async def event(self, timeout: float) -> h11.Event:
        """The next event of the answer.

        Raises:
            GatewayUnreachable: the gateway broke off, was silent for too long, or does not speak HTTP.
        """
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(timeout):
                    data = await self._reader.read(_PIECE)
                self._http.receive_data(data)
        except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
            raise GatewayUnreachable("the gateway broke its answer off") from error
        if isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            raise GatewayUnreachable("the gateway closed the connection")
        assert isinstance(event, h11.Event)
        return event

    def end_of_answer(self) -> None:
        """Be ready for the next request, if both sides keep the connection."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        self.used_at = time.monotonic()

    async def until_closed(self) -> None:
        """Return when the peer has closed the connection; what it sends unasked is passed over."""
        with contextlib.suppress(OSError):
            while await self._reader.read(_PIECE):
                pass

    async def close(self, *, within_s: float = _CLOSED_WITHIN_S) -> bool:
        """Close; an answer that has not ended is broken off. The peer has ``within_s`` to say that it closes, too.

        Returns:
            whether it did: then it has received everything that was sent (RFC 8446, section 6.1: its own
            ``close_notify`` answers ours, which came after the rest).
        """
        self._writer.close()
        try:
            async with asyncio.timeout(within_s):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass
        else:
            return True
        return False


class GatewayReply:
    """One answer. Close it: one that was taken to its end gives its connection back."""

    def __init__(
        self, client: GatewayClient, connection: GatewayConnection, response: h11.Response, timing: Timing
    ) -> None:
        self._client = client
        self._connection = connection
        self._timing = timing
        self._ended = False
        self._broken_off = False
        self._left_at: float | None = None
        self.spki = connection.spki
        """The key that the peer of this very connection showed."""
        self.status: int = response.status_code
        self.headers: tuple[HeaderField, ...] = tuple((bytes(n), bytes(v)) for n, v in response.headers)

    @property
    def unaccounted(self) -> bool:
        """Whether the gateway may have no record of it yet: it was not taken to its end, for which there is a record,
        and was not left so long ago that the gateway has surely noticed."""
        left_long_ago = self._left_at is not None and time.monotonic() - self._left_at > NOTICED_S
        return not self._ended and (self._broken_off or not left_long_ago)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, byte for byte.

        Raises:
            GatewayUnreachable: the gateway broke off.
        """
        while not self._ended:
            try:
                event = await self._connection.event(self._timing.piece)
            except GatewayUnreachable:
                self._broken_off = True
                raise
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._connection.end_of_answer()
                self._ended = True

    async def body(self, limit: int = _MAX_WHOLE) -> bytes:
        """The whole body.

        Raises:
            GatewayUnreachable: broken off, or longer than ``limit`` bytes.
        """
        data = bytearray()
        async for chunk in self.chunks():
            data += chunk
            if len(data) > limit:
                raise GatewayUnreachable(
                    "the gateway's answer is too large", expected=f"at most {limit} bytes"
                )
        return bytes(data)

    async def close(self) -> None:
        """Release the connection."""
        self._left_at = time.monotonic()
        await self._client.give_back(self._connection)


class GatewayClient:
    """Connections to one gateway.

    Args:
        url: ``https://host:port``, nothing else.
        spki: SHA-256 of the peer's public key (43 characters); None: any, to be compared by the caller.

    Raises:
        ConfigurationError: not such an address.
    """

    def __init__(self, url: str, *, spki: str | None, timing: Timing | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or not parts.port or parts.path not in ("", "/"):
            raise ConfigurationError("not a gateway's address", expected="https://host:port", found=url[:80])
        self._host, self._port = parts.hostname, parts.port
        self._spki = spki
        self._timing = timing or Timing()
        self._context = _context()
        self._idle: list[GatewayConnection] = []

    async def request(
        self,
        method: str,
        target: str,
        headers: Sequence[HeaderField] = (),
        body: bytes = b"",
        *,
        left: Callable[[], None] | None = None,
    ) -> GatewayReply:
        """Send one request and return when the head of its answer is there.

        Args:
            left: called where this is cancelled, if the gateway surely has the whole request all the same.

        Raises:
            GatewayUnreachable: no connection, or no answer; whether the gateway acted on it is not known.
            GatewayNotTheOne: the peer shows another key than the pinned one; nothing was sent.
        """
        connection, sent = await self.connection(), False
        try:
            await connection.send(method, target, headers, body)
            sent = True
            while True:
                event = await connection.event(self._timing.answer)
                if isinstance(event, h11.Response):
                    return GatewayReply(self, connection, event, self._timing)
        except OSError as error:
            await connection.close()
            raise GatewayUnreachable("the gateway broke the connection") from error
        except asyncio.CancelledError:
            closed = await connection.close(within_s=_LEFT_WITHIN_S)
            if sent and closed and left is not None:
                left()
            raise
        except BaseException:  # closed whatever happened, and raised again
            await connection.close()
            raise

    async def post(
        self, target: str, headers: Sequence[HeaderField], body: bytes, *, limit: int
    ) -> tuple[GatewayReply, bytes]:
        """Send a request before the session is admitted; the whole answer. Sent again while the gateway is busy.

        Args:
            limit: bytes of the answer.

        Raises:
            GatewayUnreachable, GatewayNotTheOne: as :meth:`request`.
        """
        began = time.monotonic()
        while True:
            reply = await self.request("POST", target, headers, body)
            try:
                data = await reply.body(limit)
            finally:
                await reply.close()
            busy = reply.status in {429, 503} and any(code in data for code in _BUSY)
            if not busy or time.monotonic() - began >= _PATIENCE_S:
                return reply, data
            await asyncio.sleep(_PAUSE_S)

    async def connection(self) -> GatewayConnection:
        """A connection to the pinned peer, perhaps a kept one."""
        while self._idle:
            kept = self._idle.pop()
            if kept.reusable and time.monotonic() - kept.used_at < self._timing.idle:
                return kept
            await kept.close()
        connection = await self._connect()
        if self._spki is not None and connection.spki != self._spki:
            await connection.close()
            raise GatewayNotTheOne(
                "the gateway shows another key than the one that was appraised",
                expected=self._spki,
                found=connection.spki,
            )
        return connection

    async def give_back(self, connection: GatewayConnection) -> None:
        """Keep ``connection`` for the next request, or close it."""
        if connection.reusable:
            self._idle.append(connection)
        else:
            await connection.close()

    async def close(self) -> None:
        """Close the kept connections."""
        while self._idle:
            await self._idle.pop().close()

    async def _connect(self) -> GatewayConnection:
        try:
            async with asyncio.timeout(self._timing.connect):
                reader, writer = await self._open()
        except (OSError, TimeoutError) as error:
            raise GatewayUnreachable(
                "the gateway does not answer", where=f"{self._host}:{self._port}"
            ) from error
        return GatewayConnection(reader, writer, f"{self._host}:{self._port}")

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        attempts = _ATTEMPTS
        while True:
            try:
                return await asyncio.open_connection(
                    self._host, self._port, ssl=self._context, server_hostname="", limit=4 * _PIECE
                )
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):  # a crowded gateway ended it
                attempts -= 1
                if not attempts:
                    raise
                await asyncio.sleep(_PAUSE_S)


def _context() -> ssl.SSLContext:
    """TLS 1.3; the certificate is not verified here because its key is compared with what a quote binds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _peer_spki(writer: asyncio.StreamWriter) -> str:
    tls = writer.get_extra_info("ssl_object")
    certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64u(hashlib.sha256(spki).digest())
