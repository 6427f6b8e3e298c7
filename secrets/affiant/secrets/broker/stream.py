"""One stream, from its first frame to its end: an exchange with an upstream, a token that is fetched, or a redaction.

The request's body goes out while the answer comes in; one that a secret is in, or signs, is there as a whole before
anything goes out. The exchange ends when the answer has, when something is refused, or when the supervisor closes it;
then the connection is cut. The last frame is always the outcome, so that what was done is recorded whatever came of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import h11

from affiant.errors import AffiantError, MalformedError, NotAllowedError
from affiant.secrets.broker.client.messages import UpstreamOutcome, UpstreamRequest, checked_address
from affiant.secrets.broker.client.protocol import MAX_BODY_FRAME, Frame, FrameKind, read_frame, write_frame
from affiant.secrets.broker.redacted_response import ResponseFilter
from affiant.secrets.broker.request import PreparedRequest, prepare_request, uses_body
from affiant.secrets.broker.session import Held
from affiant.secrets.broker.token_fetch import fetch_token
from affiant.secrets.broker.upstream import Upstream, dial
from affiant.secrets.injection.body_surface import MAX_HELD_BODY
from affiant.secrets.injection.detection import PlaceholderDetector
from affiant.secrets.names.errors import BrokerFailed, BrokerGone, SecretBodyTooLarge, SecretPartialEcho
from affiant.secrets.redaction.redaction import RedactionStream, Redactor

__all__ = ["serve_stream"]

_HEAD_TIMEOUT_S: Final = 30
_LINGER_S: Final = 30


async def serve_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: Held) -> None:
    """Serve what the stream's first frame asks for, and close the stream."""
    try:
        async with asyncio.timeout(_HEAD_TIMEOUT_S):
            frame = await read_frame(reader)
        if frame is None:
            return
        match frame.members() if frame.kind is FrameKind.HEAD else {}:
            case {"op": "exchange"} as members:
                await _BrokeredRequest(reader, writer, held).serve(members)
            case {"op": "token", "name": str(name)}:
                held.session.uses.require([name])
                fresh = held.session.tokens.is_fresh(name)
                await write_frame(writer, FrameKind.END, {"fresh": fresh})
            case {"op": "fetch_token", "name": str(name), "address": str(address)}:
                await _serve_fetch(reader, writer, held, name, checked_address(address))
            case {"op": "redact", "live": bool(live)}:
                await _serve_redaction(reader, writer, RedactionStream(held.session.redactor, live=live))
            case _:
                raise MalformedError("a stream that asks for nothing known", code="broker.protocol")
    except (BrokerGone, TimeoutError):
        pass  # the supervisor closed the stream: there is no one to answer
    except AffiantError as error:
        await _send_error(writer, error)
    except Exception as error:  # noqa: BLE001 - a mistake of ours ends one exchange, never the process; its text may hold a value
        await _send_error(writer, BrokerFailed("the broker failed", found=type(error).__name__))
    finally:
        await _close(reader, writer)


