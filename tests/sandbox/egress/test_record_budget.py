"""The budget of records: a flood ends the session, a long session that works does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.sandbox.egress.conftest import Chain

from affiant.sandbox.egress.record_budget import RecordBudget, RecordLimits

HOUR = 3600 * 10**9


class Hours:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 7 * HOUR

    def __call__(self) -> int:
        return self.now


def lasts(each: int, count: int, act: Callable[[RecordBudget], None], limits: RecordLimits) -> bool:
    """Whether a session goes on in which ``act`` happens ``count`` times, ``each`` nanoseconds apart."""

    async def scenario() -> bool:
        clock = Hours()
        budget = RecordBudget(Chain(), limits, nanoseconds=clock)
        for _ in range(count):
            act(budget)
            clock.now += each
            if budget.spent.done():
                return False
        return True

    return asyncio.run(scenario())


def test_a_session_of_weeks_never_spends_what_an_hour_allows() -> None:
    limits = RecordLimits(refusals=40, records=100)
    weeks = 3 * 7 * 24
    assert lasts(HOUR // 99, weeks * 99, RecordBudget.begin_counted, limits)
    assert lasts(HOUR // 39, weeks * 39, RecordBudget.refused_by_gateway, limits)


def test_a_flood_is_stopped_at_the_last_of_its_budget_however_long_the_session_was_quiet() -> None:
    limits = RecordLimits(refusals=40, records=100)
    assert lasts(0, 99, RecordBudget.begin_counted, limits)
    assert not lasts(0, 100, RecordBudget.begin_counted, limits)
    assert not lasts(0, 40, RecordBudget.refused_by_gateway, limits)

    async def scenario() -> int:
        clock = Hours()
        budget = RecordBudget(Chain(), limits, nanoseconds=clock)
        budget.begin_counted()
        clock.now += 1000 * HOUR
        for number in range(1, 200):
            budget.begin_counted()
            if budget.spent.done():
                return number
        return 0

    assert asyncio.run(scenario()) == 100


def test_what_is_faster_than_the_budget_refills_ends_too() -> None:
    assert not lasts(HOUR // 150, 400, RecordBudget.begin_counted, RecordLimits(records=100))
    assert lasts(HOUR // 150, 200, RecordBudget.begin_counted, RecordLimits(records=100))
