"""The load generator: kept connections, requests made beforehand, and how long each answer took. Raw asyncio protocol.

Nothing is parsed but where an answer ends. Requests are sent one after another on each connection, so as many are under
way as there are connections.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import uvloop

__all__ = ["Response", "Target", "load"]

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_WITHIN_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where the requests go; ``context``: TLS, or plain HTTP without one."""

    port: int
    context: ssl.SSLContext | None = None


@dataclass(slots=True)
class Response:
    """What came of one request: seconds from its sending to the first and to the last byte of its body."""

    status: int = 0
    first_s: float = 0.0
    whole_s: float = 0.0
    parts: list[bytes] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The body as it came, chunks included."""
        return b"".join(self.parts)


class _Client(asyncio.Protocol):
    """One connection, which sends ``requests`` one after another."""

    def __init__(self, requests: Sequence[bytes], ended: asyncio.Future[None]) -> None:
        self._requests: Iterator[bytes] = iter(requests)
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._left: int | None = None
        self._tail = b""
        self._sent = 0.0
        self._current = Response()
        self.responses: list[Response] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop has its own
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's own signature
        self._end()

    def send(self) -> None:
        """Send the next request; the end, if there is none."""
        request = next(self._requests, None)
        if request is None:
            self._end()
            return
        assert self._transport is not None
        self._head, self._left, self._tail, self._current = b"", None, b"", Response()
        self.responses.append(self._current)
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        now, current = time.perf_counter(), self._current
        if not current.status:
            self._head += data
            head, ends, data = self._head.partition(b"\r\n\r\n")
            if not ends:
                return
            length = _LENGTH.search(head)
            self._left = None if length is None else int(length[1])
            current.status = int(head[9:12])
        if data:
            current.first_s = current.first_s or now - self._sent
            current.parts.append(data)
        if self._left is None:
            self._tail = (self._tail + data)[-len(_LAST_CHUNK) :]
            ended = self._tail == _LAST_CHUNK
        else:
            self._left -= len(data)
            ended = self._left <= 0
        if ended:
            current.whole_s = now - self._sent
            self.send()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        if self._transport is not None:
            self._transport.abort()


def load(
    target: Target, requests: Sequence[Sequence[bytes]], spent: Callable[[], float]
) -> tuple[list[Response], float, float]:
    """Send ``requests``, of which each part has a connection of its own that is open, all at once.

    The answers, the seconds, and by how much ``spent`` grew meanwhile: connections are kept, so that what they cost to
    open is not a request's.

    What has not come after two minutes has not come: its ``whole_s`` is 0.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_load(target, requests, spent))


async def _load(
    target: Target, requests: Sequence[Sequence[bytes]], spent: Callable[[], float]
) -> tuple[list[Response], float, float]:
    loop = asyncio.get_running_loop()
    clients, ends = [], []
    for part in requests:
        ended = loop.create_future()
        _, client = await loop.create_connection(
            lambda part=part, ended=ended: _Client(part, ended),
            "127.0.0.1",
            target.port,
            ssl=target.context,
            server_hostname="" if target.context else None,
        )
        clients.append(client)
        ends.append(ended)
    before, begun = spent(), time.perf_counter()
    for client in clients:
        client.send()
    await asyncio.wait(ends, timeout=_WITHIN_S)
    took = time.perf_counter() - begun
    return [response for client in clients for response in client.responses], took, spent() - before
