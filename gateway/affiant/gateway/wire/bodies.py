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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from affiant.errors import MalformedError, UnreachableError
from affiant.gateway.wire.http_request import ClientGone, Receive, Scope, header

__all__ = ["MAX_ADMISSION", "Bodies", "Body", "Crowd", "Memory", "Share", "drop_rest", "least_memory"]

MAX_ADMISSION: Final = 1 << 20
"""Bytes of the evidence that a session asks to be admitted by."""

_HASHED_BEYOND: Final = 8
"""A body that is too large is still hashed up to this many times the limit, so that its record can name it."""
_STRANGERS: Final = 8
"""Bodies of unknown callers may hold this part of the memory: one in eight."""
_HELD: Final = 2
"""Responses that wait for approval may hold this part of it: one half."""
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

    def share(self, whose: str = "") -> Share:
        """What one request takes of it; ``whose``: the address that it comes from, where that counts."""
        return Share(self, whose)

    def lend(self, share: Share, size: int) -> None:
        """Take ``size`` bytes for ``share``; as :meth:`take`."""
        self.take(size)
        share.held += size

    def end(self, share: Share) -> None:
        """Take back what ``share`` holds."""
        self.give_back(share.held)
        share.held = 0

    @contextlib.contextmanager
    def interruptible(self, share: Share, interrupt: Callable[[], None]) -> Iterator[None]:  # noqa: ARG002
        """While a body arrives for ``share``; ``interrupt`` is for a memory that takes from one for another."""
        yield

    def take(self, size: int) -> None:
        """Take ``size`` bytes.

        Raises:
            ``gateway.memory``: so many are not left; nothing was taken.
        """
        if size > self._left:
            raise _no_memory()
        if self._within is not None:
            self._within.take(size)
        self._left -= size

    def give_back(self, size: int) -> None:
        """Give ``size`` bytes back."""
        self._left += size
        if self._within is not None:
            self._within.give_back(size)


class Crowd(Memory):
    """The memory of callers that are not known: no address holds more than half of it, and who is slow gives way.

    Where there is too little, the bodies that have not come to their end are ended, the oldest first, of the address
    that holds most among those that have such a body: so a body that comes at once is read, however many others have
    begun and stalled.
    """

    __slots__ = ("_arriving", "_held")

    def __init__(self, size: int, *, within: Memory) -> None:
        super().__init__(size, within=within)
        self._arriving: dict[Share, Callable[[], None]] = {}
        self._held: Counter[str] = Counter()

    def lend(self, share: Share, size: int) -> None:
        """As :meth:`Memory.lend`, after others were ended."""
        while self._held[share.whose] + size > max(self.size // 2, MAX_ADMISSION):
            self._interrupt(share.whose, but=share)
        while size > self.left:
            slow = {each.whose for each in self._arriving if each.held and each is not share}
            self._interrupt(max(slow, key=lambda whose: self._held[whose], default=""), but=share)
        super().lend(share, size)
        self._held[share.whose] += size

    def end(self, share: Share) -> None:
        """As :meth:`Memory.end`."""
        self._held[share.whose] -= share.held
        if not self._held[share.whose]:
            del self._held[share.whose]
        super().end(share)

    @contextlib.contextmanager
    def interruptible(self, share: Share, interrupt: Callable[[], None]) -> Iterator[None]:
        """As :meth:`Memory.interruptible`."""
        self._arriving[share] = interrupt
        try:
            yield
        finally:
            self._arriving.pop(share, None)
        if share.interrupted:
            raise _no_memory()

    def _interrupt(self, whose: str, *, but: Share) -> None:
        slow = (each for each in self._arriving if each.whose == whose and each.held and each is not but)
        share = next(slow, None)
        if share is None:
            raise _no_memory()
        interrupt = self._arriving.pop(share)
        share.interrupted = True
        share.give_back()
        interrupt()


class Share:
    """What one request holds of a memory; given back when the block ends."""

    __slots__ = ("_memory", "held", "interrupted", "whose")

    def __init__(self, memory: Memory, whose: str) -> None:
        self._memory = memory
        self.whose = whose
        self.held = 0
        self.interrupted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()

    def take(self, size: int) -> None:
        """As :meth:`Memory.take`."""
        self._memory.lend(self, size)

    def give_back(self) -> None:
        """Give all of it back."""
        self._memory.end(self)

    def interruptible(self, interrupt: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """While its body arrives: ``interrupt`` ends the reading, if another's needs the memory.

        Raises:
            ``gateway.memory``: it was interrupted.
        """
        return self._memory.interruptible(self, interrupt)


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
        self.strangers = Crowd(memory // _STRANGERS, within=self.memory)
        """For callers that are not known yet: they cannot take what sessions need."""
        self.held = Memory(memory // _HELD, within=self.memory)
        """For responses that wait for approval: they cannot take what requests need."""
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
            async with asyncio.timeout(self._seconds) as deadline:
                with share.interruptible(partial(_end_at_once, deadline)):
                    return await _read(receive, share, limit)
        except TimeoutError as error:
            if share.interrupted:
                raise _no_memory() from error
            raise UnreachableError(
                "the body did not come in time", expected=f"{self._seconds:g} s", code="request.timeout"
            ) from error


def _end_at_once(deadline: asyncio.Timeout) -> None:
    if not deadline.expired():  # else the reading is being ended already
        deadline.reschedule(0)


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


def _no_memory() -> UnreachableError:
    return UnreachableError(
        "too many large requests at once", hint="Send it again, or fewer at a time", code="gateway.memory"
    )


def _too_large(limit: int, *, found: str | None) -> MalformedError:
    return MalformedError(
        "the body is too large",
        expected=f"at most {limit} bytes, as `body_max` says",
        found=found,
        hint="The gateway's operator sets it with --body-max",
        code="request.too_large",
    )
