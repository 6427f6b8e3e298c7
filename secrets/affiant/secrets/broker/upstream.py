"""The connection to an upstream: one request, one answer, HTTP/1.1, and then it is closed.

It dials the address that the supervisor checked, and looks no name up. Over TLS the certificate must hold for
the decided host under the given roots before a byte of the request is sent (S11). Redirects are answers like any
other. Every step has its time limit, and raises SecretWithdrawn once the host holds a withdrawn secret: nothing more is
sent then, and no answer handed on. What OpenSSL, h11 and the peer say stays out of every refusal: it may hold
what the peer chose, an echo among it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator
from typing import Final

import h11

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256
from affiant.attestation.encoding.der import SEQUENCE, DERError, children, read_single
from affiant.errors import NotAllowedError
from affiant.secrets.broker.client.messages import UpstreamRequest
from affiant.secrets.broker.request import PreparedRequest
from affiant.secrets.broker.session import BrokerSession
from affiant.secrets.names.errors import (
    UpstreamCertificateInvalid,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamTruncated,
    UpstreamUnreachable,
)

__all__ = ["Upstream", "dial"]

_READ_BYTES: Final = 1 << 16
_MAX_HEAD: Final = 1 << 16
_MAX_INFORMATIONAL: Final = 10
_CERTIFICATE_REASONS: Final = {
    10: "it has expired",
    9: "it is not valid yet",
    18: "it is self-signed",
    19: "its chain ends in a root that is not trusted here",
    20: "its chain ends in a root that is not trusted here",
    21: "its chain ends in a root that is not trusted here",
    62: "it is for another host",
    64: "it is for another address",
}
"""X.509 verification results (OpenSSL, x509_vfy.h) in our words."""
_VERSION: Final = 0xA0
_PUBLIC_KEY_INFO: Final = 5
"""Behind the serial number, the signature's algorithm, issuer, validity and subject."""


@contextlib.asynccontextmanager
async def dial(request: UpstreamRequest, session: BrokerSession) -> AsyncIterator[Upstream]:
    """A connection to the checked address; cut when the block ends.

    Raises:
        UpstreamUnreachable: no answer, or TLS fails.
        UpstreamCertificateInvalid: the certificate does not hold for the host.
        UpstreamTimedOut: it takes too long.
    """
    over_tls = request.scheme == "https"
    try:
        async with asyncio.timeout(session.limits.connect_ms / 1000):
            reader, writer = await asyncio.open_connection(
                request.address,
                request.port,
                ssl=session.context if over_tls else None,
                server_hostname=request.host if over_tls else None,
            )
    except TimeoutError:
        raise UpstreamTimedOut("no connection in time", found=f"{session.limits.connect_ms} ms") from None
    except ssl.SSLCertVerificationError as error:
        reason = _CERTIFICATE_REASONS.get(error.verify_code, f"verification result {error.verify_code}")
        raise UpstreamCertificateInvalid("the host's certificate does not hold", found=reason) from None
    except ssl.SSLError:
        raise UpstreamUnreachable("no TLS connection", expected="TLS 1.2 or newer") from None
    except OSError as error:
        raise UpstreamUnreachable("no connection", found=f"error {error.errno}") from None
    try:
        yield Upstream(reader, writer, session, request.host)
    finally:
        writer.transport.abort()


