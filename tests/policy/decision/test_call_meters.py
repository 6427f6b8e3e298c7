"""Calls of tools are counted for all of them or for none, and what was taken can be given back whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.decision.call_meters import CallMeters
from affiant.policy.decision.limit_errors import LimitReached, ToolCallsSpent, ToolRateReached
from affiant.policy.loading.load import load_profiles

SECOND = 10**9


def meters(sections: str) -> CallMeters:
    compiled = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled
    return CallMeters(compiled)


def test_what_is_given_back_can_be_taken_again() -> None:
    made = meters("tools: [{name: a, rate: 2/min}, b], limits: {tool_calls: 3}")
    charge = made.take([("tools/0",), ("tools/0",), ("tools/1",)], now=0)
    with pytest.raises(ToolCallsSpent):
        made.take([("tools/1",)], now=0)
    charge.give_back()
    made.take([("tools/0",), ("tools/0",), ("tools/1",)], now=0)


def test_a_childs_calls_need_room_under_every_rule_for_their_tool() -> None:
    made = meters(
        "tools: [{name: a, rate: 1/min, args: {x: any}}, {name: a, rate: 3/min, args: {y: any}}, "
        "{name: b, rate: 1/min}]"
    )
    made.take_of_child(["a", "b"], now=0)
    with pytest.raises(ToolRateReached) as refused:
        made.take_of_child(["c", "a"], now=0)
    assert refused.value.retry_after_s == 61
    made.take_of_child(["c"], now=0)  # a tool without a rate, and nothing of the refused two was kept
    made.take_of_child(["a"], now=62 * SECOND)


@thorough(80)
@given(
    st.lists(st.tuples(st.lists(st.sampled_from("ab"), min_size=1, max_size=4), st.booleans()), max_size=20)
)
def test_no_bound_is_exceeded_and_nothing_is_lost(steps: list[tuple[list[str], bool]]) -> None:
    made = meters("tools: [{name: a, rate: 5/min}, b], limits: {tool_calls: 12}")
    kept = {"a": 0, "b": 0}
    for names, back in steps:
        fits = kept["a"] + names.count("a") <= 5 and sum(kept.values()) + len(names) <= 12
        try:
            charge = made.take_of_child(names, now=0)
        except LimitReached:
            assert not fits
            continue
        assert fits
        if back:
            charge.give_back()
        else:
            for name in names:
                kept[name] += 1
