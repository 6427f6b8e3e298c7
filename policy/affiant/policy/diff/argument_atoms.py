"""Builds the finite set of arguments on which the rules for one tool can differ: the part of ``atoms`` for calls.

A rule looks at each argument alone, so it is enough to combine, for every argument that some rule names, one value for
each set of constraints that a value can satisfy. Where the combinations are too many, or the sets of another kind than
is listed here (hosts of bounded length, or lists that three rules of one policy judge value by value), there is no
answer: the comparison then reports that it could not decide, and never that there is no difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, count, product
from math import prod
from typing import Final

from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.policy.canonical.paths import covers
from affiant.policy.diff.list_atoms import judged_lists
from affiant.policy.diff.pattern_texts import judged_texts
from affiant.policy.model.arguments import (
    AnyValue,
    Argument,
    Argv,
    Constraint,
    Each,
    Host,
    Number,
    OneOf,
    Pattern,
    Text,
    Under,
)

__all__ = ["MAX_CALLS", "calls_of"]

MAX_CALLS: Final = 20_000
_MAX_LISTS: Final = 2
_MAX_SEGMENT: Final = 4096
_ABSENT: Final = object()
_OTHER: Final = "other"
_LETTERS: Final = "xyzabcdefghijklmnopqrstuvwABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TYPES: Final[Sequence[object]] = (None, True, False, 0.5, {}, [], "")
"""One value of each type; integers have boundaries of their own."""


def calls_of(
    rules: Sequence[Sequence[Sequence[Argument] | None]], *, paths: Sequence[str], hosts: Sequence[str]
) -> Iterator[str] | None:
    """Arguments as JSON texts; None where they cannot be listed, or are more than :data:`MAX_CALLS`.

    Args:
        rules: for each policy, of every rule for the tool; None: of one that takes any.
        paths, hosts: that the planes of files and hosts can tell apart.
    """
    named: dict[str, list[Constraint]] = {}
    lists: Counter[tuple[int, str]] = Counter()
    for number, policy in enumerate(rules):
        for argument in (argument for arguments in policy for argument in arguments or ()):
            named.setdefault(argument.name, []).append(argument.constraint)
            lists[number, argument.name] += isinstance(argument.constraint, Each)
    if any(count > _MAX_LISTS for count in lists.values()):
        return None
    values: dict[str, Sequence[object]] = {}
    for name, constraints in named.items():
        found = _values(constraints, paths, hosts, together=max(lists[0, name], lists[1, name]))
        if found is None:
            return None
        values[name] = found
    names = (_OTHER, *(f"{_OTHER}_{number}" for number in range(len(named))))
    values[next(name for name in names if name not in named)] = [_ABSENT, 0]
    return None if prod(map(len, values.values())) > MAX_CALLS else _combined(values)


def _combined(values: Mapping[str, Sequence[object]]) -> Iterator[str]:
    for chosen in product(*values.values()):
        call = {name: value for name, value in zip(values, chosen, strict=True) if value is not _ABSENT}
        yield json.dumps(call, ensure_ascii=False, sort_keys=True)


def _values(
    constraints: Sequence[Constraint], paths: Sequence[str], hosts: Sequence[str], *, together: int
) -> list[object] | None:
    """One value for each set of ``constraints`` that some value satisfies, and one that is absent.

    Args:
        together: rules of one policy that judge lists: of so many values one list must be able to hold.
    """
    if all(isinstance(each, AnyValue) for each in constraints):
        return [_ABSENT, 0]
    singles = [each for each in constraints if not isinstance(each, (AnyValue, Argv, Each))]
    lists = [each for each in constraints if isinstance(each, Each)]
    whole = [each for each in constraints if isinstance(each, Argv)]
    items = [*(each.item for each in lists), *(_tokens(whole) if lists else ())]
    alone, inside = _singles(singles, paths, hosts), _singles(items, paths, hosts)
    if alone is None or inside is None:
        return None
    found: list[object] = [*_TYPES, ["other token"], *alone]
    found += [list(tokens) for each in whole for tokens in each.lists]
    values = [*inside, None, True, 0.5]
    if lists and whole:
        judged = judged_lists(whole, lists, values)
        if judged is None:
            return None
        found += judged
    elif lists:
        sizes = {size for each in lists for size in (1, each.most, each.most + 1)}
        found += [[value] * size for value in values for size in sorted(sizes)]
        if together > 1:
            found += [list(pair) for pair in combinations(values, 2)]
    distinct = {json.dumps(value, sort_keys=True): value for value in found}
    return [_ABSENT, *distinct.values()]


def _tokens(rules: Sequence[Argv]) -> Iterator[OneOf]:
    """Every token that is known somewhere: none of them stands for other texts."""
    yield from (
        OneOf((token,)) for token in sorted({token for rule in rules for one in rule.lists for token in one})
    )


def _is_beyond(constraints: Sequence[Constraint]) -> bool:
    """Whether another constraint looks at the letters of a host or path, or at a host's length: that is not listed."""
    kinds = {type(each) for each in constraints}
    return kinds >= {Host, Text} or (Pattern in kinds and bool(kinds & {Host, Under}))


