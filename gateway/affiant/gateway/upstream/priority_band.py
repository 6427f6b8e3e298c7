"""Those who wait with one priority: deficit round robin over sessions, and first come, first served within one.

*Deficit round robin.* In each round every session that waits is paid tokens in proportion to its weight; it is served
once it owes nothing, and then owes what its request is likely to cost (surplus round robin: it is served first and pays
afterwards, so that a session that was away does not wait for its own request to be paid for). Going around would take
as many steps as a request has tokens. But nothing happens between two requests, so the round in which a session will
owe nothing is known when it is served: sessions lie in a heap by that round, and taking the first one leaps there.

*Corrected.* When a request is over, what it really cost takes the place of the estimate, in the debt of its session.

*Nothing is saved up.* A session that begins to wait begins where the first of those that wait is, or with its own
debts, if they are more. That place is reckoned without what the other still has under way: a session that asks for much
and uses little gets its own back, and is not ahead of those that came meanwhile. Where no session waits, it is where
the last one was that was served, so debts of sessions that ask for nothing are paid as the rounds go on.

The bound that follows, and that the tests hold it to: while two sessions both wait, what they are served, each divided
by its weight, differs by no more than one request of each divided by its weight; and by what corrections of requests
under way still change. A step takes the logarithm of the number of sessions at most. Sans I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Final

from affiant.errors import ConfigurationError
from affiant.gateway.wire.errors import QueueError
from affiant.policy.model.share import Priority, Share

__all__ = ["CONCURRENT", "MOST_COST", "Band", "BandBounds", "QueueBounds", "Ticket"]

CONCURRENT: Final = 256
"""Requests that an upstream is asked at once where the configuration does not say: as many sequences as vLLM computes
together by default."""
MOST_COST: Final = 1 << 20
"""Tokens that one request counts as, at most: nothing that it or an upstream says delays others for ever."""
_ROUND: Final = 1 << 20
"""Parts of a round: of what is paid, only less than this part of a token is lost by rounding."""
_KEPT: Final = 1024
"""Sessions that owe something and ask for nothing, of which that is remembered."""
_SLACK: Final = 64


@dataclass(frozen=True, slots=True)
class BandBounds:
    """Of one priority: ``length`` is how many may wait; ``wait_s`` how many seconds each of them does, at most."""

    length: int
    wait_s: float

    def __post_init__(self) -> None:
        if self.length < 1 or self.wait_s <= 0:
            raise ConfigurationError(
                "no queue", expected="room for one, and time to wait", where="queue", code="gateway.settings"
            )


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Of the queue in front of one upstream.

    The longest wait is less than what a session's supervisor adds to the time of an upstream (``gateway_client``); a
    client that waits less leaves, and its request with it.
    """

    interactive: BandBounds = BandBounds(512, 30.0)
    normal: BandBounds = BandBounds(512, 120.0)
    batch: BandBounds = BandBounds(512, 240.0)

    def of(self, priority: Priority) -> BandBounds:
        """Those of one priority."""
        match priority:
            case Priority.INTERACTIVE:
                return self.interactive
            case Priority.NORMAL:
                return self.normal
            case Priority.BATCH:
                return self.batch


@dataclass(eq=False, slots=True)
class _Flow:
    """The requests of one session."""

    session: str
    settled: int = 0
    """The round, in parts, in which it has paid for what is over."""
    held: int = 0
    """Rounds, in parts, in which it pays for what is under way, as estimated."""
    entry: int = 0
    """Which of its entries in the heap counts; 0: none."""
    waiting: OrderedDict[Ticket, None] = field(default_factory=OrderedDict)

    @property
    def clear(self) -> int:
        """The round in which it owes nothing."""
        return self.settled + self.held


@dataclass(eq=False, slots=True)
class Ticket:
    """One request's place: it waits, then it is served, or it leaves.

    Args:
        cost: tokens, as estimated when it came. entered: when that was, in seconds.
    """

    share: Share
    cost: int
    entered: float
    flow: _Flow
    served: bool = False
    over: bool = False


