"""A request's body on its way from the agent to the broker: searched on its way, or held until it is judged whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from affiant.errors import AffiantError
from affiant.sandbox.egress.http.agent_http import AgentHTTP, Memory
from affiant.sandbox.egress.limits import Passing, counting
from affiant.secrets.injection.body_surface import MAX_HELD_BODY
from affiant.secrets.injection.detection import PlaceholderDetector
from affiant.secrets.names.errors import PlaceholderMisplaced, SecretBodyTooLarge

__all__ = ["RequestBody"]

_PREFETCH: Final = 256 * 1024
"""Bytes of a body that are searched for placeholders before anything is sent: all of most bodies."""


class RequestBody:
    """The request's body on its way to the broker: searched for placeholders, held back where one may begin.

    ``passing``, once it is set, has room for each further piece before it goes on: where no head announced its length.
    ``rules`` are those that let it through.
    """

    def __init__(self, http: AgentHTTP, detector: PlaceholderDetector) -> None:
        self._pieces = http.body()
        self._detector = detector
        self._ready: list[bytes] = []
        self._ended = False
        self._taken = 0
        self._memory: Memory | None = None
        self.passing: Passing | None = None
        self.rules: tuple[str, ...] = ()
        self.refusal: AffiantError | None = None
        """Why the body was broken off, if it was."""

    async def hold(self, memory: Memory) -> bytes | None:
        """Read all of it, unsearched, to be judged; None: it is longer than what is held, and was searched.

        Args:
            memory: what all held bodies may take; :meth:`release` gives back.

        Raises:
            SecretBodyTooLarge: longer, and there is a placeholder in what was read. RequestTooLarge: no memory is left.
        """
        pieces: list[bytes] = []
        async for piece in self._pieces:
            memory.take(len(piece))
            self._taken, self._memory = self._taken + len(piece), memory
            pieces.append(piece)
            if self._taken > MAX_HELD_BODY:
                self._ready = [self._searched_too_long(each) for each in pieces]
                return None
        self._ready, self._ended = pieces, True
        return b"".join(pieces)

    def _searched_too_long(self, piece: bytes) -> bytes:
        try:
            return self._detector.feed(piece)
        except PlaceholderMisplaced as error:
            raise SecretBodyTooLarge(
                "a body with a secret in it is read whole, and this one is too long",
                where=error.where,
                expected=f"at most {MAX_HELD_BODY} bytes",
            ) from error

    def release(self) -> None:
        """Give back the memory that it was held in."""
        if self._memory is not None:
            self._memory.give_back(self._taken)
            self._taken, self._memory = 0, None

    async def prefetch(self) -> int:
        """Read and search the beginning; most bodies are then known as a whole. Returns its size in bytes.

        Raises:
            PlaceholderMisplaced, ``secret.placeholder_hidden``: nothing has been sent yet.
        """
        size = sum(map(len, self._ready))
        while not self._ended and size <= _PREFETCH:
            piece = await self._next()
            size += len(piece)
            self._ready.append(piece)
        return size

    async def _next(self) -> bytes:
        try:
            return self._detector.feed(await anext(self._pieces))
        except StopAsyncIteration:
            self._ended = True
            return self._detector.flush()

    @property
    def whole(self) -> bytes | None:
        """The body as it will be sent, if :meth:`prefetch` has come to its end."""
        return b"".join(self._ready) if self._ended else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._ready:
            if piece:
                yield piece
        self._ready.clear()
        self.release()
        while not self._ended:
            try:
                piece = await self._next()
                if self.passing is not None and piece:
                    with counting(self.rules):
                        self.passing.take(len(piece))
            except AffiantError as refusal:
                self.refusal = refusal
                raise
            if piece:
                yield piece
