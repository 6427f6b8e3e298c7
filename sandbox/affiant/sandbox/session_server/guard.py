"""What stands before every route: who calls, how many at once, and how large and slow a body may be.

It is plain ASGI, because a framework reads a body before it asks who sent it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from affiant.errors import AffiantError, MalformedError, NotFreshError, UnreachableError
from affiant.sandbox.session_server.callers import Callers
from affiant.sandbox.session_server.error_responses import error_response, internal_error

__all__ = ["Guard", "Places", "owner_of"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OF_CALLERS: Final = "/v1/"
_OWNER: Final = "affiant.owner"
_DOCUMENT: Final = 8 << 20
"""Bytes of a JSON body: a command's input may be a MiB of characters that are written as six."""
_OF_FILES: Final = ("/file", "/tree")
"""Ends of paths whose bodies are files, written to a disk as they come, with a bound of their own."""
_OF_TREES: Final = "/tree"
_PIECE_S: Final = 30.0


def owner_of(scope: Scope) -> str:
    """The caller whom the guard let in."""
    return str(scope[_OWNER])


class Places:
    """A number of places, which requests of callers hold while they are under way.

    Args:
        most: places. each: of them, how many one caller holds at most.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._held: Counter[str] = Counter()

    @contextmanager
    def held(self, owner: str) -> Iterator[None]:
        """Hold a place for the length of the block.

        Raises:
            ``session.crowded``: none is free for this caller.
        """
        if self._held.total() >= self._most or self._held[owner] >= self._each:
            raise UnreachableError(
                "too many requests are under way",
                expected=f"at most {self._each} of one caller, {self._most} of all",
                hint="Try again when one has ended",
                code="session.crowded",
            )
        self._held[owner] += 1
        try:
            yield
        finally:
            self._held -= Counter([owner])


class Guard:
    """Lets callers in.

    Args:
        requests: places of all requests. trees: of those that move folders as archives, which take a disk's space
            until they are sent.
    """

    def __init__(self, app: App, callers: Callers, *, requests: Places, trees: Places) -> None:
        self._app = app
        self._callers = callers
        self._requests = requests
        self._trees = trees

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        if not str(scope["path"]).startswith(_OF_CALLERS):
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            owner = scope[_OWNER] = await self._callers.owner(_authorization(scope))
            with ExitStack() as places:  # a stranger takes none
                places.enter_context(self._requests.held(owner))
                if str(scope["path"]).endswith(_OF_TREES):
                    places.enter_context(self._trees.held(owner))
                await self._app(scope, _bounded(scope, receive), answer.send)
        except AffiantError as error:
            await error_response(error)(scope, receive, send)
        except Exception as error:
            if answer.begun:  # the application has said so; a client sees that an answer ends early
                raise
            await error_response(internal_error(error))(scope, receive, send)


class _Answer:
    """Notes whether an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def send(self, message: Message) -> None:
        """Send a part of it."""
        self.begun = True
        await self._send(message)


def _authorization(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """``receive``, which ends a body that is too large or too slow."""
    most = None if str(scope["path"]).endswith(_OF_FILES) else _DOCUMENT
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
