"""The queue against one that is too simple to be wrong, and against what it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, cycle

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.gateway.upstream.fair_queue import PROMISED, FairQueue
from affiant.gateway.upstream.priority_band import MOST_COST, BandBounds, QueueBounds, Ticket
from affiant.policy.model.share import PRIORITIES, Priority, Share

WIDE = QueueBounds(*(BandBounds(100_000, 60.0) for _ in PRIORITIES))
COSTS = st.integers(1, 5000)
PRIORITY = st.sampled_from(PRIORITIES)


@dataclass
class Naive:
    """The same rules in fractions and lists: no heap, no rounding, everything looked at in each step."""

    limit: int
    under_way: int = 0
    rounds: dict[Priority, Fraction] = field(default_factory=lambda: dict.fromkeys(PRIORITIES, Fraction(0)))
    settled: dict[tuple[Priority, str], Fraction] = field(default_factory=dict)
    held: dict[tuple[Priority, str], Fraction] = field(default_factory=dict)
    placed: dict[tuple[Priority, str], int] = field(default_factory=dict)
    waiting: list[tuple[Priority, str, int, int]] = field(default_factory=list)
    owed: dict[Priority, int] = field(default_factory=lambda: {Priority.NORMAL: 0, Priority.BATCH: 0})
    steps: int = 0

    def place(self, key: tuple[Priority, str]) -> None:
        self.steps += 1
        self.placed[key] = self.steps

    def order(self, key: tuple[Priority, str]) -> tuple[Fraction, int]:
        return self.settled[key] + self.held[key], self.placed[key]

    def begins(self, priority: Priority) -> Fraction:
        waiting = [(each[0], each[1]) for each in self.waits(priority)]
        return self.settled[min(waiting, key=self.order)] if waiting else self.rounds[priority]

    def rest(self, key: tuple[Priority, str]) -> None:
        if not self.waits(*key) and not self.held[key] and self.settled[key] <= self.begins(key[0]):
            self.settled[key] = Fraction(0)

    def waits(self, priority: Priority, session: str | None = None) -> list[tuple[Priority, str, int, int]]:
        return [each for each in self.waiting if each[0] == priority and session in (None, each[1])]

    def enter(self, number: int, session: str, share: Share, cost: int) -> None:
        key = (share.priority, session)
        self.settled.setdefault(key, Fraction(0))
        self.held.setdefault(key, Fraction(0))
        if not self.waits(*key):
            begins = self.begins(share.priority)
            self.settled[key] += max(Fraction(0), begins - self.settled[key] - self.held[key])
            self.place(key)
        self.waiting.append((share.priority, session, number, cost))

    def next(self, weights: dict[str, int]) -> int | None:
        if self.under_way >= self.limit or not self.waiting:
            return None
        present = [priority for priority in PRIORITIES if self.waits(priority)]
        first = present[0]
        chosen = next((each for each in present[1:] if self.owed[each] > 0), first)
        flows = {session for _, session, _, _ in self.waits(chosen)}
        key = min(((chosen, each) for each in flows), key=self.order)
        self.rounds[chosen] = max(self.rounds[chosen], self.settled[key])
        entry = self.waits(*key)[0]
        self.waiting.remove(entry)
        self.held[key] += Fraction(entry[3], weights[key[1]])
        self.place(key)
        self.under_way += 1
        if chosen is not first:
            self.owed[chosen] -= (PROMISED - 1) * entry[3]
        for each in self.owed:
            if each is not chosen:
                self.owed[each] += entry[3]
            if each is first or not self.waits(each):
                self.owed[each] = min(self.owed[each], 0)
        return entry[2]

    def leave(self, number: int) -> None:
        (entry,) = (each for each in self.waiting if each[2] == number)
        self.waiting.remove(entry)
        self.rest((entry[0], entry[1]))
        for each in self.owed:
            if not self.waits(each):
                self.owed[each] = min(self.owed[each], 0)

    def finish(self, key: tuple[Priority, str], estimate: int, cost: int, weight: int) -> None:
        self.under_way -= 1
        self.held[key] -= Fraction(estimate, weight)
        self.settled[key] += Fraction(min(cost, MOST_COST), weight)
        if self.waits(*key) and cost != estimate:
            self.place(key)
        self.rest(key)


SESSIONS = {
    "a": Share(1, Priority.INTERACTIVE),
    "b": Share(4, Priority.INTERACTIVE),
    "c": Share(1),
    "d": Share(2),
    "e": Share(8),
    "f": Share(1, Priority.BATCH),
    "g": Share(16, Priority.BATCH),
}
"""Weights are powers of two, for which the queue's rounds have no rounding at all."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "enter", "finish", "leave"]),
        st.sampled_from(sorted(SESSIONS)),
        COSTS,
        st.integers(0, 10_000),
    ),
    max_size=80,
)


