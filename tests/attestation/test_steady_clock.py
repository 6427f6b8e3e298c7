"""Time without jumps: small corrections are followed, a clock that was set is not, and nothing goes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.steady_clock import TOLERANCE_S, ClockStepped, SteadyClock

BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Machine:
    """Seconds since its start, and how far its wall clock was set."""

    def __init__(self) -> None:
        self.elapsed, self.set_by = 0.0, 0.0
        self.clock = SteadyClock(
            lambda: BEGIN + timedelta(seconds=self.elapsed + self.set_by), lambda: self.elapsed
        )

    def passed(self) -> float:
        return (self.clock() - BEGIN).total_seconds()


@pytest.mark.parametrize("step", [-3600.0, -11.0, 11.0, 86400.0])
def test_a_clock_that_was_set_is_not_followed_and_nothing_new_begins(step: float) -> None:
    machine = Machine()
    machine.elapsed, machine.set_by = 100.0, step
    assert machine.passed() == 100.0
    with pytest.raises(ClockStepped):
        machine.clock.require()
    machine.elapsed = 200.0
    assert machine.passed() == 200.0
    machine.set_by = 0.0
    machine.clock.require()


@pytest.mark.parametrize("step", [-9.0, 9.0])
def test_a_small_correction_is_followed_and_never_backwards(step: float) -> None:
    machine = Machine()
    machine.elapsed = 100.0
    before = machine.passed()
    machine.set_by = step
    assert machine.passed() == max(before, 100.0 + step)
    machine.clock.require()
    machine.elapsed = 200.0
    assert machine.passed() == 200.0 + step


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e6, 1e6)), max_size=30))
def test_time_never_goes_back_and_never_leaps(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    last = machine.passed()
    for elapsed, set_by in steps:
        machine.elapsed += elapsed
        machine.set_by += set_by
        now = machine.passed()
        assert 0 <= now - last <= elapsed + 2 * TOLERANCE_S + 1e-3
        last = now
