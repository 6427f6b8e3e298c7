"""Differences of limits: raising or removing one widens, lowering or adding one narrows, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.decision.meters import NANOSECONDS, Meter
from affiant.policy.diff.differences import Difference, Direction, compare_profile_sets
from affiant.policy.diff.limit_differences import bounds_direction
from affiant.policy.diff.report import difference_lines
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.limits import WINDOWS, Bound, Bounds, tightest


def compared(old: str, new: str) -> list[Difference]:
    files = [
        load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode(), source=name)
        for sections, name in ((old, "old.yaml"), (new, "new.yaml"))
    ]
    return [found for found in compare_profile_sets(*files) if found.plane == "limit"]


def told(old: str, new: str) -> list[str]:
    return [line.strip() for line in list(difference_lines(compared(old, new)))[1:]]


MANY = ", ".join(f"v{number}" for number in range(250))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "limits: {requests: 60/min}",
            "limits: {requests: 200/min}",
            "+ limits: may now make 200 requests a minute instead of 60  [new.yaml:1:30]",
        ),
        (
            "limits: {requests: 60/min}",
            "limits: {requests: 50/min}",
            "- limits: may now make 50 requests a minute instead of 60  [new.yaml:1:30]",
        ),
        (
            "limits: {requests: 60/min}",
            "",
            "+ limits: may now make any number of requests instead of 60 requests a minute  [old.yaml:1:30]",
        ),
        (
            "",
            "limits: {tokens: 2M/day}",
            "- limits: may now use 2M tokens a day instead of any number of tokens  [new.yaml:1:30]",
        ),
        (
            "limits: {requests: 60/min}",
            "limits: {requests: 1/s}",
            "~ limits: may now make 1 requests a second instead of 60 requests a minute  [new.yaml:1:30]",
        ),
        (
            "limits: {requests: 60/min}",
            "limits: {requests: [60/min, 1000]}",
            (
                "- limits: may now make 60 requests a minute and 1000 requests in a session "
                "instead of 60 requests a minute  [new.yaml:1:30]"
            ),
        ),
        (
            "tools: [{name: x, rate: 1/min}]",
            "tools: [{name: x, rate: 2/min}]",
            "+ tool:x: may now make 2 calls a minute instead of 1  [new.yaml:1:30]",
        ),
        (
            "tools: [{name: x, rate: 1/min}]",
            "tools: [x]",
            "+ tool:x: may now make any number of calls instead of 1 calls a minute  [old.yaml:1:30]",
        ),
        (
            "models: [{name: m, max_tokens: 4096}]",
            "models: [{name: m, max_tokens: 8k}]",
            "+ model:m: may now ask for 8k tokens in one request instead of 4096  [new.yaml:1:31]",
        ),
        (
            "network_egress: [{host: a.b.com, limits: {requests: 60/min}}]",
            "network_egress: [{host: a.b.com, limits: {requests: 200/min}}]",
            "+ https://a.b.com:443: may now make 200 requests a minute instead of 60  [new.yaml:1:40]",
        ),
        (
            "limits: {wall: 2h}",
            "limits: {wall: 3h}",
            "+ limits: may now run for 3h instead of 2h  [new.yaml:1:30]",
        ),
        (
            "limits: {bytes_out: 1MiB/day}",
            "limits: {bytes_out: 512KiB/day}",
            "- limits: may now send 512KiB a day instead of 1MiB  [new.yaml:1:30]",
        ),
        (
            "network_egress: 'allowed:a.b.com', secrets_access: [{name: A, max_uses: 3}]",
            "network_egress: 'allowed:a.b.com', secrets_access: [A]",
            "+ secret:A: may now use it in any number of requests instead of 3 requests in a session  [old.yaml:1:74]",
        ),
    ],
)
def test_each_is_told_in_one_line(old: str, new: str, expected: str) -> None:
    lines = told(old, new)
    assert len(lines) == 1
    assert lines[0].partition("  [")[0] == expected.partition("  [")[0]
    assert expected.partition("  [")[2].partition(":")[0] in lines[0].partition("  [")[2]


@pytest.mark.parametrize(
    ("old", "new", "directions"),
    [
        # the same tool in two rules instead of one, each with the rate of the one: twice the calls
        (
            "tools: [{name: x, rate: 5/min, args: {a: {one_of: [b, c]}}}]",
            "tools: [{name: x, rate: 5/min, args: {a: b}}, {name: x, rate: 5/min, args: {a: c}}]".replace(
                "a: b", "a: {one_of: [b]}"
            ).replace("a: c", "a: {one_of: [c]}"),
            {Direction.WIDENS, Direction.NARROWS},
        ),
        # a rule for fewer arguments with the same rate gives no more room
        (
            "tools: [{name: x, rate: 5/min, args: {a: {one_of: [b, c]}}}]",
            "tools: [{name: x, rate: 5/min, args: {a: {one_of: [b]}}}]",
            {Direction.NARROWS},
        ),
        # beside a rule without a rate, one with a rate gives no room
        ("tools: [x]", "tools: [x, {name: x, rate: 5/min, args: {a: {one_of: [b]}}}]", set()),
        # a rule without a rate, in the place of one with a rate
        (
            "tools: [{name: x, rate: 5/min, args: {a: any}}]",
            "tools: [{name: x, args: {a: {one_of: [b]}}}, {name: x, rate: 5/min, args: {a: any}}]",
            {Direction.WIDENS},
        ),
        ("tools: [{name: x, rate: 5/min}]", "tools: [{name: x, rate: 5/min}, y]", set()),
        ("models: [{name: m, max_tokens: 9}]", "", {Direction.WIDENS}),
        ("models: [{name: m, max_tokens: 9}]", "models: [{name: m, max_tokens: 9}, n]", set()),
        (
            "models: [{name: m, max_tokens: 9, upstream: attested}]",
            "models: [{name: m, max_tokens: 9}]",
            {Direction.WIDENS},
        ),
        ("limits: {requests: 5/s}", "limits: {requests: [5/s, 9/min]}", {Direction.NARROWS}),
        # the same requests by one rule without a limit instead of two with one
        (
            (
                "network_egress: [{host: a.b.com, methods: [GET], limits: {requests: 5/s}}, "
                "{host: a.b.com, methods: [POST], limits: {requests: 5/s}}]"
            ),
            "network_egress: [{host: a.b.com, methods: [GET, POST]}]",
            {Direction.WIDENS},
        ),
        # a host below the wildcard, with room of its own
        (
            "network_egress: [{host: '*.b.com', limits: {requests: 5/s}}]",
            "network_egress: [{host: '*.b.com', limits: {requests: 5/s}}, {host: a.b.com, limits: {requests: 5/s}}]",
            {Direction.WIDENS},
        ),
        # fewer methods, the same limit
        (
            "network_egress: [{host: a.b.com, methods: [GET, POST], limits: {requests: 5/s}}]",
            "network_egress: [{host: a.b.com, methods: [GET], limits: {requests: 5/s}}]",
            {Direction.NARROWS},
        ),
        ("limits: {requests: 5/s}, tools: [x]", "limits: {requests: 5/s}", set()),
        # fewer arguments, and more of them; what is unlimited elsewhere does not make up for it
        (
            "tools: [{name: x, rate: 5/min, args: {a: {one_of: [b, c]}}}, y]",
            "tools: [{name: x, rate: 50/min, args: {a: {one_of: [b]}}}, y]",
            {Direction.WIDENS, Direction.NARROWS},
        ),
        # calls that can be listed: what had a limit has a looser one
        (
            "tools: [{name: x, rate: 5/min, args: {a: {argv: [[ls]]}}}, {name: x, args: {a: {each: {one_of: [b]}}}}]",
            (
                "tools: [{name: x, rate: 50/min, args: {a: {argv: [[ls], [b]]}}},"
                " {name: x, args: {a: {each: {one_of: [b]}}}}]"
            ),
            {Direction.WIDENS},
        ),
        # calls that are too many to be listed
        (
            f"tools: [{{name: x, rate: 5/min, args: {{a: {{one_of: [{MANY}]}}, b: {{one_of: [{MANY}]}}}}}}]",
            f"tools: [{{name: x, rate: 50/min, args: {{a: {{one_of: [{MANY}]}}, b: {{one_of: [{MANY}, z]}}}}}}]",
            {Direction.WIDENS, Direction.NARROWS},
        ),
        # a passed-through host that a denial of one path denies whole: neither rule lets anything through
        (
            (
                "network_egress: [{host: a.b.c, tls: passthrough}, {deny: '*.b.c', paths: [/]},"
                " {host: z.c, limits: {requests: 5/s}}]"
            ),
            (
                "network_egress: [{host: '*.b.c', tls: passthrough}, {deny: '*.b.c', paths: [/]},"
                " {host: z.c, limits: {requests: 5/s}}]"
            ),
            set(),
        ),
        # one of two rules that differ in their rates alone
        (
            "tools: [{name: x, rate: 5/min}, {name: x, rate: 6/min}]",
            "tools: [{name: x, rate: 6/min}]",
            {Direction.NARROWS},
        ),
        (
            "tools: [{name: x, rate: 5/min}, {name: x, rate: 6/min}]",
            "tools: [{name: x, rate: 7/min}]",
            {Direction.WIDENS, Direction.NARROWS},
        ),
    ],
)
def test_rules_that_stand_in_one_file_only(old: str, new: str, directions: set[Direction]) -> None:
    assert {found.direction for found in compared(old, new)} == directions


_bounds = st.lists(st.builds(Bound, st.integers(1, 4), st.none() | st.sampled_from([1, 60])), max_size=3).map(
    tightest
)
_steps = st.lists(st.tuples(st.integers(0, 20 * NANOSECONDS), st.integers(1, 3)), max_size=25)


@thorough(150)
@given(_bounds, _bounds, _steps)
def test_what_is_called_narrower_never_lets_through_what_the_other_does_not(
    old: Bounds, new: Bounds, steps: list[tuple[int, int]]
) -> None:
    if old == new or bounds_direction(old, new) >= 0:
        return
    before, after, now = Meter(old), Meter(new), 0
    for step, amount in steps:
        now += step
        if after.take(amount, now=now) is not None:
            # the looser meter, charged with the same uses, must have had room for each
            assert before.wait(amount, now=now) == 0 or _of_slots(old, new)
            before.charge(amount, now=now)


def _of_slots(old: Bounds, new: Bounds) -> bool:
    """Windows differ in where their slots begin: compared exactly where the windows are the same."""
    return {bound.per for bound in old} != {bound.per for bound in new}


def test_the_direction_of_a_change_is_that_of_its_reversal_turned_round() -> None:
    for per in WINDOWS.values():
        assert bounds_direction((Bound(1, per),), (Bound(2, per),)) == 1
        assert bounds_direction((Bound(2, per),), (Bound(1, per),)) == -1
        assert bounds_direction((), (Bound(2, per),)) == -1
        assert bounds_direction((Bound(2, per),), ()) == 1


def test_a_tool_that_is_new_is_told_as_a_request_and_not_as_a_limit_too():
    """Also where its calls are too many to be listed, and another tool has a rate."""
    new = f"{{name: b, args: {{p: {{one_of: [{MANY}]}}, q: {{one_of: [{MANY}]}}}}}}"
    old, wider = "tools: [{name: a, rate: 5/s}]", f"tools: [{{name: a, rate: 5/s}}, {new}]"
    assert compared(old, wider) == compared(wider, old) == []
