"""HTTP/1.1 with the agent over one byte stream: requests read strictly, answers written plainly.

All waiting is bounded. An answer's length is known only when redaction is done, so bodies go out chunked, or
end with the connection for HTTP/1.0.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from affiant.errors import AffiantError, MalformedError
from affiant.sandbox.egress.http.denial import Denial
from affiant.sandbox.egress.http.errors import PeerSilent, RequestTooLarge
from affiant.sandbox.egress.http.request import BodyData, EndOfRequest, NeedData, RequestEvent, RequestReader
from affiant.sandbox.egress.http.request_head import MAX_HEAD, HeaderField, RequestHead
from affiant.sandbox.egress.http.streams import ByteStream

__all__ = ["AgentHTTP", "Answer", "Memory", "Timeouts"]

_HOP_BY_HOP: Final = frozenset(
    {
        b"connection", b"content-length", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"te",
        b"trailer", b"transfer-encoding", b"upgrade", b"alt-svc",
    }
)  # fmt: skip
"""Not passed on: this hop's own, and ``Alt-Svc``, which would lead a client to another protocol or port."""

_T = TypeVar("_T")

_TIMED_OUT: Final = 408
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*\Z")
_DISCARD: Final = 128 << 20
_DISCARD_S: Final = 30.0
_QUIET_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. ``idle``: between two requests; ``head``: for a head once begun; ``body``: between two reads."""

    idle: float = 120.0
    head: float = 20.0
    body: float = 60.0


class Memory:
    """Bytes that the bodies of all connections together may hold at a time."""

    __slots__ = ("_left",)

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """Take ``size`` bytes.

        Raises:
            RequestTooLarge: so many are not left.
        """
        if size > self._left:
            raise RequestTooLarge("too many large requests at once", hint="Send fewer at the same time")
        self._left -= size

    def give_back(self, size: int) -> None:
        """Give ``size`` bytes back."""
        self._left += size


class AgentHTTP:
    """The requests and answers of one connection, one at a time."""

    def __init__(self, stream: ByteStream, timeouts: Timeouts) -> None:
        self.stream = stream
        self._timeouts = timeouts
        self._reader = RequestReader()
        self._body_done = True
        self._continue_owed = False
        self._bodiless = False

    async def next_head(self) -> RequestHead | None:
        """The next request's head; None: the agent has ended the connection, or keeps it idle.

        Raises:
            AffiantError: what ``request`` refuses; PeerSilent: a head that does not come to its end.
        """
        try:
            if self._reader.idle and not await self._fill(self._timeouts.idle):
                return None
        except PeerSilent:
            return None
        try:
            async with asyncio.timeout(self._timeouts.head):
                event = await self._event(self._timeouts.head)
        except TimeoutError as error:
            raise PeerSilent("the request's head does not come to its end") from error
        if event is None:
            return None
        if not isinstance(event, RequestHead):
            raise MalformedError("not a request's head", code="egress.request")
        self._body_done = False
        self._continue_owed = event.expects_continue
        self._bodiless = event.method == "HEAD"
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the request at hand, piece by piece.

        Raises:
            PeerSilent: the agent stops sending. ``egress.request``: it ends before the body does.
        """
        if self._continue_owed:
            self._continue_owed = False
            await self.stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._body_done:
            event = await self._event(self._timeouts.body)
            if isinstance(event, BodyData):
                yield event.data
            elif isinstance(event, EndOfRequest):
                self._body_done = True
            else:
                raise MalformedError("the body ends before its announced end", code="egress.request")

    async def whole_body(self, limit: int, memory: Memory, *, named: str | None = None) -> bytes:
        """The body of the request at hand, all of it. Its bytes stay taken from ``memory``: give them back.

        Args:
            named: the setting that ``limit`` comes from.

        Raises:
            RequestTooLarge: more than ``limit`` bytes, or no memory is left for it; nothing stays taken.
        """
        data = bytearray()
        try:
            async for piece in self.body():
                memory.take(len(piece))
                data += piece
                if len(data) > limit:
                    setting = "" if named is None else f", as the gateway's `{named}` says"
                    raise RequestTooLarge(
                        "request body too large", expected=f"at most {limit} bytes{setting}"
                    )
        except BaseException:  # given back whatever happened, and raised again
            memory.give_back(len(data))
            raise
        return bytes(data)

    @property
    def request_done(self) -> bool:
        """Whether the request at hand was read to its end."""
        return self._body_done

    async def deny(self, denial: Denial, *, keep_alive: bool) -> bool:
        """Send ``denial``; returns whether the connection can carry another request.

        The answer goes first, then what still comes of the request is taken and dropped, in bounds: a client that
        sends everything before it reads would otherwise find a connection that was reset under its answer.
        """
        keep_alive = keep_alive and not self._continue_owed and denial.status != _TIMED_OUT
        await self.stream.write(denial.to_bytes(keep_alive=keep_alive, with_body=not self._bodiless))
        reusable = False
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_DISCARD_S):
                reusable = keep_alive and await self._skip_body()
                if not reusable:
                    await self._linger()
        return reusable

    async def _gone(self) -> None:
        """Return when the agent ends the connection. What it sends ahead meanwhile is kept for later, in bounds.

        Only while no body is read.
        """
        ahead = 0
        while ahead <= MAX_HEAD:
            data = await self.stream.read()
            if not data:
                return
            self._reader.feed(data)
            ahead += len(data)
        await asyncio.get_running_loop().create_future()

    async def unless_gone(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """What ``work`` returns; None: the agent ended the connection first, and ``work`` is cancelled."""
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    def take_rest(self) -> bytes:
        """Bytes that the agent sent ahead, after a CONNECT head."""
        return self._reader.take_rest()

    async def _skip_body(self) -> bool:
        """Read and drop the rest of the body; whether its end was reached before its bound, or silence."""
        dropped, pieces = 0, self.body()
        with contextlib.suppress(TimeoutError, AffiantError):
            while dropped <= _DISCARD:
                try:
                    async with asyncio.timeout(_QUIET_S):
                        dropped += len(await anext(pieces))
                except StopAsyncIteration:
                    return True
        return False

    async def _linger(self) -> None:
        """Take what is still coming until its bound, or silence: closing over it would reset the answer away."""
        taken, data = 0, b"begun"
        while data and taken <= _DISCARD:
            async with asyncio.timeout(_QUIET_S):
                data = await self.stream.read()
            taken += len(data)

    async def _event(self, timeout: float) -> RequestEvent | None:
        """The next event but NeedData; None: the agent has ended the connection."""
        while True:
            event = self._reader.next_event()
            if not isinstance(event, NeedData):
                return event
            if not await self._fill(timeout):
                return None

    async def _fill(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                data = await self.stream.read()
        except TimeoutError as error:
            raise PeerSilent(
                "the agent sent nothing for too long", expected=f"within {timeout:g} s"
            ) from error
        self._reader.feed(data)
        return bool(data)


class Answer:
    """One answer on its way to the agent."""

    def __init__(self, http: AgentHTTP, head: RequestHead) -> None:
        self._stream = http.stream
        self._head = head
        self._chunked = False
        self._bodiless = False
        self.started = False
        self.keep_alive = head.keep_alive
        """Whether the connection can carry another request when this answer is complete."""

    async def start(self, status: int, reason: bytes, headers: Sequence[HeaderField]) -> None:
        """Send the head. Headers of the other hop are left out, the framing is ours."""
        self._bodiless = self._head.method == "HEAD" or status in {204, 304}
        self._chunked = not self._bodiless and self._head.version == 1
        if not self._bodiless and not self._chunked:
            self.keep_alive = False
        lines = [b"HTTP/1.1 %d %s" % (status, reason if _VALUE.match(reason) else b"")]
        lines += [
            b"%s: %s" % (name, value)
            for name, value in headers
            if name.lower() not in _HOP_BY_HOP and _VALUE.match(value)
        ]
        if self._chunked:
            lines.append(b"Transfer-Encoding: chunked")
        lines += [b"Connection: " + (b"keep-alive" if self.keep_alive else b"close"), b"", b""]
        self.started = True
        await self._stream.write(b"\r\n".join(lines))

    async def data(self, data: bytes) -> None:
        """Send some of the body."""
        if not data or self._bodiless:
            return
        await self._stream.write(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    async def finish(self) -> None:
        """End the body. Without this the agent sees that the answer was interrupted."""
        if self._chunked:
            await self._stream.write(b"0\r\n\r\n")
