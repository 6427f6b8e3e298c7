"""Turns at an upstream, on the event loop: whoever waits is woken when it is its turn, or told that it will not be.

Under the limit nothing is awaited. A turn that is ended while it waits leaves the queue in that step, whatever ended
it: the client went away, its session is being closed, the wait is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from affiant.gateway.sessions.sessions import Session
from affiant.gateway.upstream.fair_queue import FairQueue
from affiant.gateway.upstream.priority_band import Ticket
from affiant.gateway.wire.errors import QueueDeadline

__all__ = ["Turn", "Turns"]


class Turn:
    """One request's turn: :meth:`come` before it goes upstream, :meth:`end` whatever becomes of it."""

    def __init__(self, turns: Turns, session: Session, ticket: Ticket) -> None:
        self._turns = turns
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
            QueueDeadline: it has waited for as long as anybody does.
            AffiantError: the session wants it no more (:meth:`~.sessions.Session.end_waits`).
        """
        if not self.has_come:
            await self._turns.wait(self._session, self._ticket)

    def end(self, *, cost: int = 0) -> None:
        """It is over, or does not wait any more; ``cost``: tokens that it came to, if it went upstream."""
        self._turns.end(self._ticket, cost=cost)


class Turns:
    """The turns at one upstream.

    Args:
        seconds: a clock that never goes back.
    """

    def __init__(self, queue: FairQueue, *, seconds: Callable[[], float]) -> None:
        self._queue = queue
        self._seconds = seconds
        self._asleep: dict[Ticket, asyncio.Future[None]] = {}

    def enter(self, session: Session, cost: int) -> Turn:
        """A turn for a request of ``session``, under the profile that it has now.

        Raises:
            QueueFull: too many wait.
        """
        share = session.admitted.policy.share
        ticket = self._queue.enter(session.id, share, cost, now=self._seconds())
        self._wake()
        return Turn(self, session, ticket)

    def report(self) -> dict[str, int]:
        """How many are under way and how many wait, for the operator."""
        queue = self._queue
        return {"limit": queue.limit, "under_way": queue.under_way, "waiting": queue.waiting}

    async def wait(self, session: Session, ticket: Ticket) -> None:
        """As :meth:`Turn.come`."""
        band = self._queue.band(ticket.share.priority)
        woken = self._asleep[ticket] = session.waits()
        try:
            async with asyncio.timeout(band.bounds.wait_s):
                await woken
        except TimeoutError:
            raise QueueDeadline(
                "the request has waited for this upstream as long as requests of its priority do",
                expected=f"at most {band.bounds.wait_s:g} s",
                retry_after_s=band.retry_after(now=self._seconds()),
            ) from None
        finally:
            del self._asleep[ticket]
            session.waits_no_more(woken)

    def end(self, ticket: Ticket, *, cost: int) -> None:
        """As :meth:`Turn.end`."""
        self._queue.end(ticket, cost=cost)
        self._wake()

    def _wake(self) -> None:
        while (ticket := self._queue.next()) is not None:
            woken = self._asleep.get(ticket)
            if woken is not None and not woken.done():
                woken.set_result(None)
