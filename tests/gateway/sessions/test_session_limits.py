"""A session's meters: what is taken when, what is given back, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.gateway.dialects.response_bound import ResponseBound, response_bound
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.sessions.session_limits import Reservation, SessionLimits
from affiant.policy.decision.limit_errors import (
    LimitReached,
    ModelRequestsSpent,
    ResponseTooLong,
    ResponseUnbounded,
    TokensSpent,
    ToolCallsSpent,
    ToolRateReached,
)
from affiant.policy.decision.meters import NANOSECONDS
from affiant.policy.loading.load import load_profiles

SECOND = NANOSECONDS
TEN = ResponseBound(10)


def bound_of(request: dict[str, object]) -> ResponseBound:
    """As a chat completion says it."""
    return response_bound(request, bounds=("max_completion_tokens", "max_tokens"), answers="n")


def limits_of(sections: str) -> SessionLimits:
    compiled = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled
    return SessionLimits(compiled)


def reserve(
    limits: SessionLimits, *, answer: ResponseBound = TEN, size: int = 90, now: int = 0
) -> Reservation:
    return limits.reserve("m", answer, rules=(), size=size, now=now)


def refused(work: Callable[[], object]) -> LimitReached:
    with pytest.raises(LimitReached) as caught:
        work()
    return caught.value


def call(*rules: str) -> tuple[str, ...]:
    """A call, by the rules that it fits."""
    return rules or ("tools/0",)


# -- requests and tokens ---------------------------------------------------------------------------------------------


def test_a_rate_of_requests_says_when_there_is_room_again() -> None:
    limits = limits_of("limits: {requests: 2/min}")
    reserve(limits)
    reserve(limits, now=30 * SECOND)
    error = refused(lambda: reserve(limits, now=31 * SECOND))
    assert isinstance(error, ModelRequestsSpent)
    assert (error.code, error.rules, error.retry_after_s) == ("limit_requests", ("limits/requests",), 30)
    reserve(limits, now=61 * SECOND)


def test_what_is_spent_for_the_sessions_life_is_not_worth_waiting_for() -> None:
    limits = limits_of("limits: {requests: 1}")
    reserve(limits)
    assert refused(lambda: reserve(limits, now=10**6 * SECOND)).retry_after_s is None


def test_tokens_are_taken_before_the_request_and_settled_after_it() -> None:
    limits = limits_of("limits: {tokens: 200}")
    first = reserve(limits)  # 90 bytes and 10 tokens
    second = reserve(limits)
    assert isinstance(refused(lambda: reserve(limits)), TokensSpent)
    limits.settle(first, sends=1, status=200, used=30)
    assert isinstance(refused(lambda: reserve(limits)), TokensSpent), "70 are free, 100 are needed"
    limits.settle(second, sends=1, status=200, used=70)
    reserve(limits)
    assert isinstance(refused(lambda: reserve(limits, size=0)), TokensSpent)


@pytest.mark.parametrize(
    ("sends", "status", "used", "kept"),
    [
        (0, 0, None, 0),
        (1, 400, None, 0),
        (1, 404, None, 0),
        (1, 429, None, 0),
        (1, 499, None, 0),
        (1, 408, None, 100),
        (1, 0, None, 100),
        (1, 200, None, 100),
        (1, 399, None, 100),
        (1, 500, None, 100),
        (1, 400, 40, 40),
        (1, 200, 0, 0),
        (1, 200, 40, 40),
        (1, 200, 150, 150),
        (2, 200, 40, 140),
        (2, 429, None, 100),
        (2, 0, None, 200),
    ],
)
def test_what_stays_taken(sends: int, status: int, used: int | None, kept: int) -> None:
    limits = limits_of("limits: {tokens: 200}")
    limits.settle(reserve(limits), sends=sends, status=status, used=used)
    room = 200 - kept
    if room:
        reserve(limits, size=room - 10)
    assert isinstance(refused(lambda: reserve(limits, size=0, answer=ResponseBound(1))), TokensSpent)


def test_more_answers_cost_more() -> None:
    limits = limits_of("limits: {tokens: 100}")
    assert isinstance(refused(lambda: reserve(limits, answer=ResponseBound(10, answers=2))), TokensSpent)
    reserve(limits, answer=ResponseBound(10, answers=2), size=80)


def test_a_request_that_never_went_up_is_no_request() -> None:
    limits = limits_of("limits: {requests: 1, tokens: 100}")
    limits.settle(reserve(limits), sends=0, status=0, used=None)
    reserve(limits)


def test_a_request_that_the_upstream_refused_was_one() -> None:
    limits = limits_of("limits: {requests: 1}")
    limits.settle(reserve(limits), sends=1, status=404, used=None)
    assert isinstance(refused(lambda: reserve(limits)), ModelRequestsSpent)


def test_a_request_that_went_up_twice_is_two() -> None:
    limits = limits_of("limits: {requests: 2}")
    limits.settle(reserve(limits), sends=2, status=200, used=None)
    assert isinstance(refused(lambda: reserve(limits)), ModelRequestsSpent)


def test_a_refused_request_takes_nothing() -> None:
    limits = limits_of("limits: {requests: 1, tokens: 100}")
    assert isinstance(refused(lambda: reserve(limits, size=1000)), TokensSpent)
    reserve(limits)


def test_where_tokens_are_bounded_a_request_must_say_how_many() -> None:
    unsaid = ResponseBound(None, why=": 'n' is no whole number of 1 or more")
    for sections in ("limits: {tokens: 1M}", "models: [{name: m, max_tokens: 50}]"):
        error = refused(lambda sections=sections: reserve(limits_of(sections), answer=unsaid))
        assert isinstance(error, ResponseUnbounded)
        assert "'n' is no whole number" in str(error)
        assert error.retry_after_s is None
    reserve(limits_of("limits: {requests: 1, tool_calls: 1}, models: [m]"), answer=unsaid)


def test_a_longer_answer_than_the_profile_gives_is_refused() -> None:
    limits = limits_of("models: [{name: m, max_tokens: 50}]")
    reserve(limits, answer=ResponseBound(50))
    error = refused(lambda: reserve(limits, answer=ResponseBound(51)))
    assert isinstance(error, ResponseTooLong)
    assert (error.code, error.expected) == ("limit_max_tokens", "at most 50 tokens")


@thorough(50)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(0, 100) | st.none(), st.booleans()),
        max_size=40,
    )
)
def test_stated_tokens_never_exceed_the_budget_while_none_exceeds_its_most(
    steps: list[tuple[int, int, int | None, bool]],
) -> None:
    limits, open_ones, stated = limits_of("limits: {tokens: 300}"), [], 0
    for size, answer, used, close_first in steps:
        if close_first and open_ones:
            reservation, most, tokens = open_ones.pop(0)
            actual = None if tokens is None else min(tokens, most)
            limits.settle(reservation, sends=1, status=200, used=actual)
            stated += most if actual is None else actual
        try:
            open_ones.append((reserve(limits, size=size, answer=ResponseBound(answer)), size + answer, used))
        except TokensSpent:
            continue
        assert stated + sum(most for _, most, _ in open_ones) <= 300


def test_of_parallel_requests_exactly_as_many_pass_as_there_is_room_for() -> None:
    limits, passed = limits_of("limits: {tokens: 1000, requests: 500}"), []

    async def ask(number: int) -> None:
        await asyncio.sleep(0)
        try:
            reservation = reserve(limits)
        except TokensSpent:
            return
        passed.append(number)
        await asyncio.sleep(0.001)
        limits.settle(reservation, sends=1, status=200, used=100)

    async def main() -> None:
        await asyncio.gather(*(ask(number) for number in range(200)))

    asyncio.run(main())
    assert len(passed) == 10


# -- tools -----------------------------------------------------------------------------------------------------------


def test_calls_of_tools_are_counted_together_and_all_or_none() -> None:
    limits = limits_of("tools: [x], limits: {tool_calls: 3}")
    limits.answered_calls.take([call(), call()], now=0)
    error = refused(lambda: limits.answered_calls.take([call(), call()], now=0))
    assert isinstance(error, ToolCallsSpent)
    assert error.rules == ("limits/tool_calls",)
    limits.answered_calls.take([call()], now=0)


def test_the_tool_gate_has_room_of_its_own() -> None:
    limits = limits_of("tools: [x], limits: {tool_calls: 1}")
    limits.answered_calls.take([call()], now=0)
    limits.gate_calls.take([call()], now=0)
    assert isinstance(refused(lambda: limits.gate_calls.take([call()], now=0)), ToolCallsSpent)


def test_a_rate_is_of_its_rule_and_a_batch_beyond_it_takes_nothing() -> None:
    limits = limits_of("tools: [{name: x, rate: 2/min}, y]")
    limits.answered_calls.take([call("tools/1")] * 9, now=0)
    assert isinstance(refused(lambda: limits.answered_calls.take([call()] * 3, now=0)), ToolRateReached)
    limits.answered_calls.take([call()] * 2, now=0)
    error = refused(lambda: limits.answered_calls.take([call()], now=SECOND))
    assert (error.code, error.rules, error.retry_after_s) == ("limit_tool_rate", ("tools/0",), 60)
    limits.answered_calls.take([call()], now=61 * SECOND)


def test_a_call_that_fits_several_rules_needs_room_under_one_of_them() -> None:
    limits = limits_of("tools: [{name: x, rate: 1/min}, {name: x, rate: 2/min}, {name: x, approval: true}]")
    for _ in range(3):
        limits.answered_calls.take([call("tools/0", "tools/1")], now=0)
    assert isinstance(
        refused(lambda: limits.answered_calls.take([call("tools/0", "tools/1")], now=0)), ToolRateReached
    )
    limits.answered_calls.take([call("tools/0", "tools/1", "tools/2")], now=0)


def test_of_several_rates_the_one_that_has_room_first_says_when() -> None:
    limits = limits_of("tools: [{name: x, rate: 1/h}, {name: x, rate: 1/min}]")
    for _ in range(2):
        limits.answered_calls.take([call("tools/0", "tools/1")], now=0)
    error = refused(lambda: limits.answered_calls.take([call("tools/0", "tools/1")], now=0))
    assert error.retry_after_s == 61


# -- how long an answer may be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_members", "expected"),
    [
        ({}, ResponseBound(None)),
        ({"max_tokens": 5}, ResponseBound(5)),
        ({"max_completion_tokens": 5, "n": None}, ResponseBound(5)),
        ({"max_completion_tokens": 5, "max_tokens": 9, "n": 3}, ResponseBound(9, 3)),
    ],
)
def test_the_larger_of_two_bounds_counts(request_members: dict[str, object], expected: ResponseBound) -> None:
    assert bound_of(request_members) == expected


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n"])
@pytest.mark.parametrize("value", [0, -1, 1.0, 1e9, "5", True, [5], {}, 2**31])
def test_what_two_readers_could_take_for_two_numbers_is_none(name: str, value: object) -> None:
    bound = bound_of({"max_tokens": 5, name: value})
    assert bound.tokens is None
    assert repr(name) in bound.why


@pytest.mark.parametrize(
    "name",
    [
        "n_predict",
        "N_Predict",
        "max_new_tokens",
        "maxOutputTokens",
        "best_of",
        "n_cmpl",
        "options",
        "extra_body",
    ],
)
def test_another_bound_that_some_server_takes_is_none(name: str) -> None:
    assert bound_of({"max_tokens": 5, name: 5}).tokens is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (Usage(), None),
        (Usage(3, None), None),
        (Usage(None, 3, 9), None),
        (Usage(0, 0, 0), None),
        (Usage(0, 3, 3), None),
        (Usage(3, 0), 3),
        (Usage(3, 2), 5),
        (Usage(3, 2, 5), 5),
        (Usage(3, 2, 9), 9),
        (Usage(3, 2, 1), 5),
        (Usage(3, 2, 5, beside_choices=True), 5),
    ],
)
def test_the_tokens_of_an_answer_are_what_is_most_of_what_is_stated(usage: Usage, tokens: int | None) -> None:
    assert usage.tokens(answers=1) == tokens


def test_what_is_stated_beside_one_of_several_answers_says_nothing_of_the_others() -> None:
    assert Usage(3, 2, 5, beside_choices=True).tokens(answers=2) is None
    assert Usage(3, 2, 5).tokens(answers=2) == 5


# -- narrowed ----------------------------------------------------------------------------------------------------------


def narrowed(limits: SessionLimits, sections: str) -> SessionLimits:
    profile = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev")
    return limits.restricted(profile.compiled)


def test_what_was_spent_before_a_narrowing_stays_spent() -> None:
    limits = limits_of("limits: {requests: 10, tokens: 1000}")
    for _ in range(4):
        limits.settle(reserve(limits), sends=1, status=200, used=50)
    tighter = narrowed(limits, "limits: {requests: 5, tokens: 400}")
    assert isinstance(refused(lambda: reserve(tighter, size=191)), TokensSpent)
    reserve(tighter, size=190)
    assert isinstance(refused(lambda: reserve(tighter)), ModelRequestsSpent)


def test_a_limit_that_comes_with_a_narrowing_holds_for_what_was_before_it() -> None:
    limits = limits_of("tools: [t]")
    for second in range(3):
        limits.settle(reserve(limits, now=second * SECOND), sends=1, status=200, used=100)
        limits.answered_calls.take([call()], now=second * SECOND)
    tighter = narrowed(limits, "tools: [t], limits: {requests: 4/min, tokens: 400, tool_calls: 3}")
    now = 3 * SECOND
    assert isinstance(refused(lambda: reserve(tighter, size=91, now=now)), TokensSpent)
    assert isinstance(refused(lambda: tighter.answered_calls.take([call()], now=now)), ToolCallsSpent)
    tighter.gate_calls.take([call()] * 3, now=now)  # counted apart, as before
    reserve(tighter, size=80, now=now)
    assert isinstance(refused(lambda: reserve(tighter, size=0, now=now)), ModelRequestsSpent)
    assert narrowed(tighter, "tools: [t], limits: {requests: 4/min}")._requests.wait(1, now=now) != 0


@pytest.mark.parametrize(
    "tools", ["[{name: t, rate: 2/min}]", "[{name: t, rate: 2/min, args: {a: {one_of: [x]}}}]"]
)
def test_a_tools_rate_goes_on_under_another_rule_for_it(tools: str) -> None:
    limits = limits_of("tools: [{name: t, rate: 2/min}, {name: other, rate: 2/min}]")
    limits.gate_calls.take([call("tools/1"), call("tools/1")], now=0)  # sorted by name: tools/0 is the other
    tighter = narrowed(limits, f"tools: {tools}")
    assert isinstance(
        refused(lambda: tighter.gate_calls.take([call("tools/0")], now=SECOND)), ToolRateReached
    )
    tighter.gate_calls.take([call("tools/0")], now=62 * SECOND)


def test_what_was_called_once_counts_once_however_often_the_profile_is_narrowed() -> None:
    """Rules of one tool, each another one after every narrowing: they take over its calls, not each other's."""

    def tools(most: int) -> str:
        rules = (f"{{name: t, rate: 9/h, args: {{{a}: {{max: {most}}}}}}}" for a in "ab")
        return f"tools: [{', '.join(rules)}]"

    limits = limits_of(tools(30))
    limits.gate_calls.take([call("tools/0")], now=0)
    for most in range(29, 20, -1):
        limits = narrowed(limits, tools(most))
    limits.gate_calls.take([call("tools/0")] * 4, now=0)
    refused(lambda limits=limits: limits.gate_calls.take([call("tools/1")] * 9, now=0))  # counts nowhere
    limits = narrowed(limits, tools(20))
    limits.gate_calls.take([call("tools/1")] * 4, now=0)  # five were made
    assert isinstance(refused(lambda: limits.gate_calls.take([call("tools/1")], now=0)), ToolRateReached)


def test_rules_that_differ_in_their_rate_alone_take_over_each_call_once() -> None:
    def tools(most: int) -> str:
        return f"tools: [{{name: t, rate: 9/h}}, {{name: t, rate: {most}/day}}]"

    limits = limits_of(tools(300))
    limits.gate_calls.take([call("tools/0", "tools/1")], now=0)
    for most in range(299, 290, -1):
        limits = narrowed(limits, tools(most))
    limits.gate_calls.take([call("tools/0", "tools/1")] * 8, now=0)
    by_day = next(
        meter
        for rule, meter in limits.gate_calls._rates.items()
        if limits.gate_calls._rated[rule][0].most > 9
    )
    assert by_day.wait(291 - 9, now=0) == 0, "it takes over the first call alone, or has let all nine through"
