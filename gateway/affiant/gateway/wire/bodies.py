"""Request bodies: each bounded in size and time, and all of them together in memory.

A body is counted as its bytes arrive, whatever its length claims to be. What one request holds is a
:class:`Share`; its block gives all of it back, however the request ends. When nothing is left the request is
refused and no request waits: half-sent bodies that wait for each other's memory would wait forever.

>>> memory = Memory(10)
>>> with memory.share() as share:
...     share.take(8)
...     memory.left
2
>>> memory.left
10
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from affiant.errors import MalformedError, UnreachableError
from affiant.gateway.wire.http_request import ClientGone, Receive, Scope, header

__all__ = ["MAX_ADMISSION", "Bodies", "Body", "Memory", "Share", "drop_rest", "least_memory"]

MAX_ADMISSION: Final = 1 << 20
"""Bytes of the evidence that a session asks to be admitted by."""

_HASHED_BEYOND: Final = 8
"""A body that is too large is still hashed up to this many times the limit, so that its record can name it."""
_STRANGERS: Final = 8
"""Bodies of unknown callers may hold this part of the memory: one in eight."""
_DROPPED: Final = 128 << 20
_DROPPED_S: Final = 10.0
_QUIET_S: Final = 1.0


class Memory:
    """Bytes that all who share it may hold at a time.

    Args:
        size: that many.
        within: the memory that this is a part of: what is taken here is taken there too.
    """

    __slots__ = ("_left", "_within", "size")

    def __init__(self, size: int, *, within: Memory | None = None) -> None:
        self.size = size
        self._left = size
        self._within = within

    @property
    def left(self) -> int:
        """Bytes that can be taken now."""
        return self._left if self._within is None else min(self._left, self._within.left)

    def share(self) -> Share:
        """What one request takes of it."""
        return Share(self)

    def take(self, size: int) -> None:
        """Take ``size`` bytes.

        Raises:
            ``gateway.memory``: so many are not left; nothing was taken.
        """
        if size > self._left:
            raise UnreachableError(
                "too many large requests at once",
                hint="Send it again, or fewer at a time",
                code="gateway.memory",
            )
        if self._within is not None:
            self._within.take(size)
        self._left -= size

    def give_back(self, size: int) -> None:
        """Give ``size`` bytes back."""
        self._left += size
        if self._within is not None:
            self._within.give_back(size)


class Share:
    """What one request holds of a memory; given back when the block ends."""

    __slots__ = ("_memory", "held")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()

    def take(self, size: int) -> None:
        """As :meth:`Memory.take`."""
        self._memory.take(size)
        self.held += size

    def give_back(self) -> None:
        """Give all of it back."""
        self._memory.give_back(self.held)
        self.held = 0


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body. ``data`` is None where it was too large to keep."""

    data: bytes | None
    sha256: bytes
    size: int

    def require(self, limit: int) -> bytes:
        """The bytes.

        Raises:
            ``request.too_large``: they were not kept.
        """
        if self.data is None:
            raise _too_large(limit, found=f"{self.size} bytes")
        return self.data


def least_memory(body_max: int) -> int:
    """The least that all bodies together must be allowed to hold: one largest body, or a stranger's admission."""
    return max(body_max, _STRANGERS * MAX_ADMISSION)


class Bodies:
    """How bodies are read.

    Args:
        memory: bytes that all of them together may hold.
        seconds: until a body must be here, from its head on.
    """

    def __init__(self, *, memory: int, seconds: float) -> None:
        self.memory = Memory(memory)
        self.strangers = Memory(memory // _STRANGERS, within=self.memory)
        """For callers that are not known yet: they cannot take what sessions need."""
        self._seconds = seconds

    async def read(self, scope: Scope, receive: Receive, share: Share, *, limit: int) -> Body:
        """Read the whole body; beyond ``limit`` it is hashed and dropped, far beyond it is refused.

        Raises:
            ``request.too_large``: more than eight times ``limit``. ``request.timeout``: not here in time.
            ``gateway.memory``: there is no room for it. ClientGone: it was not sent whole.
        """
        length = header(scope, "Content-Length")
        if length is not None and int(length) > _HASHED_BEYOND * limit:
            raise _too_large(limit, found=f"{length} bytes")
        try:
            async with asyncio.timeout(self._seconds):
                return await _read(receive, share, limit)
        except TimeoutError as error:
            raise UnreachableError(
                "the body did not come in time", expected=f"{self._seconds:g} s", code="request.timeout"
            ) from error


async def _read(receive: Receive, share: Share, limit: int) -> Body:
    parts: list[bytes] = []
    part = b""
    digest, size, more = hashlib.sha256(), 0, True
    try:
        while more:
            part, more = await _next(receive)
            digest.update(part)
            size += len(part)
            if size > _HASHED_BEYOND * limit:
                raise _too_large(limit, found=None)
            if size <= limit:
                share.take(len(part))
                parts.append(part)
            else:
                parts.clear()
                share.give_back()
    except BaseException:  # raised again: its traceback keeps this frame, so nothing may stay in it
        part = b""
        parts.clear()
        share.give_back()
        raise
    return Body(b"".join(parts) if size <= limit else None, digest.digest(), size)


async def _next(receive: Receive) -> tuple[bytes, bool]:
    """The next bytes of a body, and whether more follow."""
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


async def drop_rest(receive: Receive) -> None:
    """Read what still comes of a body whose request has been answered, and keep nothing of it.

    To close over it would take the answer away from a client that sends everything before it reads. Bounded in
    bytes and seconds, and ended by silence: a client that goes on beyond is disconnected.
    """
    dropped, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DROPPED_S):
            while more and dropped <= _DROPPED:
                async with asyncio.timeout(_QUIET_S):
                    message = await receive()
                dropped += len(message.get("body", b""))
                more = message.get("more_body", False)


def _too_large(limit: int, *, found: str | None) -> MalformedError:
    return MalformedError(
        "the body is too large", expected=f"at most {limit} bytes", found=found, code="request.too_large"
    )