@thorough(80)
@given(st.integers(1, 4), STEPS)
def test_it_serves_in_the_order_of_one_that_looks_at_everything(
    limit: int, steps: list[tuple[str, str, int, int]]
) -> None:
    queue, naive = FairQueue(limit, WIDE), Naive(limit)
    weights = {session: share.weight for session, share in SESSIONS.items()}
    tickets: dict[int, tuple[Ticket, str]] = {}
    waiting: list[int] = []
    served: list[int] = []
    for number, (what, session, cost, choice) in enumerate(steps):
        if what == "enter":
            share = SESSIONS[session]
            tickets[number] = (queue.enter(session, share, cost, now=0.0), session)
            naive.enter(number, session, share, cost)
            waiting.append(number)
        elif what == "leave" and waiting:
            left = waiting.pop(choice % len(waiting))
            queue.end(tickets[left][0])
            naive.leave(left)
        elif what == "finish" and served:
            done, flow = tickets[served.pop(choice % len(served))]
            queue.end(done, cost=choice)
            share = SESSIONS[flow]
            naive.finish((share.priority, flow), done.cost, choice, share.weight)
        while (ticket := queue.next()) is not None:
            (at,) = (each for each in waiting if tickets[each][0] is ticket)
            assert naive.next(weights) == at
            waiting.remove(at)
            served.append(at)
        assert naive.next(weights) is None
        assert (queue.waiting, queue.under_way) == (len(waiting), len(served))
        assert queue.under_way <= limit
        assert not waiting or queue.under_way == limit, "nobody waits while there is room"


# -- what it promises --------------------------------------------------------------------------------------------------


def always_waiting(
    queue: FairQueue, shares: dict[str, Share], costs: Callable[[str], int], served: int
) -> Iterator[Ticket]:
    """What is served while every session always has two requests waiting; each is over before the next."""
    for session, share in shares.items():
        for _ in range(2):
            queue.enter(session, share, costs(session), now=0.0)
    for _ in range(served):
        ticket = queue.next()
        assert ticket is not None
        yield ticket
        queue.end(ticket, cost=ticket.cost)
        queue.enter(ticket.flow.session, ticket.share, costs(ticket.flow.session), now=0.0)


@thorough(30)
@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 100), min_size=2),
    st.lists(COSTS, min_size=1, max_size=40),
)
def test_no_two_sessions_that_wait_are_further_apart_than_one_request_of_each(
    weights: dict[str, int], costs: list[int]
) -> None:
    shares = {session: Share(weight) for session, weight in weights.items()}
    each = cycle(costs)
    got = dict.fromkeys(shares, 0)
    most = max(costs)
    for ticket in always_waiting(FairQueue(1, WIDE), shares, lambda _: next(each), 120):
        got[ticket.flow.session] += ticket.cost
        for one, other in combinations(got, 2):
            mine, its = weights[one], weights[other]
            assert abs(got[one] * its - got[other] * mine) <= most * (mine + its) + mine * its