def _singles(
    constraints: Sequence[Constraint], paths: Sequence[str], hosts: Sequence[str]
) -> list[object] | None:
    if _is_beyond(constraints):
        return None
    letter, segment = _fresh(constraints, paths)
    numbers: set[int] = {0, 1}
    texts: set[str] = {letter}
    bounds = [each.most for each in constraints if isinstance(each, Text)]
    for each in constraints:
        match each:
            case OneOf(values):
                ints = (value for value in values if type(value) is int)
                numbers.update(near for value in ints for near in (value - 1, value, value + 1))
                texts.update(value for value in values if isinstance(value, str))
            case Number(least, most):
                for bound in (least, most):
                    if bound is not None:
                        numbers.update((bound - 1, bound, bound + 1))
            case Text(most):
                texts.update((letter * most, letter * (most + 1)))
            case Under(path, _):
                for place in (path, *(place for place in paths if covers(path, place))):
                    below = f"{place}/{segment}"
                    texts.update((place, below, *_of_lengths(below, bounds)))
            case Host():
                texts.update(hosts)
            case _:
                pass
    fitting = _fitting(constraints, bounds)
    if fitting is None:
        return None
    texts.update(fitting)
    return [*sorted(number for number in numbers if abs(number) <= MAX_INTEGER), *sorted(texts)]


def _fresh(constraints: Sequence[Constraint], paths: Sequence[str]) -> tuple[str, str]:
    """A letter and a segment of a path with which none that is named begins: what is made of them is itself not named.

    No text of a profile holds what cannot be printed.
    """
    named = [value for each in constraints if isinstance(each, OneOf) for value in each.values]
    named += [*paths, *(each.path for each in constraints if isinstance(each, Under))]
    taken = {segment for text in named if isinstance(text, str) for segment in text.split("/")}
    first = {segment[:1] for segment in taken}
    letter = next((each for each in _LETTERS if each not in first), None)
    if letter is not None:
        return letter, letter
    numbered = (f"x{number}-" for number in count(2))
    return "\x7f", next(each for each in numbered if not any(segment.startswith(each) for segment in taken))


def _fitting(constraints: Sequence[Constraint], bounds: Sequence[int]) -> Sequence[str] | None:
    patterns = [each for each in constraints if isinstance(each, Pattern)]
    if not patterns:
        return ()
    literals = [
        value
        for each in constraints
        if isinstance(each, OneOf)
        for value in each.values
        if isinstance(value, str)
    ]
    ends = (each.most for each in patterns if each.most is not None)
    return judged_texts([each.automaton for each in patterns], literals=literals, bounds=[*bounds, *ends])


def _of_lengths(begin: str, bounds: Sequence[int]) -> Iterator[str]:
    """What begins so and is as long as each bound allows, and one longer; none where it is longer anyhow."""
    for bound in bounds:
        for length in (bound, bound + 1):
            if length >= len(begin) and length - len(begin) <= _MAX_SEGMENT:
                yield begin + "x" * (length - len(begin))
