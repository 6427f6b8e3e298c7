"""The table of a session's life: forwards only, and a failure has a code."""

from __future__ import annotations

import itertools

import pytest
from tests.raising import raises_code

from affiant.sandbox.supervisor.launch.lifecycle import TRANSITIONS, Lifecycle, State

PATH = [State.ATTESTING, State.ACTIVATING, State.RUNNING, State.STOPPING, State.TERMINATED]


def at(state: State) -> Lifecycle:
    lifecycle = Lifecycle()
    lifecycle.state = state
    return lifecycle


def test_a_session_goes_its_way() -> None:
    lifecycle = Lifecycle()
    for state in PATH:
        lifecycle.to(state)
    assert lifecycle.state is State.TERMINATED


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_only_the_tables_steps_can_be_taken(before: State, after: State) -> None:
    code = "x.y" if after is State.FAILED else None
    if after in TRANSITIONS[before]:
        at(before).to(after, code=code)
    else:
        with raises_code("session.transition"):
            at(before).to(after, code=code)


def test_no_step_leads_back() -> None:
    order = [State.PROVISIONING, *PATH]
    for before in order:
        for after in TRANSITIONS[before] - {State.FAILED}:
            assert order.index(after) == order.index(before) + 1


def test_a_failure_has_a_code_and_nothing_else_has() -> None:
    with raises_code("session.transition"):
        at(State.RUNNING).to(State.FAILED)
    with raises_code("session.transition"):
        at(State.RUNNING).to(State.STOPPING, code="x.y")


def test_a_required_state_is_required() -> None:
    at(State.RUNNING).require(State.RUNNING)
    with raises_code("session.transition"):
        at(State.STOPPING).require(State.RUNNING)
