"""Meters: never more than the bound in any window, whatever is asked when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.decision.meters import NANOSECONDS, Meter, nanoseconds
from affiant.policy.model.limits import WINDOWS, Bound

SECOND = NANOSECONDS
STEPS = st.lists(
    st.tuples(st.integers(0, 40 * SECOND) | st.integers(0, SECOND), st.integers(1, 6)), max_size=60
)


def used_in_any_window(taken: Sequence[tuple[int, int]], per: int) -> int:
    """The most that was taken in any half-open stretch of ``per`` seconds."""
    starts = [now for now, _ in taken]
    ends = [(start, start + per * SECOND) for start in starts]
    return max((sum(n for now, n in taken if begin <= now < end) for begin, end in ends), default=0)


@thorough(200)
@given(STEPS, st.sampled_from([1, 60]), st.integers(1, 12))
def test_no_stretch_of_a_window_ever_holds_more_than_its_bound(
    steps: Sequence[tuple[int, int]], per: int, most: int
) -> None:
    meter, now, taken = Meter((Bound(most, per),)), 0, []
    for step, amount in steps:
        now += step
        if meter.take(amount, now=now) is not None:
            taken.append((now, amount))
    assert used_in_any_window(taken, per) <= most
    elapsed = now / SECOND
    assert sum(amount for _, amount in taken) <= most * elapsed / per + most


@thorough(200)
@given(STEPS, st.integers(1, 12), st.integers(1, 12))
def test_what_a_meter_says_to_wait_is_enough_and_nothing_before_it_is(
    steps: Sequence[tuple[int, int]], most: int, wanted: int
) -> None:
    meter, now = Meter((Bound(most, 60), Bound(3 * most, 3600))), 0
    for step, amount in steps:
        now += step
        meter.take(amount, now=now)
    wait = meter.wait(wanted, now=now)
    if wait is None:
        assert wanted > most
    elif wait:
        assert meter.take(wanted, now=now + wait - 1) is None
        assert meter.take(wanted, now=now + wait) is not None


@thorough(100)
@given(st.lists(st.integers(-5 * SECOND, 5 * SECOND), max_size=30))
def test_a_clock_that_goes_back_refills_nothing(steps: Sequence[int]) -> None:
    meter, now, latest, taken = Meter((Bound(3, 60),)), 100 * SECOND, 100 * SECOND, []
    for step in steps:
        now += step
        latest = max(latest, now)
        if meter.take(1, now=now) is not None:
            taken.append((latest, 1))
    assert used_in_any_window(taken, 60) <= 3


def test_what_is_used_while_the_clock_is_back_counts_from_where_it_was() -> None:
    meter = Meter((Bound(2, 60),))
    assert meter.take(1, now=100 * SECOND) is not None
    assert meter.take(1, now=50 * SECOND) is not None
    assert meter.take(1, now=(100 + 60) * SECOND - 1) is None


@pytest.mark.parametrize("per", WINDOWS.values())
def test_what_was_used_counts_to_the_last_instant_of_the_window_wherever_it_began(per: int) -> None:
    window = per * SECOND
    for begin in range(0, window, window // 997):
        meter = Meter((Bound(1, per),))
        assert meter.take(1, now=begin) is not None
        assert meter.take(1, now=begin + window - 1) is None


@pytest.mark.parametrize("per", WINDOWS.values())
def test_what_was_used_late_in_a_window_outlives_what_was_used_early(per: int) -> None:
    window = per * SECOND
    for late in range(3, 60):
        meter = Meter((Bound(2, per),))
        assert meter.take(1, now=0) is not None
        assert meter.take(1, now=late * window // 60) is not None
        assert meter.take(1, now=window + 2 * window // 60) is not None, "what was used first has left"
        assert meter.take(1, now=late * window // 60 + window - 1) is None


@pytest.mark.parametrize("per", WINDOWS.values())
def test_all_the_room_is_back_one_sixtieth_of_the_window_after_it(per: int) -> None:
    meter = Meter((Bound(5, per),))
    assert meter.take(5, now=1) is not None
    assert meter.take(1, now=per * SECOND) is None
    assert meter.take(5, now=1 + 61 * -(-per * SECOND // 60)) is not None


@thorough(100)
@given(STEPS, st.integers(1, 40))
def test_a_sessions_life_holds_no_more_than_its_bound_and_all_of_it(
    steps: Sequence[tuple[int, int]], most: int
) -> None:
    meter, taken = Meter((Bound(most),)), 0
    for now, amount in steps:
        fits = taken + amount <= most
        assert (meter.take(amount, now=now) is not None) == fits
        taken += amount if fits else 0


def test_a_bound_of_the_sessions_life_never_refills() -> None:
    meter = Meter((Bound(2),))
    assert meter.take(2, now=0) is not None
    assert meter.wait(1, now=10**30) is None


def test_either_all_bounds_are_charged_or_none() -> None:
    meter = Meter((Bound(10, 60), Bound(3)))
    assert meter.take(3, now=0) is not None
    assert meter.take(1, now=0) is None
    assert Meter(()).take(10**9, now=0) is not None, "without bounds there is always room"
    assert meter.wait(8, now=0) is None, "the charge of the first bound was not kept"


def test_a_charge_is_settled_where_it_was_made() -> None:
    meter = Meter((Bound(100, 60),))
    charge = meter.take(90, now=0)
    assert charge is not None
    assert meter.take(20, now=0) is None
    meter.settle(charge, 10)
    assert meter.take(90, now=0) is not None
    assert meter.take(1, now=0) is None


def test_more_than_was_charged_is_counted_and_blocks_what_follows() -> None:
    meter = Meter((Bound(100, 60), Bound(1000)))
    charge = meter.take(10, now=0)
    assert charge is not None
    meter.settle(charge, 150)
    assert meter.take(1, now=59 * SECOND) is None
    assert meter.take(1, now=62 * SECOND) is not None
    assert meter.take(850, now=200 * SECOND) is None, "the life of the session remembers all 150"


def test_a_charge_that_has_left_its_window_gives_nothing_back() -> None:
    meter = Meter((Bound(10, 60),))
    charge = meter.take(10, now=0)
    assert charge is not None
    assert meter.take(10, now=100 * SECOND) is not None
    meter.settle(charge, 0)
    assert meter.take(1, now=100 * SECOND) is None


def test_a_charge_that_has_left_its_window_gives_back_nothing_of_another_in_its_place() -> None:
    meter = Meter((Bound(10, 60),))
    first = meter.take(10, now=0)
    assert first is not None
    assert meter.take(10, now=61 * SECOND) is not None, "sixty-one slots later the place is the same"
    meter.settle(first, 0)
    assert meter.take(1, now=61 * SECOND) is None


def test_a_charge_gives_back_as_long_as_it_counts() -> None:
    meter = Meter((Bound(10, 60),))
    charge = meter.take(10, now=0)
    assert charge is not None
    assert meter.take(1, now=60 * SECOND) is None
    meter.settle(charge, 0)
    assert meter.take(10, now=60 * SECOND) is not None


@pytest.mark.parametrize("bound", [Bound(10, 60), Bound(10)])
def test_nothing_is_given_back_that_was_not_taken(bound: Bound) -> None:
    meter = Meter((bound,))
    charge = meter.take(5, now=0)
    assert charge is not None
    for _ in range(3):
        meter.settle(charge, 0)
    assert meter.take(11, now=0) is None
    assert meter.take(10, now=0) is not None


def test_instants_are_whole_nanoseconds() -> None:
    assert nanoseconds(1.5) == 1_500_000_000


# -- narrowed ----------------------------------------------------------------------------------------------------------


@thorough(200)
@given(STEPS, STEPS, st.sampled_from([1, 60]), st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_what_was_used_before_a_bound_came_stays_used(
    before: Sequence[tuple[int, int]],
    after: Sequence[tuple[int, int]],
    per: int,
    was: int,
    now_most: int,
    bounded: bool,
) -> None:
    """The bound that came holds in every stretch that ends after it came, also where there was none of its length."""
    meter = Meter((Bound(was, per),) if bounded else (), remembers=True)
    now, taken = 0, []
    for step, amount in before:
        now += step
        if meter.take(amount, now=now) is not None:
            taken.append((now, amount))
    meter = meter.narrowed((Bound(now_most, per), Bound(20)))
    for step, amount in after:
        now += step
        if meter.take(amount, now=now) is not None:
            taken.append((now, amount))
            inside = sum(n for at, n in taken if now - per * SECOND < at <= now)
            assert inside <= now_most
            assert sum(n for _, n in taken) <= 20


def test_a_meter_that_does_not_remember_counts_a_new_window_from_then_on() -> None:
    meter = Meter((Bound(5, 60),))
    assert meter.take(5, now=0) is not None
    narrowed = meter.narrowed((Bound(4, 60), Bound(6)))
    assert narrowed.wait(1, now=0) != 0
    assert narrowed.wait(4, now=100 * SECOND) == 0


def test_two_meters_become_one_that_has_counted_both() -> None:
    first, second = Meter((Bound(9, 60),)), Meter((Bound(9, 60), Bound(50)))
    first.take(3, now=0)
    second.take(4, now=30 * SECOND)
    both = Meter((Bound(9, 60),)).narrowed((Bound(9, 60), Bound(10)), also=(first, second))
    assert both.wait(2, now=30 * SECOND) == 0
    assert both.wait(3, now=30 * SECOND) != 0
    assert both.wait(5, now=62 * SECOND) == 0  # what the first took has left the window
