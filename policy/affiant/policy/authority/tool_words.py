"""Describes tools and the constraints on their arguments to a reviewer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, assert_never

from affiant.policy.authority.tools import ToolAuthority
from affiant.policy.authority.words import path_words
from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.limit_words import most_words
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
from affiant.policy.rendering.terminal import middle_cut, some

__all__ = ["call_words", "rate_words"]

_LITERAL: Final = 80
"""Characters of one value; the JSON document has all."""


def rate_words(tool: ToolAuthority) -> str:
    """How often a tool may be called by its rule; nothing where that is any number of times."""
    return f", {most_words('rate', tool.rate)}" if tool.rate else ""


def call_words(tool: ToolAuthority) -> str:
    """Where a tool comes from and what it may be called with; nothing where that is anything."""
    origin = _origin(tool.origin)
    if tool.arguments is None:
        return origin
    return f"{origin} with " + ("; ".join(map(_argument, tool.arguments)) or "no arguments")


def _origin(origin: Origin) -> str:
    """Where a tool must come from; of its definition's digest enough to tell two apart."""
    server = "" if origin.server in (None, ANY) else f" of server {origin.server}"
    return server if origin.schema in (None, ANY) else f"{server} as {origin.schema[:19]}…"


def _argument(argument: Argument) -> str:
    optional = " (optional)" if argument.optional else ""
    return f"{argument.name}{optional}: {_constraint(argument.constraint)}"


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case AnyValue():
            return "anything"
        case OneOf(values):
            return ("one of " if len(values) > 1 else "") + some([_json(value) for value in values])
        case Number(least, most):
            bounds = (
                f"at least {least}" if least is not None else "",
                f"at most {most}" if most is not None else "",
            )
            return " and ".join(filter(None, bounds))
        case Text(most):
            return f"text of at most {most} characters"
        case Pattern(pattern, longest):
            bound = "" if longest is None else f", of at most {longest} characters"
            return f"text that wholly fits {_json(pattern)}{bound}"
        case Under(path, write):
            return f"{path_words(path)} or below, which may be {'written' if write else 'read'}"
        case Host(pattern):
            return f"a host {pattern} that may be reached"
        case Argv(lists):
            return f"exactly {some([_json(list(tokens)) for tokens in lists])}"
        case Each(item, most):
            return f"a list of at most {most}, each {_constraint(item)}"
        case _:
            assert_never(constraint)


def _json(value: str | int | Sequence[str]) -> str:
    return middle_cut(json.dumps(value, ensure_ascii=False), most=_LITERAL)
