"""Two rules for one argument are compared exactly: held against every value of a small world, in both directions."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.differences import Direction, compare_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.arguments import (
    Argument,
    Argv,
    Constraint,
    Each,
    Host,
    Number,
    OneOf,
    Pattern,
    Single,
    Text,
    Under,
)
from affiant.policy.model.profile import EgressRule, PathGrant, PathMode, Policy, ToolRule

TEXTS = ["".join(text) for length in range(4) for text in product("abx", repeat=length)]
PATHS = ["/w", "/w/x", "/w/a", "/w/x/x", "/w/x/a", "/w/b/x"]
HOSTS = ["x.b.c", "a.b.c", "x.x.b.c", "a.a.b.c", "b.c"]
NUMBERS = list(range(-4, 9))
SCALARS: list[object] = [*TEXTS, *PATHS, *HOSTS, *NUMBERS, True, None, 0.5]
FEW = ["", "a", "b", "x", 1, 2]
LISTS = [list(items) for length in range(4) for items in product(FEW, repeat=length)]
RANK = {Effect.DENY: 0, Effect.ASK: 1, Effect.ALLOW: 2}


def policy_of(*constraints: Constraint, ask: int | None = None) -> Policy:
    """One tool, with a rule for each of ``constraints`` on its argument ``q``."""
    return Policy(
        tools=tuple(
            ToolRule("t", number == ask, (Argument("q", each),)) for number, each in enumerate(constraints)
        ),
        filesystem=(PathGrant("/w", PathMode.READ),),
        egress=(EgressRule("b.c"), EgressRule("**.b.c")),
    )


def profile_of(policy: Policy) -> Profile:
    made = compile_policy(policy)
    mark = Mark("p.yaml", 1, 1)
    sections = {
        "tools": made.policy.tools,
        "filesystem": made.policy.filesystem,
        "egress": made.policy.egress,
    }
    places = {f"{name}/{at}": mark for name, rules in sections.items() for at in range(len(rules))}
    return Profile("dev", made, mark, places)


def found(old: Policy, new: Policy) -> set[Direction]:
    """The directions in which two policies differ."""
    return {each.direction for each in compare_profiles("dev", profile_of(old), profile_of(new))}


def seen(old: Policy, new: Policy) -> set[Direction]:
    """The same, by asking for everything in the small world."""
    before, after = (compile_policy(each, asks=True) for each in (old, new))
    kinds = {type(argument.constraint) for each in (old, new) for argument in _arguments(each)}
    values = (*SCALARS, *(LISTS if kinds & {Each, Argv} else ()))
    steps = {_rank(after, value) - _rank(before, value) for value in values}
    return {Direction.WIDENS if step > 0 else Direction.NARROWS for step in steps if step}


def _arguments(policy: Policy) -> Iterator[Argument]:
    for rule in policy.tools:
        assert isinstance(rule, ToolRule)
        yield from rule.arguments or ()


def _rank(policy: CompiledPolicy, value: object) -> int:
    return RANK[policy.decide_call("t", json.dumps({"q": value})).effect]


def some_single(source: random.Random) -> Single:
    match source.randrange(6):
        case 0:
            return OneOf(tuple(source.sample([*TEXTS[1:], *NUMBERS], k=source.randrange(1, 40))))
        case 1:
            least, most = sorted(source.choices(NUMBERS, k=2))
            return Number(*source.choice([(least, most), (least, None), (None, most)]))
        case 2:
            return Text(source.randrange(1, 4))
        case 3:
            return Pattern(source.choice(["[abx]{1,3}", "a(a|b)?", "x*", "[abx]b?", "x{2}|a"]), 3)
        case 4:
            return source.choice([Under("/w"), Under("/w/x"), OneOf(tuple(source.sample(PATHS, k=3)))])
        case _:
            return source.choice([Host("*.b.c"), Host("**.b.c"), OneOf(tuple(source.sample(HOSTS, k=3)))])


def some_constraint(source: random.Random) -> Constraint:
    match source.randrange(8):
        case 0:
            items = [OneOf(tuple(source.sample(["a", "b", "x", 1, 2], k=2))), Text(1), Number(0, 1)]
            return Each(source.choice(items), source.randrange(1, 4))
        case 1:
            return Argv(tuple(tuple(source.choices("abx", k=source.randrange(1, 3))) for _ in range(3)))
        case _:
            return some_single(source)


def test_no_difference_is_missed_in_either_direction() -> None:
    source = random.Random(11)
    for _ in range(200):
        pair = [
            policy_of(
                *(some_constraint(source) for _ in range(source.randrange(1, 3))),
                ask=source.choice([None, None, 0]),
            )
            for _ in range(2)
        ]
        told = found(*pair)
        if Direction.CHANGES not in told:  # else it says that it could not compare them
            assert seen(*pair) <= told, pair


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OneOf((1, 2, 4, 5)), Number(1, 5)),
        (OneOf((1, 2)), Number(1)),
        (OneOf((-1, 0, 1)), Number(None, 1)),
        (OneOf(("", "x", "xx", "xxx")), Text(3)),
        (OneOf(("/w", "/w/x")), Under("/w")),
        (OneOf(("x.b.c",)), Host("*.b.c")),
        (Each(OneOf((1, 2)), 3), Each(Number(1), 3)),
    ],
)
def test_a_bound_in_place_of_all_the_values_beside_it_is_wider(old: Constraint, new: Constraint) -> None:
    assert Direction.WIDENS in found(policy_of(old), policy_of(new))
    assert Direction.NARROWS in found(policy_of(new), policy_of(old))


def test_lists_that_are_judged_whole_and_value_by_value_are_compared() -> None:
    """Only ["b", "a"] is not known: of all lists of two, all others are."""
    old = policy_of(Each(OneOf(("a",)), 2), Argv((("b",), ("b", "b"), ("a", "b"))))
    assert found(old, policy_of(Each(OneOf(("a", "b")), 2))) == {Direction.WIDENS}
    last = policy_of(Each(OneOf(("a",)), 2), Argv((("b",), ("b", "b"), ("a", "b"), ("b", "a"))))
    assert found(last, policy_of(Each(OneOf(("a", "b")), 2))) == set()


KINDS = [("argv", "each"), ("argv", "each", "each"), ("argv", "argv"), ("each",), ("argv", "argv", "each")]


def some_list(source: random.Random, kind: str) -> Constraint:
    if kind == "argv":
        known = {
            tuple(source.choices("abx", k=source.randrange(1, 4))) for _ in range(source.randrange(1, 9))
        }
        return Argv(tuple(sorted(known)))
    some = OneOf(tuple(source.sample(["a", "b", "x", 1, 2], k=source.randrange(1, 4))))
    return Each(source.choice([some, some, Text(1), Text(2), Number(0, 1)]), source.randrange(1, 4))


@pytest.mark.parametrize("pairs", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_no_difference_of_lists_judged_in_both_ways_is_missed_or_made_up(pairs: int) -> None:
    """Of one argument, by up to three rules of each policy; asked of every list of up to four values."""
    source = random.Random(23)
    small = ["", "a", "b", "x", "xx", 0, 1, 2, 0.5]
    lists = [list(each) for length in range(4) for each in product(small, repeat=length)]
    lists += [list(each) for each in product(["a", "b", "x", 1], repeat=4)]
    for _ in range(pairs):
        pair = [
            policy_of(
                *(some_list(source, kind) for kind in source.choice(KINDS)),
                ask=source.choice([None, None, 0, 1]),
            )
            for _ in range(2)
        ]
        before, after = (compile_policy(each, asks=True) for each in pair)
        steps = {_rank(after, value) - _rank(before, value) for value in lists}
        expected = {Direction.WIDENS if step > 0 else Direction.NARROWS for step in steps if step}
        differences = compare_profiles("dev", *map(profile_of, pair))
        assert {each.direction for each in differences if each.plane == "call"} == expected, pair


def test_texts_of_every_letter_hide_no_difference() -> None:
    texts = [*string.ascii_letters, *string.digits, *"_- "]
    named = OneOf(("".join(map(chr, range(0xE9, 0x24F))), *texts))
    assert Direction.WIDENS in found(policy_of(named), policy_of(Text(1)))
    assert Direction.WIDENS in found(policy_of(named, Pattern("a")), policy_of(Text(1)))
    places = OneOf(tuple(f"/w/{text}" for text in texts if text.isalpha()))
    assert Direction.WIDENS in found(policy_of(places, OneOf(("/w",))), policy_of(Under("/w")))


def test_a_long_text_that_fits_nothing_is_still_a_call() -> None:
    old = policy_of(Pattern("[ -~]*", 50_000), Text(40_000))
    assert found(old, policy_of(Text(50_000))) == {Direction.WIDENS}


def test_lists_with_paths_are_compared_as_the_rules_for_files_are() -> None:
    """A known list may hold a path that no rule for files allows: only the rule for each value asks for that."""
    both = (Each(Under("/w"), 2), Argv((("/w/x", "/v"),)))
    assert found(policy_of(*both), policy_of(both[0])) == {Direction.NARROWS}
    assert found(policy_of(both[1]), policy_of(*both)) == {Direction.WIDENS}
    closed = replace(
        policy_of(*both), filesystem=(PathGrant("/w", PathMode.READ), PathGrant("/w/x", PathMode.NONE))
    )
    assert found(policy_of(*both), closed) == {Direction.NARROWS}


def test_lists_that_are_too_many_to_try_are_said_not_to_be_compared() -> None:
    known = Argv(tuple(tuple(f"t{number}{place}" for place in range(4)) for number in range(40)))
    assert found(policy_of(known, Each(Text(3), 9)), policy_of(known)) == {Direction.CHANGES}
