"""Builds the finite set of lists that argument rules can distinguish, for rules on whole lists and on single values.

A rule of the first kind knows some lists, token by token; one of the second looks at each value alone, and at how many
there are. Take any list that two policies answer differently, and that no rule knows. At some value it leaves what the
known lists begin with, or it is such a beginning itself. Whatever follows can be left out, but for one value for each
rule that must not fit, by which it does not (at most two: more rules of one policy for lists are not listed at all), or
for as many copies of one value as make it too long for such a rule. What is left is one of the lists here, and is
answered alike: it has no value that the first list did not have, and no rule knows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from affiant.policy.model.arguments import Argv, Each, Host, Under, is_allowed

__all__ = ["MAX_LISTS_TRIED", "judged_lists"]

MAX_LISTS_TRIED: Final = 20_000


def judged_lists(
    whole: Sequence[Argv], each: Sequence[Each], values: Sequence[object]
) -> list[list[object]] | None:
    """Lists of which one stands for every list; None where they are too many to try.

    Args:
        whole: rules that know lists; these are not among the answer.
        each: rules that judge value by value, at most two of one policy.
        values: one for every value that ``each`` can tell apart, and every token of ``whole``.
    """
    known = {tokens for argv in whole for tokens in argv.lists}
    begins = sorted({tokens[:at] for tokens in known for at in range(len(tokens) + 1)})
    sizes = sorted({rule.most + more for rule in each for more in (0, 1)})
    placed = any(isinstance(rule.item, (Under, Host)) for rule in each)
    fits = {_name(value): tuple(is_allowed(rule.item, value) for rule in each) for value in values}
    tokens = {_name(token) for begin in known for token in begin}
    alike = {name if placed or name in tokens else found: name for name, found in fits.items()}
    lists = _lists([[*map(_name, begin)] for begin in begins], [*alike.values()], sizes)
    apart: dict[object, list[object]] = {}
    for tried, found in enumerate(lists):
        if tried == MAX_LISTS_TRIED:
            return None
        elements = frozenset(found)
        fitting = tuple(
            len(found) <= rule.most and all(fits[name][at] for name in elements)
            for at, rule in enumerate(each)
        )
        made: list[object] = [json.loads(name) for name in found]
        if tuple(made) not in known:
            apart.setdefault((fitting, elements if placed else None), made)
    return list(apart.values())


def _name(value: object) -> str:
    """A value by its type too: 1 is not true."""
    return json.dumps(value, sort_keys=True)


def _lists(
    begins: Sequence[Sequence[str]], values: Sequence[str], sizes: Sequence[int]
) -> Iterator[list[str]]:
    """Each of ``begins``; with one value behind it; with one more, or as many as make a size; with two more."""
    for begin in begins:
        yield [*begin]
        for value in values:
            left = [*begin, value]
            yield left
            for other in values:
                yield [*left, other]
                yield from ([*left, *[other] * (size - len(left))] for size in sizes if size > len(left) + 1)
            yield from ([*left, *pair] for pair in combinations(values, 2))
