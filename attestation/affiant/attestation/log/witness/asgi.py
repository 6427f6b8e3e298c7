"""Serves a witness's two resources as an ASGI application: POST add-checkpoint, GET <origin hash>/checkpoint."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Executor
from typing import Any, Final

from affiant.attestation.log.witness.checkpoint_request import MAX_REQUEST_BYTES
from affiant.attestation.log.witness.errors import WitnessStateUnavailable
from affiant.attestation.log.witness.protocol import WitnessResponse
from affiant.attestation.log.witness.witness import Witness

__all__ = ["WitnessApp"]

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_MONITOR: Final = re.compile(r"/([0-9a-f]{64})/checkpoint\Z")
_NOT_FOUND: Final = WitnessResponse(404, b"not here\n", code="http.not_found")
_NOT_ALLOWED: Final = WitnessResponse(405, b"another method\n", code="http.method")
_TOO_LARGE: Final = WitnessResponse(413, b"too large\n", code="http.too_large")
_TOO_SLOW: Final = WitnessResponse(408, b"too slow\n", code="http.timeout")


class WitnessApp:
    """One application.

    Args:
        clock: seconds since 1970.
        worker: one thread; the database and the signatures are its work, one request after the other.
        body_s: seconds until a whole body must have come.
    """

    def __init__(
        self, witness: Witness, *, clock: Callable[[], int], worker: Executor, body_s: float = 10.0
    ) -> None:
        self._witness = witness
        self._clock = clock
        self._worker = worker
        self._body_s = body_s

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """As ASGI 3 says."""
        if scope["type"] == "http":
            await _send(send, await self._answer(scope["method"], scope["path"], receive))

    async def _answer(self, method: str, path: str, receive: _Receive) -> WitnessResponse:
        if path == "/add-checkpoint":
            return await self._add(receive) if method == "POST" else _NOT_ALLOWED
        if (match := _MONITOR.match(path)) is not None:
            return await self._latest(match.group(1)) if method == "GET" else _NOT_ALLOWED
        return _NOT_FOUND

    async def _add(self, receive: _Receive) -> WitnessResponse:
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return _TOO_SLOW  # the client is gone
                    body += message.get("body", b"")
                    if len(body) > MAX_REQUEST_BYTES:
                        return _TOO_LARGE
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            return _TOO_SLOW
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._worker, lambda: self._witness.add_checkpoint(bytes(body), now=self._clock())
        )

    async def _latest(self, hashed: str) -> WitnessResponse:
        loop = asyncio.get_running_loop()
        try:
            note = await loop.run_in_executor(self._worker, self._witness.latest, hashed)
        except WitnessStateUnavailable as error:
            return WitnessResponse(503, f"not now [{error.code}]\n".encode(), code=error.code)
        return _NOT_FOUND if note is None else WitnessResponse(200, note)


async def _send(send: _Send, answer: WitnessResponse) -> None:
    headers = [
        (b"content-type", answer.media_type.encode("ascii")),
        (b"content-length", str(len(answer.body)).encode("ascii")),
    ]
    if answer.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