class _BrokeredRequest:
    """The state of one exchange. It has the session as it is when the request is there to be prepared."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: Held) -> None:
        self._reader = reader
        self._writer = writer
        self._held = held
        self._session = held.session
        self._made = Redactor(())
        self._progress = _Progress()

    async def serve(self, members: object) -> None:
        """Do it, and send the outcome, whatever it is.

        Raises:
            BrokerGone: the supervisor closed the stream.
        """
        refusal: AffiantError | None = None
        try:
            request = UpstreamRequest.from_json(members)
            body = await self._held_body(request) if uses_body(request) else None
            self._session = self._held.session  # less may be held than when the body began
            prepared = prepare_request(request, self._session, body, now=self._now())
            self._made = Redactor.of_made(prepared.made)
            detector = PlaceholderDetector(self._session.table, content_encoding=prepared.content_encoding)
            async with self._held.until_restricted(), dial(request, self._session) as upstream:
                self._progress.upstream = upstream
                await self._exchange(request, prepared, detector, upstream)
        except BrokerGone:
            raise
        except AffiantError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - as in serve_stream: said without its text, which may hold a value
            refusal = BrokerFailed("the broker failed", found=type(error).__name__)
        await write_frame(self._writer, FrameKind.END, self._progress.outcome(refusal).to_json())

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._session.tokens.instants.unix_time(), UTC)

    async def _held_body(self, request: UpstreamRequest) -> bytes:
        """All of the body.

        Raises:
            SecretBodyTooLarge: more of it than is held. ``broker.request``: there is none.
        """
        if not request.has_body:
            raise NotAllowedError("a secret was decided in a body, and there is none", code="broker.request")
        held = bytearray()
        while (frame := await self._expected_frame()).kind is not FrameKind.END:
            held += frame.content
            if len(held) > MAX_HELD_BODY:
                raise SecretBodyTooLarge(
                    "a body with a secret in it is too long", expected=f"at most {MAX_HELD_BODY} bytes"
                )
        return bytes(held)

    async def _exchange(
        self,
        request: UpstreamRequest,
        prepared: PreparedRequest,
        detector: PlaceholderDetector,
        upstream: Upstream,
    ) -> None:
        """Send and receive at once. Sending ends only by a refusal, or when the supervisor closes."""
        if prepared.values:
            await asyncio.to_thread(self._session.echoes.sent, request.host, prepared.values)
        if self._session is not self._held.session:  # it was restricted, and is about to be interrupted
            raise NotAllowedError(
                "the profile was restricted before the request was sent", code="broker.request"
            )
        await upstream.send_head(prepared)
        sending = asyncio.create_task(self._send(request, prepared, detector, upstream))
        receiving = asyncio.create_task(self._receive(request, upstream))
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            await (sending if sending.done() else receiving)
        finally:
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _send(
        self,
        request: UpstreamRequest,
        prepared: PreparedRequest,
        detector: PlaceholderDetector,
        upstream: Upstream,
    ) -> None:
        if prepared.body is not None:
            await upstream.send_filled(prepared.body, recorded=prepared.recorded_body)
        while request.has_body and prepared.body is None:
            frame = await self._expected_frame()
            if frame.kind is FrameKind.END:
                await upstream.send_body(detector.flush())
                break
            await upstream.send_body(detector.feed(frame.content))
        await upstream.end_request()
        if await read_frame(self._reader) is not None:
            raise MalformedError("a frame after the end of the request", code="broker.protocol")
        raise BrokerGone("the supervisor closed the stream")

    async def _expected_frame(self) -> Frame:
        frame = await read_frame(self._reader)
        if frame is None:
            raise BrokerGone("the supervisor closed the stream")
        if frame.kind is FrameKind.HEAD:
            raise MalformedError("a second head", code="broker.protocol")
        return frame

    async def _receive(self, request: UpstreamRequest, upstream: Upstream) -> None:
        try:
            await self._hand_back(request, upstream)
        except SecretPartialEcho as error:
            raise self._session.echoes.counted(error) from None

    async def _hand_back(self, request: UpstreamRequest, upstream: Upstream) -> None:
        parts = self._session.echoes.parts(request.host)
        answer = ResponseFilter(self._session.redactor, method=request.method, made=self._made, parts=parts)
        self._progress.answer = answer
        received = await upstream.receive_head()
        self._progress.status = received.status_code
        if received.status_code == HTTPStatus.UNAUTHORIZED:
            self._session.tokens.rejected(name for name, _ in request.uses)
        head = answer.head(received.status_code, received.headers)
        await write_frame(self._writer, FrameKind.HEAD, head.to_json())
        async for event in upstream.receive_body():
            match event:
                case h11.Data():
                    await self._hand_on(answer.body(bytes(event.data)))
                case h11.EndOfMessage():
                    rest, trailers = answer.end(), answer.fields(event.headers)
                    await self._hand_on(rest)
                    self._progress.trailers = trailers

    async def _hand_on(self, data: bytes) -> None:
        if data:
            await write_frame(self._writer, FrameKind.BODY, data)


@dataclass(slots=True)
class _Progress:
    """What has been done until now: the outcome is read from it, wherever the exchange breaks off."""

    upstream: Upstream | None = None
    answer: ResponseFilter | None = None
    status: int | None = None
    trailers: tuple[tuple[bytes, bytes], ...] = field(default=())

    def outcome(self, refusal: AffiantError | None) -> UpstreamOutcome:
        told = UpstreamOutcome(
            redactions=0 if self.answer is None else self.answer.redactions,
            status=self.status,
            trailers=self.trailers,
            refusal=refusal,
        )
        if self.upstream is None:
            return told
        return replace(
            told,
            bytes_out=self.upstream.bytes_out,
            bytes_in=self.upstream.bytes_in,
            sent_digest=self.upstream.sent_digest if self.upstream.bytes_out else None,
            request_complete=self.upstream.request_complete,
            spki_sha256=self.upstream.spki_sha256,
        )


async def _serve_fetch(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: Held, name: str, address: str
) -> None:
    """Fetch a token, and report the outcome; abandoned when the supervisor closes the stream."""
    fetching = asyncio.create_task(fetch_token(held, name, address))
    leaving = asyncio.create_task(read_frame(reader))
    try:
        await asyncio.wait((fetching, leaving), return_when=asyncio.FIRST_COMPLETED)
        if fetching.done():
            await write_frame(writer, FrameKind.END, fetching.result().to_json())
    finally:
        for task in (fetching, leaving):
            task.cancel()
        await asyncio.gather(fetching, leaving, return_exceptions=True)


async def _serve_redaction(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: RedactionStream
) -> None:
    """Each frame is answered by what is decided now, and an end with the number of replacements until now.

    An empty frame says that nothing has come for a while.
    """
    while (frame := await read_frame(reader)) is not None:
        if frame.kind is FrameKind.HEAD:
            raise MalformedError("a second head", code="broker.protocol")
        ended = frame.kind is FrameKind.END
        decided = (
            stream.flush() if ended else stream.feed(frame.content) if frame.content else stream.settle()
        )
        await write_frame(writer, FrameKind.BODY, decided)
        await write_frame(writer, FrameKind.END, {"redactions": stream.count})
        if ended:
            return


async def _send_error(writer: asyncio.StreamWriter, error: AffiantError) -> None:
    with contextlib.suppress(BrokerGone):
        await write_frame(writer, FrameKind.END, UpstreamOutcome(refusal=error).to_json())


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close after the supervisor has: closing before it has read the last frame could cost it that frame."""
    try:
        with contextlib.suppress(OSError):  # a timeout among them
            async with asyncio.timeout(_LINGER_S):
                while await reader.read(MAX_BODY_FRAME):
                    pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