@thorough(30)
@given(st.lists(COSTS, min_size=1, max_size=20), st.lists(COSTS, min_size=1, max_size=20))
def test_batch_gets_a_twentieth_of_what_is_served_while_it_waits(first: list[int], last: list[int]) -> None:
    shares = {"chat": Share(1, Priority.INTERACTIVE), "work": Share(), "night": Share(1, Priority.BATCH)}
    costs = {"chat": cycle(first), "work": cycle(first), "night": cycle(last)}
    got = dict.fromkeys(shares, 0)
    for ticket in always_waiting(FairQueue(1, WIDE), shares, lambda session: next(costs[session]), 200):
        got[ticket.flow.session] += ticket.cost
        total = sum(got.values())
        assert (got["night"] + max(last)) * PROMISED + 2 * max(first) >= total
        assert (got["work"] + max(first)) * PROMISED + max(*first, *last) >= total
    for lower, most in (
        ("work", max(first)),
        ("night", max(last)),
    ):  # and not much more: priorities are strict
        assert (got[lower] - most) * PROMISED <= total


def test_a_lower_priority_is_not_served_while_nothing_is_owed_to_it() -> None:
    queue = FairQueue(1, WIDE)
    for _ in range(30):
        queue.enter("chat", Share(1, Priority.INTERACTIVE), 100, now=0.0)
    for _ in range(3):
        queue.enter("night", Share(100, Priority.BATCH), 100, now=0.0)
    order = []
    while (ticket := queue.next()) is not None:
        order.append(ticket.flow.session)
        queue.end(ticket, cost=100)
    assert [at for at, name in enumerate(order) if name == "night"] == [1, 21, 32]


def test_what_batch_was_served_alone_is_not_held_against_it() -> None:
    queue = FairQueue(1, WIDE)
    for _ in range(50):
        queue.enter("night", Share(1, Priority.BATCH), 1000, now=0.0)
    for _ in range(40):
        ticket = queue.next()
        assert ticket is not None
        queue.end(ticket, cost=1000)
    queue.enter("chat", Share(1, Priority.INTERACTIVE), 1000, now=0.0)
    queue.enter("chat", Share(1, Priority.INTERACTIVE), 1000, now=0.0)
    order = []
    for _ in range(3):
        ticket = queue.next()
        assert ticket is not None
        order.append(ticket.flow.session)
        queue.end(ticket, cost=1000)
    assert order == ["chat", "night", "chat"]


@thorough(30)
@given(st.lists(st.tuples(st.sampled_from("ab"), PRIORITY, COSTS), max_size=60))
def test_requests_of_one_session_keep_their_order(entered: list[tuple[str, Priority, int]]) -> None:
    queue = FairQueue(1, WIDE)
    tickets = [
        queue.enter(session, Share(1, priority), cost, now=float(at))
        for at, (session, priority, cost) in enumerate(entered)
    ]
    came: dict[tuple[str, Priority], list[float]] = {}
    while (ticket := queue.next()) is not None:
        came.setdefault((ticket.flow.session, ticket.share.priority), []).append(ticket.entered)
        queue.end(ticket, cost=1)
    assert all(found == sorted(found) for found in came.values())
    assert sum(map(len, came.values())) == len(tickets)


def test_a_light_session_does_not_wait_for_a_heavy_one() -> None:
    queue = FairQueue(2, WIDE)
    for _ in range(64):
        queue.enter("heavy", Share(), 8500, now=0.0)
    under_way = [queue.next(), queue.next()]
    queue.enter("light", Share(), 700, now=0.0)
    queue.end(under_way[0], cost=8500)  # type: ignore[arg-type]
    ticket = queue.next()
    assert ticket is not None and ticket.flow.session == "light"


def test_what_was_estimated_too_low_is_paid_for_afterwards() -> None:
    queue = FairQueue(1, WIDE)
    got = {"honest": 0, "sly": 0}
    real = {"honest": 1000, "sly": 9000}
    for name in got:
        for _ in range(100):
            queue.enter(name, Share(), 1000, now=0.0)
    for _ in range(100):
        ticket = queue.next()
        assert ticket is not None
        name = ticket.flow.session
        got[name] += real[name]
        queue.end(ticket, cost=real[name])
    assert abs(got["honest"] - got["sly"]) <= 2 * 9000


