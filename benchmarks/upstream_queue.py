"""The queue in front of an upstream: what light sessions wait beside a heavy one, simulated, and what a turn costs.

Simulated: 16 requests at once, each computed at 2,200 tokens a second; one session that always has 64 requests of 8,500
tokens outstanding, and 49 that each have one of 700. Requests ask for twice the answer that they get, so every estimate
is too high. First come, first served gets the same requests in the same run. The turn is measured, in this process's
own time: 50 sessions, 512 requests waiting; its peer is a deque.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from statistics import quantiles
from typing import NamedTuple, Protocol

from affiant.gateway.upstream.fair_queue import FairQueue
from affiant.gateway.upstream.priority_band import BandBounds, QueueBounds, Ticket
from affiant.policy.model.share import PRIORITIES, Share
from benchmarks.timing import Figure, interleaved

SLOTS = 16
TOKENS_PER_S = 2200.0
SIMULATED_S = 680.0
LIGHT = 49
HEAVY_OUTSTANDING = 64
WIDE = QueueBounds(*(BandBounds(1 << 16, 3600.0) for _ in PRIORITIES))


class Load(NamedTuple):
    session: str
    prompt: int
    answer: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.answer

    @property
    def estimate(self) -> int:
        return self.prompt + 2 * self.answer


class Waiting(NamedTuple):
    load: Load
    since: float
    ticket: Ticket | None = None


class Queue(Protocol):
    def enter(self, load: Load, now: float) -> None: ...
    def next(self) -> Waiting | None: ...
    def end(self, done: Waiting) -> None: ...


class Fair:
    def __init__(self) -> None:
        self._queue = FairQueue(SLOTS, WIDE)
        self._waiting: dict[Ticket, Waiting] = {}

    def enter(self, load: Load, now: float) -> None:
        ticket = self._queue.enter(load.session, Share(), load.estimate, now=now)
        self._waiting[ticket] = Waiting(load, now, ticket)

    def next(self) -> Waiting | None:
        ticket = self._queue.next()
        return None if ticket is None else self._waiting.pop(ticket)

    def end(self, done: Waiting) -> None:
        assert done.ticket is not None
        self._queue.end(done.ticket, cost=done.load.tokens)


class FirstCome:
    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._under_way = 0

    def enter(self, load: Load, now: float) -> None:
        self._waiting.append(Waiting(load, now))

    def next(self) -> Waiting | None:
        if self._under_way == SLOTS or not self._waiting:
            return None
        self._under_way += 1
        return self._waiting.popleft()

    def end(self, done: Waiting) -> None:
        del done
        self._under_way -= 1


def simulated(queue: Queue) -> tuple[list[float], int]:
    """What light sessions waited, in seconds, and the tokens that all were served."""
    heavy = Load("heavy", 8000, 500)
    lights = [Load(f"light {number}", 600, 100) for number in range(LIGHT)]
    for load in (*([heavy] * HEAVY_OUTSTANDING), *lights):
        queue.enter(load, 0.0)
    events: list[tuple[float, int, Waiting]] = []
    waits: list[float] = []
    now, number, served = 0.0, 0, 0
    while now < SIMULATED_S:
        while (begun := queue.next()) is not None:
            number += 1
            heappush(events, (now + begun.load.tokens / TOKENS_PER_S, number, begun))
            if begun.load.session != "heavy":
                waits.append(now - begun.since)
        now, _, done = heappop(events)
        served += done.load.tokens
        queue.end(done)
        queue.enter(done.load, now)
    return waits, served


def measure() -> list[Figure]:
    fair, served = simulated(Fair())
    first_come, served_so = simulated(FirstCome())
    peer = "first come, first served"
    percentiles = [quantiles(waits, n=100) for waits in (fair, first_come)]
    (fair_50, fair_99), (plain_50, plain_99) = ((each[49], each[98]) for each in percentiles)
    figures = [
        Figure("light sessions wait, p50", fair_50, "s", peer, plain_50),
        Figure("light sessions wait, p99", fair_99, "s", peer, plain_99),
        Figure("tokens served, thousands", served / 1000, "", peer, served_so / 1000),
    ]
    ours, deques = interleaved(_turns(), _deque(), count=20_000, clock=time.process_time)
    figures.append(Figure("one turn, 512 wait", ours * 1e6, "us", "a deque", deques * 1e6))
    return figures


def _turns() -> Callable[[], object]:
    """Enter, go, and be over, with 512 others waiting."""
    queue, share = FairQueue(1, WIDE), Share()
    for number in range(512):
        queue.enter(f"session {number % 50}", share, 700 + number, now=0.0)
    sessions = [f"session {number}" for number in range(50)]
    at = 0

    def turn() -> None:
        nonlocal at
        at = (at + 1) % 50
        queue.enter(sessions[at], share, 700 + at, now=0.0)
        ticket = queue.next()
        assert ticket is not None
        queue.end(ticket, cost=650)

    return turn


def _deque() -> Callable[[], object]:
    waiting = deque(range(512))

    def turn() -> None:
        waiting.append(1)
        waiting.popleft()

    return turn