class Band:
    """The sessions of one priority that ask one upstream."""

    def __init__(self, bounds: BandBounds) -> None:
        self.bounds = bounds
        self._round = 0
        self._entries = 0
        self._active = 0
        self._flows: dict[str, _Flow] = {}
        self._resting: OrderedDict[str, None] = OrderedDict()
        self._heap: list[tuple[int, int, _Flow]] = []
        self._waiting: OrderedDict[Ticket, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, session: str, share: Share, cost: int, *, now: float) -> Ticket:
        """Wait behind the session's own requests.

        One request of each session may always wait. Of more, as many as there is room for besides: so a session that
        asks for much leaves room to all others, however many there are.

        Raises:
            ``queue.full``: too many wait.
        """
        flow = self._flows.get(session)
        waiting = 0 if flow is None else len(flow.waiting)
        if waiting and waiting >= self.bounds.length - len(self):
            raise QueueError(
                "too many requests wait for this upstream",
                expected=f"at most {self.bounds.length} of this priority, of one session no more than places left",
                retry_after_s=self.retry_after(now=now),
                code="queue.full",
            )
        if flow is None:
            flow = self._flows[session] = _Flow(session)
        self._resting.pop(session, None)
        ticket = Ticket(share, cost, now, flow)
        if not flow.waiting:
            flow.settled += max(0, self._begins - flow.clear)
            self._active += 1
            self._place(flow)
        flow.waiting[ticket] = None
        self._waiting[ticket] = None
        return ticket

    def serve(self) -> Ticket:
        """The next one; there is one."""
        flow = self._first()
        self._round = max(self._round, flow.settled)
        ticket, _ = flow.waiting.popitem(last=False)
        del self._waiting[ticket]
        flow.held += _parts(ticket.cost, ticket.share.weight)
        ticket.served = True
        if flow.waiting:
            self._place(flow)
        else:
            self._take_out(flow)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """A request that waits goes away."""
        del ticket.flow.waiting[ticket]
        del self._waiting[ticket]
        if not ticket.flow.waiting:
            self._take_out(ticket.flow)
            self._rest(ticket.flow)

    def finish(self, ticket: Ticket, *, cost: int) -> None:
        """A request is done, at this cost: it takes the place of the estimate."""
        flow, weight = ticket.flow, ticket.share.weight
        flow.held -= _parts(ticket.cost, weight)
        flow.settled += _parts(min(cost, MOST_COST), weight)
        if not flow.waiting:
            self._rest(flow)
        elif cost != ticket.cost:
            self._place(flow)

    def retry_after(self, *, now: float) -> int:
        """Seconds after which asking again may help: as long as the first of those who wait has waited."""
        oldest = next(iter(self._waiting), None)
        waited = 0.0 if oldest is None else now - oldest.entered
        return max(1, ceil(min(waited, self.bounds.wait_s)))

    # -- order -------------------------------------------------------------------------------------------------

    @property
    def _begins(self) -> int:
        """The round in which a session that owes nothing begins to wait."""
        if not self._active:
            return self._round
        while self._heap[0][2].entry != self._heap[0][1]:
            heappop(self._heap)
        return self._heap[0][2].settled

    def _first(self) -> _Flow:
        while True:
            _, entry, flow = heappop(self._heap)
            if flow.entry == entry:
                return flow

    def _place(self, flow: _Flow) -> None:
        """Put ``flow`` where its debt says; among those of one round it comes last."""
        self._entries += 1
        flow.entry = self._entries
        heappush(self._heap, (flow.clear, flow.entry, flow))
        if len(self._heap) > 2 * self._active + _SLACK:  # entries that count no more
            self._heap = [each for each in self._heap if each[2].entry == each[1]]
            heapify(self._heap)

    def _take_out(self, flow: _Flow) -> None:
        """None of its requests waits any more."""
        flow.entry = 0
        self._active -= 1

    def _rest(self, flow: _Flow) -> None:
        """Forget a session that asks for nothing and owes nothing; of others remember a bounded number."""
        if flow.held:
            return
        if flow.clear <= self._begins:
            del self._flows[flow.session]
            return
        self._resting[flow.session] = None
        if len(self._resting) > _KEPT:
            oldest, _ = self._resting.popitem(last=False)
            del self._flows[oldest]


def _parts(tokens: int, weight: int) -> int:
    """The parts of rounds in which so many tokens are paid."""
    return -(-tokens * _ROUND // weight)
