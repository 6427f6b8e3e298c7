"""The ``args`` of a tool in the normal form: arranged, written, and read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affiant.attestation.encoding.canonical import canonical
from affiant.policy.canonical.errors import NormalFormRefused
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
    Scalar,
    Text,
    Under,
)

__all__ = ["argument_members", "arranged_argument", "constraint_members", "read_argument_members"]


def arranged_argument(argument: Argument) -> Argument:
    """``argument`` with its lists sorted by their RFC 8785 bytes, and without repetitions."""
    arranged = _arranged(argument.constraint)
    if arranged is argument.constraint:
        return argument
    return Argument(argument.name, arranged, argument.optional)


def _arranged(constraint: Constraint) -> Constraint:
    match constraint:
        case OneOf(values):
            return OneOf(tuple({canonical(value): value for value in sorted(values, key=canonical)}.values()))
        case Argv(lists):
            return Argv(tuple(sorted(set(lists), key=canonical)))
        case Each(item, most):
            inner = _arranged(item)
            assert not isinstance(inner, (AnyValue, Argv, Each))
            return Each(inner, most)
        case _:
            return constraint


def argument_members(arguments: Sequence[Argument]) -> Mapping[str, object]:
    """``args`` of the normal form."""
    return {
        argument.name: {"is": constraint_members(argument.constraint), "optional": argument.optional}
        for argument in arguments
    }


def constraint_members(constraint: Constraint) -> Mapping[str, object]:
    """What one argument may be, as the normal form says it."""
    match constraint:
        case AnyValue():
            return {"any": True}
        case OneOf(values):
            return {"one_of": values}
        case Number(least, most):
            return {"min": least, "max": most}
        case Text(most):
            return {"max_len": most}
        case Pattern(pattern, longest):
            return {"pattern": pattern, "max_len": longest}
        case Under(path, write):
            return {"under": path, "write": write}
        case Host(pattern):
            return {"host": pattern}
        case Argv(lists):
            return {"argv": lists}
        case Each(item, most):
            return {"each": constraint_members(item), "max_items": most}


def read_argument_members(value: object) -> tuple[Argument, ...]:
    """The arguments that ``args`` of a normal form says; what they are is judged by their own constructors.

    Raises:
        NormalFormRefused: of another form.
    """
    members = _object(value)
    found = []
    for name, each in members.items():
        entry = _object(each, {"is", "optional"})
        if type(entry["optional"]) is not bool:
            raise NormalFormRefused("'optional' has another type")
        found.append(Argument(name, _read(entry["is"]), entry["optional"]))
    return tuple(found)


def _read(value: object) -> Constraint:
    members = _object(value)
    match members:
        case {"any": True, **rest} if not rest:
            return AnyValue()
        case {"one_of": list(values), **rest} if not rest and all(
            isinstance(each, Scalar) for each in values
        ):
            return OneOf(tuple(values))
        case {"max": int() | None as most, "min": int() | None as least, **rest} if not rest:
            return Number(_not_bool(least), _not_bool(most))
        case {"max_len": int(most), **rest} if not rest:
            return Text(_exactly(most))
        case {"max_len": int() | None as longest, "pattern": str(pattern), **rest} if not rest:
            return Pattern(pattern, _not_bool(longest))
        case {"under": str(path), "write": bool(write), **rest} if not rest:
            return Under(path, write)
        case {"host": str(pattern), **rest} if not rest:
            return Host(pattern)
        case {"argv": list(lists), **rest} if not rest and all(map(_is_tokens, lists)):
            return Argv(tuple(tuple(tokens) for tokens in lists))
        case {"each": dict(item), "max_items": int(most), **rest} if not rest:
            inner = _read(item)
            if isinstance(inner, (AnyValue, Argv, Each)):
                raise NormalFormRefused("'each' of what is no single value")
            return Each(inner, _exactly(most))
    raise NormalFormRefused("not a constraint of an argument")


def _not_bool(value: int | None) -> int | None:
    return None if value is None else _exactly(value)


def _exactly(value: int) -> int:
    if isinstance(value, bool):
        raise NormalFormRefused("a truth value where a number stands")
    return value


def _is_tokens(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(token, str) for token in value)


def _object(value: object, names: set[str] | None = None) -> Mapping[str, object]:
    if not isinstance(value, dict) or (names is not None and set(value) != names):
        raise NormalFormRefused("not an object of a constraint")
    return value
