"""Slots at an upstream, on the event loop: a request that waits is woken when it may go upstream, or never will.

Under the limit nothing is awaited. A request that ends while it waits leaves the queue in that step, whatever ended
it: the client went away, its session is being closed, the wait is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from affiant.gateway.dialects.response_bound import ResponseBound
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.upstream.fair_queue import FairQueue
from affiant.gateway.upstream.priority_band import MOST_COST, Ticket
from affiant.gateway.wire.errors import QueueError

__all__ = ["UpstreamSlot", "UpstreamSlots", "estimated_cost"]

_BYTES: Final = 4
"""Of a request, for each token: what tokenizers make of English text and of code."""
_UNSAID: Final = 4096
"""Tokens of an answer whose length the request does not bound; to leave it out must not be the cheap way to wait."""


class UpstreamSlot:
    """One request's slot: :meth:`come` before it goes upstream, :meth:`end` whatever becomes of it."""

    def __init__(self, slots: UpstreamSlots, session: Session, ticket: Ticket) -> None:
        self._slots = slots
        self._session = session
        self._ticket = ticket

    @property
    def cost(self) -> int:
        """Tokens that it counts as until it is over."""
        return self._ticket.cost

    @property
    def has_come(self) -> bool:
        """Whether it may go upstream."""
        return self._ticket.served

    async def come(self) -> None:
        """Wait until it may; nothing is awaited where it may already.

        Raises:
            ``queue.deadline``: it has waited for as long as any request may.
            AffiantError: the session wants it no more (:meth:`~.sessions.Session.end_waits`).
        """
        if not self.has_come:
            await self._slots.wait(self._session, self._ticket)

    def end(self, *, cost: int = 0) -> None:
        """It is over, or does not wait any more; ``cost``: tokens that it came to, if it went upstream."""
        self._slots.end(self._ticket, cost=cost)


class UpstreamSlots:
    """The slots at one upstream.

    Args:
        seconds: a clock that never goes back.
    """

    def __init__(self, queue: FairQueue, *, seconds: Callable[[], float]) -> None:
        self._queue = queue
        self._seconds = seconds
        self._asleep: dict[Ticket, asyncio.Future[None]] = {}

    def enter(self, session: Session, cost: int) -> UpstreamSlot:
        """A slot for a request of ``session``, under the profile that it has now.

        Raises:
            ``queue.full``: too many wait.
        """
        share = session.admitted.policy.share
        ticket = self._queue.enter(session.id, share, cost, now=self._seconds())
        self._wake()
        return UpstreamSlot(self, session, ticket)

    def report(self) -> dict[str, int]:
        """How many are under way and how many wait, for the operator."""
        queue = self._queue
        return {"limit": queue.limit, "under_way": queue.under_way, "waiting": queue.waiting}

    async def wait(self, session: Session, ticket: Ticket) -> None:
        """As :meth:`UpstreamSlot.come`."""
        band = self._queue.band(ticket.share.priority)
        woken = self._asleep[ticket] = session.waits()
        try:
            async with asyncio.timeout(band.bounds.wait_s):
                await woken
        except TimeoutError:
            raise QueueError(
                "the request has waited for this upstream as long as requests of its priority do",
                expected=f"at most {band.bounds.wait_s:g} s",
                retry_after_s=band.retry_after(now=self._seconds()),
                code="queue.deadline",
            ) from None
        finally:
            del self._asleep[ticket]
            session.waits_no_more(woken)

    def end(self, ticket: Ticket, *, cost: int) -> None:
        """As :meth:`UpstreamSlot.end`."""
        self._queue.end(ticket, cost=cost)
        self._wake()

    def _wake(self) -> None:
        while (ticket := self._queue.next()) is not None:
            woken = self._asleep.get(ticket)
            if woken is not None and not woken.done():
                woken.set_result(None)


def estimated_cost(answer: ResponseBound, *, size: int) -> int:
    """What a request is likely to cost an upstream, in tokens: 1 to :data:`~.priority_band.MOST_COST`.

    An estimate for sharing the upstream out, and no bound. A limit of a profile takes one token for each byte,
    because it may never let too much through (``session_limits``). Here too much would be as wrong as too little,
    and is made good when the request is over.

    >>> from affiant.gateway.dialects.response_bound import ResponseBound
    >>> estimated_cost(ResponseBound(tokens=100, answers=2), size=4000)
    1200

    Args:
        answer: how long its answers may be. size: bytes that go upstream.
    """
    asked = _UNSAID if answer.tokens is None else answer.tokens
    return min(max(1, -(-size // _BYTES) + asked * answer.answers), MOST_COST)
