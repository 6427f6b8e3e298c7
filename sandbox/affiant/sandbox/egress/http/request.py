"""The requests of one connection, one after another: sans-IO.

Works as h11's connection does: bytes in by :meth:`RequestReader.feed`, events out by
:meth:`RequestReader.next_event`. Heads are ``request_head``'s; a body has a known length or plain chunks:
chunk extensions and trailers are refused. Nothing is ever repaired: what is judged is what is sent.

>>> reader = RequestReader()
>>> reader.feed(b"GET http://example.com/a HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n")
>>> head = reader.next_event()
>>> head.method, head.target
('GET', 'http://example.com/a')
>>> reader.next_event()
EndOfRequest()
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from affiant.errors import MalformedError
from affiant.sandbox.egress.http.errors import RequestTooLarge
from affiant.sandbox.egress.http.request_head import MAX_HEAD, RequestHead, parse_head, refuse_foreign_bytes

__all__ = ["BodyData", "EndOfRequest", "NeedData", "RequestEvent", "RequestReader"]

_MAX_CHUNK: Final = 1 << 30
_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,8}\Z")


@dataclass(frozen=True, slots=True)
class BodyData:
    """Some bytes of the body."""

    data: bytes


@dataclass(frozen=True, slots=True)
class EndOfRequest:
    """The request is complete; the next one may follow."""


@dataclass(frozen=True, slots=True)
class NeedData:
    """Nothing more can be said before more bytes come."""


RequestEvent = RequestHead | BodyData | EndOfRequest | NeedData


class _State(enum.Enum):
    HEAD = "head"
    SIZED = "sized"
    CHUNK_SIZE = "chunk size"
    CHUNK_DATA = "chunk data"
    CHUNK_END = "chunk end"
    LAST = "last chunk"
    END = "end"
    BROKEN = "broken"


class RequestReader:
    """The requests of one connection, one after another. After a refusal the connection is of no more use."""

    __slots__ = ("_buffer", "_left", "_state")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._state = _State.HEAD
        self._left = 0

    @property
    def idle(self) -> bool:
        """Whether no byte of a next request has come."""
        return self._state is _State.HEAD and not self._buffer

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        self._buffer += data

    def take_rest(self) -> bytes:
        """What followed a CONNECT head; the reader is done."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._state = _State.BROKEN
        return rest

    def next_event(self) -> RequestEvent:
        """What the bytes so far say.

        Raises:
            ``egress.request``, ``egress.ambiguous``, RequestTooLarge, ``egress.method``, ``egress.upgrade``:
                as the module says.
        """
        state, self._state = self._state, _State.BROKEN  # whatever raises leaves the reader unusable
        match state:
            case _State.HEAD:
                event, self._state = self._head()
            case _State.SIZED:
                event, self._state = self._sized()
            case _State.CHUNK_SIZE:
                event, self._state = self._chunk_size()
            case _State.CHUNK_DATA:
                event, self._state = self._chunk_data()
            case _State.CHUNK_END:
                event, self._state = self._chunk_end()
            case _State.LAST:
                event, self._state = self._last()
            case _State.END:
                event, self._state = EndOfRequest(), _State.HEAD
            case _State.BROKEN:
                raise MalformedError("the connection carries no more requests", code="egress.request")
        return event

    def _head(self) -> tuple[RequestEvent, _State]:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            refuse_foreign_bytes(self._buffer[:MAX_HEAD])
            if len(self._buffer) > MAX_HEAD:
                raise RequestTooLarge("request head too large", expected=f"at most {MAX_HEAD} bytes")
            return NeedData(), _State.HEAD
        head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        if head.length is None:
            return head, _State.CHUNK_SIZE
        self._left = head.length
        return head, _State.SIZED if head.length else _State.END

    def _sized(self) -> tuple[RequestEvent, _State]:
        if not self._buffer:
            return NeedData(), _State.SIZED
        data = self._taken()
        return BodyData(data), _State.SIZED if self._left else _State.END

    def _taken(self) -> bytes:
        data = bytes(self._buffer[: self._left])
        del self._buffer[: len(data)]
        self._left -= len(data)
        return data

    def _line(self, limit: int) -> bytes | None:
        end = self._buffer.find(b"\r\n", 0, limit + 2)
        if end < 0:
            if len(self._buffer) > limit + 1 or b"\n" in self._buffer:
                raise MalformedError(
                    "not a chunk of the plain form",
                    expected="hexadecimal size, CR LF",
                    code="egress.ambiguous",
                )
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _chunk_size(self) -> tuple[RequestEvent, _State]:
        line = self._line(8)
        if line is None:
            return NeedData(), _State.CHUNK_SIZE
        if _CHUNK_SIZE.match(line) is None or (size := int(line, 16)) > _MAX_CHUNK:
            raise MalformedError(
                "not a chunk size",
                expected="1 to 8 hexadecimal digits, no extension",
                code="egress.ambiguous",
            )
        self._left = size
        return self._last() if size == 0 else self._chunk_data()

    def _chunk_data(self) -> tuple[RequestEvent, _State]:
        if not self._buffer:
            return NeedData(), _State.CHUNK_DATA
        data = self._taken()
        return BodyData(data), _State.CHUNK_DATA if self._left else _State.CHUNK_END

    def _chunk_end(self) -> tuple[RequestEvent, _State]:
        line = self._line(0)
        if line is None:
            return NeedData(), _State.CHUNK_END
        return self._chunk_size()

    def _last(self) -> tuple[RequestEvent, _State]:
        line = self._line(0)
        if line is None:
            return NeedData(), _State.LAST
        return EndOfRequest(), _State.HEAD
