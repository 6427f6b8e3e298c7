"""Who asks an upstream next: those with the highest priority first, and the others never not at all.

At most so many requests are under way at once. While there is room, no request waits; when a request is over, the
next one goes at once (work-conserving). A request under way is never interrupted.

*Priorities are strict*, but for a twentieth that each of the lower ones is promised: while it waits it is owed a
nineteenth of the tokens that others are served, and it is served out of turn as soon as it is owed some. So of what is
served while requests of ``batch`` wait, at least a twentieth is theirs, less a request of each priority. Nothing is
owed to a priority with which no request waits, and what was served in turn counts against no session.

Time is an argument, and costs are; sans I/O. Whose turn it is within a priority: ``priority_band``.
"""

from __future__ import annotations

from typing import Final

from affiant.gateway.upstream.priority_band import Band, QueueBounds, Ticket
from affiant.policy.model.share import PRIORITIES, Priority, Share

__all__ = ["PROMISED", "FairQueue"]

PROMISED: Final = 20
"""A lower priority that waits gets at least one of so many tokens."""


class FairQueue:
    """The requests of all sessions to one upstream.

    Args:
        limit: requests under way at once.
    """

    def __init__(self, limit: int, bounds: QueueBounds) -> None:
        assert limit >= 1, "no request would ever be served"
        self.limit = limit
        self.under_way = 0
        self._bands = {priority: Band(bounds.of(priority)) for priority in PRIORITIES}
        self._owed = dict.fromkeys(PRIORITIES[1:], 0)

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._bands.values()))

    def band(self, priority: Priority) -> Band:
        """Those who wait with one priority."""
        return self._bands[priority]

    def enter(self, session: str, share: Share, cost: int, *, now: float) -> Ticket:
        """One more request, which waits; :meth:`next` says whether it does not have to.

        Args:
            session: whose it is, as its proof established; nothing that the request says of itself.
            cost: tokens, as estimated. now: seconds of a clock that never goes back.

        Raises:
            ``queue.full``: too many wait.
        """
        return self._bands[share.priority].enter(session, share, cost, now=now)

    def next(self) -> Ticket | None:
        """The request that goes now; None: no request waits, or there is no room."""
        if self.under_way >= self.limit:
            return None
        waiting = [priority for priority, band in self._bands.items() if band]
        if not waiting:
            return None
        priority = self._chosen(waiting)
        ticket = self._bands[priority].serve()
        self.under_way += 1
        if len(waiting) > 1 or any(self._owed.values()):
            self._account(ticket, first=waiting[0])
        return ticket

    def end(self, ticket: Ticket, *, cost: int = 0) -> None:
        """The request is over, or has left the queue. Again for one that is: nothing.

        Args:
            cost: tokens that it came to, if it was served.
        """
        if ticket.over:
            return
        ticket.over = True
        band = self._bands[ticket.share.priority]
        if ticket.served:
            self.under_way -= 1
            band.finish(ticket, cost=cost)
        else:
            band.leave(ticket)
            self._forgo(ticket.share.priority)

    def _chosen(self, waiting: list[Priority]) -> Priority:
        return next((each for each in waiting[1:] if self._owed[each] > 0), waiting[0])

    def _account(self, ticket: Ticket, *, first: Priority) -> None:
        """Who is owed what, once ``ticket`` is served.

        Args:
            first: the highest priority with which a request waited: a priority that is served in turn is owed nothing.
        """
        served = ticket.share.priority
        if served is not first:
            self._owed[served] -= (PROMISED - 1) * ticket.cost
        for priority in self._owed:
            if priority is not served:
                self._owed[priority] += ticket.cost
            if priority is first:
                self._owed[priority] = min(self._owed[priority], 0)
            self._forgo(priority)

    def _forgo(self, priority: Priority) -> None:
        """Nothing is owed to a priority with which no request waits."""
        if priority in self._owed and not self._bands[priority]:
            self._owed[priority] = min(self._owed[priority], 0)
