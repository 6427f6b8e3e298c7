"""Writes constraints on the arguments of a tool as Cedar conditions; None where Cedar cannot express one.

An argument is a record that the caller fills by its type: ``text`` and its ``length`` in code points, ``path`` beside
them where the text is a canonical path, ``integer``, ``truth``; nothing for any other type. Lists, hosts and patterns
are not said: Cedar has no order in its sets, the rules for hosts would have to be asked in the middle of a condition,
and its ``like`` knows no classes and no counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from affiant.policy.exports.cedar_text import all_of, any_of, cedar_set, cedar_string
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

__all__ = ["ARGUMENT_TYPE", "argument_conditions", "sayable"]

ARGUMENT_TYPE = '{ "text"?: String, "length"?: Long, "path"?: String, "integer"?: Long, "truth"?: Bool }'
"""The record of one argument in the schema."""

MayUse = Callable[[str, bool], str]
"""The condition under which the path that an expression stands for may be read, or written."""


def sayable(constraint: Constraint) -> bool:
    """Whether Cedar can say it."""
    return not isinstance(constraint, (Argv, Each, Host, Pattern))


def argument_conditions(
    arguments: Sequence[Argument], covers: Callable[[str, str], str], may_use: MayUse
) -> list[str]:
    """What all must hold; of constraints that Cedar cannot say, that the argument is there.

    Args:
        covers: the condition under which the path of an expression is another path or below it.
        may_use: what the rules for files say of it.
    """
    names = cedar_set(sorted(argument.name for argument in arguments))
    conditions = [f"{names}.containsAll(context.names)" if arguments else "context.names.isEmpty()"]
    for argument in arguments:
        name = cedar_string(argument.name)
        value = _value(argument.constraint, f"context.args[{name}]", covers, may_use)
        absent = "true" if argument.optional else "false"
        conditions.append(f"if context.args has {name} then {value} else {absent}")
    return conditions


def _value(constraint: Constraint, at: str, covers: Callable[[str, str], str], may_use: MayUse) -> str:
    match constraint:
        case AnyValue() | Argv() | Each() | Host() | Pattern():
            return "true"
        case OneOf():
            return _one_of(constraint, at)
        case Number(least, most):
            bounds = [f"{at}.integer >= {least}"] if least is not None else []
            bounds += [f"{at}.integer <= {most}"] if most is not None else []
            return all_of([f"{at} has integer", *bounds])
        case Text(most):
            return all_of([f"{at} has length", f"{at}.length <= {most}"])
        case Under(path, write):
            place = f"{at}.path"
            return all_of([f"{at} has path", covers(place, path), may_use(place, write)])
        case _:
            assert_never(constraint)


def _one_of(constraint: OneOf, at: str) -> str:
    texts = sorted(value for value in constraint.values if isinstance(value, str))
    numbers = sorted(value for value in constraint.values if type(value) is int)
    truths = sorted({str(value).lower() for value in constraint.values if isinstance(value, bool)})
    found = [f"{at} has text && {cedar_set(texts)}.contains({at}.text)"] if texts else []
    found += [f"{at} has integer && {cedar_set(numbers)}.contains({at}.integer)"] if numbers else []
    found += [f"{at} has truth && [{', '.join(truths)}].contains({at}.truth)"] if truths else []
    return any_of(found)
