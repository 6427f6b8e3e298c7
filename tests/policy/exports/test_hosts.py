"""Patterns of hosts compared: held against hosts one by one."""

from __future__ import annotations

from itertools import product

import pytest

from affiant.policy.canonical.hosts import covering_patterns, is_wildcard
from affiant.policy.exports.hosts import covers_all, meet, taken
from affiant.policy.model.profile import EgressDenial, EgressRule

NAMES = ["b.c", "a.b.c", "x.b.c", "a.x.b.c", "q.a.x.b.c", "d.c", "a.d.c"]
PATTERNS = [*NAMES, "*.b.c", "**.b.c", "*.x.b.c", "**.x.b.c", "**.d.c", "*.a.x.b.c"]
HOSTS = [
    *NAMES,
    *(f"n.{name}" for name in NAMES),
    *(f"m.n.{name}" for name in NAMES),
    *(f"l.m.n.{name}" for name in NAMES),
]


def covered(pattern: str) -> set[str]:
    return {host for host in HOSTS if pattern in covering_patterns(host)}


@pytest.mark.parametrize(("one", "other"), list(product(PATTERNS, PATTERNS)))
def test_patterns_meet_where_a_host_matches_both(one: str, other: str) -> None:
    assert meet(one, other) is bool(covered(one) & covered(other))


@pytest.mark.parametrize(("denial", "allow"), list(product(PATTERNS, PATTERNS)))
def test_a_pattern_covers_another_where_it_matches_all_of_its_hosts(denial: str, allow: str) -> None:
    expected = covered(allow) <= covered(denial)
    if is_wildcard(allow) and not is_wildcard(denial):
        expected = False  # of a wildcard there are always more hosts than those here
    assert covers_all(denial, allow) is expected


def test_a_denial_of_a_part_does_not_take_all() -> None:
    allow = EgressRule("a.b.c")
    assert taken(allow, [allow, EgressDenial("*.b.c", methods=("GET",))]) == (False, ("egress/1",))
    assert taken(allow, [allow, EgressDenial("*.b.c")]) == (True, ())
    assert taken(allow, [allow, EgressDenial("*.b.c", port=80)]) == (False, ())
    assert taken(EgressRule("**.b.c"), [EgressDenial("a.b.c")]) == (False, ("egress/0",))