class Upstream:
    """One exchange over one connection. Sending and receiving may be under way at once."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: BrokerSession, host: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = session.limits
        self._echoes = session.echoes
        self._host = host
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._digest = hashlib.sha256()
        self._ended = False
        self.bytes_out = 0
        self.bytes_in = 0
        self.request_complete = False
        self.spki_sha256 = _spki_sha256(writer)

    @property
    def sent_digest(self) -> str:
        """SHA-256 of what was sent until now, placeholders in the secrets' places."""
        return b64u(self._digest.digest())

    async def send_head(self, prepared: PreparedRequest) -> None:
        """Send the head. The digest covers its form with placeholders.

        Raises:
            UpstreamTimedOut: the peer does not take it.
        """
        self._record(prepared.recorded_head)
        await self._send(prepared.head)

    async def send_body(self, data: bytes) -> None:
        """Send bytes of the body.

        Raises:
            ``broker.request``: more than the announced length.
            UpstreamTimedOut: the peer does not take them.
        """
        if data:
            self._record(data)
            await self._send(h11.Data(data=data))

    async def send_filled(self, data: bytes, *, recorded: bytes) -> None:
        """Send a whole body with values in it. The digest covers ``recorded``, its form with placeholders.

        Raises:
            ``broker.request``: not of the announced length.
            UpstreamTimedOut: the peer does not take it.
        """
        self._record(recorded)
        await self._send(h11.Data(data=data))

    async def end_request(self) -> None:
        """End the request.

        Raises:
            ``broker.request``: less than the announced length.
            UpstreamTimedOut: the peer does not take it.
        """
        await self._send(h11.EndOfMessage())
        self.request_complete = True

    def _record(self, data: bytes) -> None:
        self._digest.update(data)
        self.bytes_out += len(data)

    async def _send(self, event: h11.Event) -> None:
        self._echoes.require(self._host)
        try:
            data = self._http.send(event)
        except h11.LocalProtocolError:
            raise NotAllowedError(
                "the body does not have the announced length", code="broker.request"
            ) from None
        try:
            self._writer.write(data or b"")
            async with asyncio.timeout(self._limits.idle_ms / 1000):
                await self._writer.drain()
        except TimeoutError:
            raise UpstreamTimedOut("the host does not take the request") from None
        except OSError:
            return  # the host hung up: what it has answered until then decides

    async def receive_head(self) -> h11.Response:
        """The answer's head, after at most ten informational ones.

        A change of protocol is malformed: none was asked for.

        Raises:
            UpstreamMalformed, UpstreamTruncated, UpstreamTimedOut: no such head.
        """
        for _ in range(_MAX_INFORMATIONAL):
            event = await self._next_event(self._limits.head_ms)
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise UpstreamTruncated("the host hung up without an answer")
        raise UpstreamMalformed("the host keeps sending informational answers")

    async def receive_body(self) -> AsyncIterator[h11.Data | h11.EndOfMessage]:
        """The answer's body as it comes; last its end, with the trailers.

        Raises:
            UpstreamMalformed, UpstreamTruncated, UpstreamTimedOut: it breaks off.
        """
        while True:
            event = await self._next_event(self._limits.idle_ms)
            if isinstance(event, h11.Data):
                self.bytes_in += len(event.data)
                yield event
            elif isinstance(event, h11.EndOfMessage):
                yield event
                return
            else:
                raise UpstreamTruncated("the host hung up in the middle of its answer")

    async def _next_event(self, limit_ms: int) -> h11.Event:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                if self._ended:
                    raise UpstreamTruncated("the host hung up in the middle of its answer") from None
                raise UpstreamMalformed(
                    "the host's answer is not HTTP/1.1, or its head is too long"
                ) from None
            if isinstance(event, h11.Event):
                self._echoes.require(self._host)
                return event
            if event is not h11.NEED_DATA:
                raise UpstreamMalformed("the host goes on after its answer")
            self._http.receive_data(await self._read(limit_ms))

    async def _read(self, limit_ms: int) -> bytes:
        while True:
            sent = self.bytes_out
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    data = await self._reader.read(_READ_BYTES)
            except TimeoutError:
                if self.bytes_out > sent:
                    continue  # the request is still on its way: there cannot be an answer yet
                raise UpstreamTimedOut("the host does not answer in time", found=f"{limit_ms} ms") from None
            except OSError:
                raise UpstreamTruncated("the connection was cut") from None
            self._ended = not data
            return data


def _spki_sha256(writer: asyncio.StreamWriter) -> str | None:
    """SHA-256 of the peer's SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7); None without TLS."""
    connection: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    if connection is None:
        return None
    try:
        return b64u_sha256(_public_key_info(connection.getpeercert(binary_form=True) or b""))
    except (DERError, IndexError):
        raise UpstreamCertificateInvalid("no public key can be read in the host's certificate") from None


def _public_key_info(certificate: bytes) -> bytes:
    """The SubjectPublicKeyInfo as it is in a certificate that TLS has verified (RFC 5280, section 4.1)."""
    to_be_signed = children(read_single(certificate, SEQUENCE))[0]
    fields = children(to_be_signed.content)
    after_version = fields[fields[0].tag == _VERSION :]
    return after_version[_PUBLIC_KEY_INFO].encoded
