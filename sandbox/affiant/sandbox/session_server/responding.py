"""How routes answer: work that ends with its client, and commands as server-sent events."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from contextlib import aclosing
from typing import IO, Any, Final, TypeVar

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel

from affiant.errors import MalformedError, UnreachableError
from affiant.sandbox.session_server.error_responses import error_document, internal_error
from affiant.sandbox.session_server.guard import Receive, Scope, Send

__all__ = ["ANSWER_S", "MOVE_S", "Events", "OpenFile", "event", "in_time", "with_client"]

_T = TypeVar("_T")
ANSWER_S: Final = 60.0
"""For an answer of a session that moves nothing."""
MOVE_S: Final = 600.0
"""For one that moves files, waits for others of its session that do, or starts or closes a session."""
_ALIVE_S: Final = 15.0
_PIECE: Final = 1 << 18
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def in_time(work: Awaitable[_T], within_s: float = ANSWER_S) -> _T:
    """The result of ``work``, for which the session host or its supervisor has ``within_s``.

    Raises:
        ``session.silent``: it took longer, and is cancelled.
    """
    limit = asyncio.timeout(within_s)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise UnreachableError(
            "the session does not answer in time", expected=f"within {within_s:g} s", code="session.silent"
        ) from error


async def with_client(
    request: Request, work: Coroutine[Any, Any, _T], *, within_s: float | None = ANSWER_S
) -> _T:
    """The result of ``work``, which is cancelled if the client leaves. The request's body has been read.

    Args:
        within_s: as :func:`in_time` has it; None: as long as the client stays.

    Raises:
        ``session.request``: the client has left, so the error is not sent. ``session.silent``: as :func:`in_time`.
    """
    working = asyncio.ensure_future(work if within_s is None else in_time(work, within_s))
    gone = asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise MalformedError("the client has left", code="session.request")
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(name: str, document: BaseModel) -> bytes:
    """One server-sent event, whose data is a JSON document."""
    return f"event: {name}\ndata: {document.model_dump_json()}\n\n".encode()


class _UntilGone(Response, ABC):
    """A response that ends at once when its client leaves."""

    background = None
    status_code = 200

    def __init__(self) -> None:
        """Starlette's would render a whole body."""

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not sending.done():
                sending.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
        if not sending.cancelled():
            sending.result()

    @abstractmethod
    async def _send(self, send: Send) -> None: ...


class OpenFile(_UntilGone):
    """All that is in an open file of this machine, which is closed then."""

    def __init__(self, content: IO[bytes], media_type: str) -> None:
        super().__init__()
        self._content = content
        self.media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._content:
            await super().__call__(scope, receive, send)

    async def _send(self, send: Send) -> None:
        length = self._content.seek(0, os.SEEK_END)
        self._content.seek(0)
        headers = {
            "content-type": self.media_type or "",
            "content-length": str(length),
            "cache-control": "no-store",
        }
        head = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        while piece := await asyncio.to_thread(self._content.read, _PIECE):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Events(_UntilGone):
    """Server-sent events for as long as their source has any; a client that leaves ends the source."""

    media_type = "text/event-stream"

    def __init__(self, source: AsyncGenerator[bytes, None]) -> None:
        super().__init__()
        self._source = source

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with aclosing(self._source) as source, aclosing(_kept_alive(source)) as pieces:
            try:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except Exception as error:  # noqa: BLE001 - a mistake of ours: the stream says that it is not whole
                last = event("error", error_document(internal_error(error)))
                await send({"type": "http.response.body", "body": last, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _kept_alive(source: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """What ``source`` gives, and a comment where it gives nothing for long: proxies close what is silent."""
    following: asyncio.Future[bytes] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({following}, timeout=_ALIVE_S)
            if not done:
                yield b": alive\n\n"
                continue
            try:
                piece = following.result()
            except StopAsyncIteration:
                return
            following = None
            yield piece
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
