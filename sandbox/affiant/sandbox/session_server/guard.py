"""What stands before every route: who calls, how many at once, and how large and slow a body may be.

It is plain ASGI, because a framework reads a body before it asks who sent it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from affiant.errors import AffiantError, MalformedError, NotFreshError, UnreachableError
from affiant.sandbox.session_server.callers import Callers
from affiant.sandbox.session_server.error_responses import error_response

__all__ = ["ANSWERED_BY_LENGTH", "Guard", "owner_of"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OF_CALLERS: Final = "/v1/"
_OWNER: Final = "affiant.owner"
_DOCUMENT: Final = 8 << 20
"""Bytes of a JSON body: a command's input may be a MiB of characters that are written as six."""
ANSWERED_BY_LENGTH: Final = ("/file", "/tree")
"""Paths whose bodies are files, written to a disk as they come, with a bound of their own."""
_PIECE_S: Final = 30.0


def owner_of(scope: Scope) -> str:
    """The caller whom the guard let in."""
    return str(scope[_OWNER])


class Guard:
    """Lets callers in.

    Args:
        most: requests of callers under way at once.
    """

    def __init__(self, app: App, callers: Callers, *, most: int) -> None:
        self._app = app
        self._callers = callers
        self._most = most
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        if not str(scope["path"]).startswith(_OF_CALLERS):
            await self._app(scope, receive, send)
            return
        try:
            scope[_OWNER] = await self._callers.owner(_authorization(scope))  # a stranger takes no place
            if self._under_way >= self._most:
                raise UnreachableError(
                    "too many requests are under way",
                    expected=f"at most {self._most}",
                    code="session.crowded",
                )
            self._under_way += 1
            try:
                await self._app(scope, _bounded(scope, receive), send)
            finally:
                self._under_way -= 1
        except AffiantError as error:
            await error_response(error)(scope, receive, send)


def _authorization(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """``receive``, which ends a body that is too large or too slow."""
    most = None if str(scope["path"]).endswith(ANSWERED_BY_LENGTH) else _DOCUMENT
    whole, size = False, 0

    async def bounded() -> Message:
        nonlocal whole, size
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(_PIECE_S):
                message = await receive()
        except TimeoutError as error:
            raise NotFreshError(
                "the body came too slowly",
                expected=f"a piece within {_PIECE_S:g} s",
                code="session.request_slow",
            ) from error
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if most is not None and size > most:
            raise MalformedError(
                "the body is too large", expected=f"at most {most} bytes", code="session.too_large"
            )
        return message

    return bounded