def test_asking_for_more_than_is_used_is_no_head_start() -> None:
    queue = FairQueue(16, WIDE)
    for _ in range(64):
        queue.enter("boaster", Share(), 100_000, now=0.0)
    under_way = [queue.next() for _ in range(16)]
    for name in "abcdefgh":
        queue.enter(name, Share(), 100, now=0.0)
    order = []
    for ticket in under_way:
        assert ticket is not None
        queue.end(ticket, cost=10)
        came = queue.next()
        assert came is not None
        order.append(came.flow.session)
    assert sorted(order[:8]) == sorted("abcdefgh")


def test_nothing_is_saved_up_by_asking_for_nothing() -> None:
    queue = FairQueue(1, WIDE)
    for _ in range(100):
        queue.enter("busy", Share(), 100, now=0.0)
    for _ in range(50):
        ticket = queue.next()
        assert ticket is not None
        queue.end(ticket, cost=100)
    for _ in range(50):
        queue.enter("late", Share(), 100, now=0.0)
    order = []
    for _ in range(10):
        ticket = queue.next()
        assert ticket is not None
        order.append(ticket.flow.session)
        queue.end(ticket, cost=100)
    assert abs(order.count("busy") - order.count("late")) <= 2


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_one_session_leaves_room_to_all_others() -> None:
    bounds = QueueBounds(normal=BandBounds(64, 60.0))
    queue = FairQueue(1, bounds)
    taken = 0
    with raises_code("queue.full") as caught:
        for taken in range(65):
            queue.enter("heavy", Share(), 1, now=0.0)
    assert (taken, caught.value.code, caught.value.retry_after_s) == (32, "queue.full", 1)
    for number in range(100):  # and each of any number of others always has a place
        queue.enter(f"light{number}", Share(), 1, now=0.0)
    with raises_code("queue.full"):
        queue.enter("light0", Share(), 1, now=0.0)
    queue.enter("light0", Share(1, Priority.BATCH), 1, now=0.0)


def test_who_is_refused_is_told_how_long_others_have_waited() -> None:
    queue = FairQueue(1, QueueBounds(normal=BandBounds(2, 60.0)))
    queue.enter("a", Share(), 1, now=100.0)
    for now, told in ((100.0, 1), (117.2, 18), (500.0, 60)):
        with raises_code("queue.full") as caught:
            for _ in range(3):
                queue.enter("a", Share(), 1, now=now)
        assert caught.value.retry_after_s == told


def test_what_is_kept_does_not_grow_with_what_comes_and_goes() -> None:
    queue = FairQueue(1, WIDE)
    queue.enter("first", Share(), 1, now=0.0)
    first = queue.next()
    for number in range(5000):
        queue.end(queue.enter(f"gone{number}", Share(), 1000, now=0.0))
        queue.end(queue.enter("again", Share(), 1000, now=0.0))
    band = queue.band(Priority.NORMAL)
    assert (len(band._heap) <= 64, len(band._flows), queue.waiting) == (True, 1, 0)
    assert first is not None
    queue.end(first, cost=10**9)
    for number in range(5000):  # each leaves a debt that nobody pays
        queue.enter(f"debtor{number}", Share(), 1, now=0.0)
        ticket = queue.next()
        assert ticket is not None
        queue.end(ticket, cost=10**9)
    assert len(band._flows) <= 1024 and len(band._heap) <= 64


def test_to_end_twice_is_to_end_once() -> None:
    queue = FairQueue(1, WIDE)
    ticket = queue.enter("a", Share(), 5, now=0.0)
    assert queue.next() is ticket
    queue.end(ticket, cost=5)
    queue.end(ticket, cost=5)
    assert queue.under_way == 0
