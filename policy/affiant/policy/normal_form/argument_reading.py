"""Reads the ``args`` of a tool from YAML nodes, as a person writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from affiant.policy.canonical.errors import WrongType, located
from affiant.policy.canonical.hosts import host_pattern
from affiant.policy.canonical.strict_yaml import ListNode, MapNode, Mark, Node, ScalarNode
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
    patterns_in,
)
from affiant.policy.model.pattern_syntax import read_pattern
from affiant.policy.normal_form import schema

__all__ = [
    "json_text",
    "pattern_places",
    "read_arguments",
]

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\Z")
_KINDS: Final = ("one_of", "const", "min", "max", "max_len", "pattern", "under", "host", "each", "argv")
_ALONE: Final = "exactly one of one_of, const, min and max, pattern and max_len, under, host, each, argv"


def read_arguments(node: Node) -> tuple[Argument, ...]:
    """``args``: a mapping of names to constraints; an empty one means that there may be no argument.

    Raises:
        WrongType, ValueRefused, ``policy.unknown_key``, ...: each with its place.
    """
    if not isinstance(node, MapNode):
        raise WrongType("wrong type", expected="a mapping of arguments for 'args'", where=str(node.mark))
    found = []
    for member in node.members:
        with located(member.key.mark):
            found.append(_argument(member.key.text, member.value))
    return tuple(found)


def pattern_places(node: Node, arguments: Sequence[Argument]) -> Iterator[tuple[Pattern, Mark]]:
    """Every pattern of the ``arguments`` that were read from the tool ``node``, with the place of its text."""
    written = _member(node, "args")
    members = written.members if isinstance(written, MapNode) else ()
    for member, argument in zip(members, arguments, strict=True):
        for pattern in patterns_in((argument,)):
            inner = _member(member.value, "each")
            text = _member(member.value if inner is None else inner, "pattern")
            yield pattern, member.value.mark if text is None else text.mark


def _member(node: Node, key: str) -> Node | None:
    members = node.members if isinstance(node, MapNode) else ()
    return next((member.value for member in members if member.key.text == key), None)


def _argument(name: str, node: Node) -> Argument:
    if isinstance(node, ScalarNode):
        schema.one_of(node, ("any",), what="an argument")
        return Argument(name, AnyValue())
    found = schema.keys(node, what="an argument")
    optional = "optional" in found and schema.boolean(found["optional"], what="'optional'")
    left = {key: value for key, value in found.items() if key != "optional"}
    return Argument(name, _constraint(left, node), optional) if left else Argument(name, AnyValue(), optional)


def _constraint(found: Mapping[str, Node], node: Node, *, inner: bool = False) -> Constraint:
    kinds = {"number" if key in ("min", "max") else key for key in found if key in _KINDS}
    if "pattern" in kinds:
        kinds.discard("max_len")
    if len(kinds) != 1 or (inner and kinds & {"each", "argv"}):
        raise WrongType("not one constraint", expected=_ALONE, where=str(_second_kind(found, node)))
    kind = kinds.pop()
    for word, of in (("write", "under"), ("max_items", "each")):
        if word in found and kind != of:
            raise WrongType(f"{word!r} belongs to {of!r}", where=str(schema.key_mark(node, word)))
    return _READERS[kind](found)


def _second_kind(found: Mapping[str, Node], node: Node) -> Mark:
    """Where another constraint begins than the first; where the mapping does if it has none."""
    kinds = [key for key in found if key in _KINDS]
    same = {"min": ("max",), "max": ("min",)}.get(kinds[0], ()) if kinds else ()
    others = [key for key in kinds[1:] if key not in same]
    return schema.key_mark(node, others[0]) if others else node.mark


def _one_of(found: Mapping[str, Node]) -> OneOf:
    values = tuple(map(_value_of_one, schema.items(found["one_of"], what="'one_of'")))
    with located(found["one_of"].mark):
        return OneOf(values)


def _const(found: Mapping[str, Node]) -> OneOf:
    return OneOf((_value_of_one(found["const"]),))


def _value_of_one(node: Node) -> Scalar:
    value = _scalar(node)
    with located(node.mark):
        OneOf((value,))
    return value


def _scalar(node: Node) -> Scalar:
    """A value as YAML shows it: unquoted ``true``, ``false`` and integers are no text."""
    if isinstance(node, ScalarNode) and node.plain:
        if node.text in ("true", "false"):
            return node.text == "true"
        if _INTEGER.match(node.text) is not None:
            return int(node.text)
    return schema.text(node, what="a value")


def json_text(node: Node) -> str:
    """A value of YAML as JSON: what a test writes as the arguments of a call."""
    return json.dumps(_value(node), ensure_ascii=False, sort_keys=True)


def _value(node: Node) -> object:
    if isinstance(node, MapNode):
        return {member.key.text: _value(member.value) for member in node.members}
    if isinstance(node, ListNode):
        return [_value(item) for item in node.items]
    return None if node.plain and node.text == "null" else _scalar(node)


def _number(found: Mapping[str, Node]) -> Number:
    least, most = (_integer(found[key], key) if key in found else None for key in ("min", "max"))
    with located(found["max" if "max" in found else "min"].mark):
        return Number(least, most)


def _integer(node: Node, what: str) -> int:
    if not (isinstance(node, ScalarNode) and node.plain and _INTEGER.match(node.text)):
        raise WrongType("wrong type", expected=f"an integer for {what!r}", where=str(node.mark))
    value = int(node.text)
    with located(node.mark):
        Number(value)
    return value


def _max_len(found: Mapping[str, Node]) -> Text:
    most = schema.whole_number(found["max_len"], what="'max_len'")
    with located(found["max_len"].mark):
        return Text(most)


def _pattern(found: Mapping[str, Node]) -> Pattern:
    text, most = schema.text(found["pattern"], what="'pattern'"), None
    if "max_len" in found:
        most = _max_len(found).most
        schema.checked(found["pattern"], read_pattern, what="'pattern'")
    with located(found.get("max_len", found["pattern"]).mark):
        return Pattern(text, most)


def _under(found: Mapping[str, Node]) -> Under:
    write = "write" in found and schema.boolean(found["write"], what="'write'")
    with located(found["under"].mark):
        return Under(schema.text(found["under"], what="'under'"), write)


def _host(found: Mapping[str, Node]) -> Host:
    with located(found["host"].mark):
        return Host(host_pattern(schema.text(found["host"], what="'host'"), single_label=True))


def _argv(found: Mapping[str, Node]) -> Argv:
    lists = schema.items(found["argv"], what="'argv'")
    for each in lists:
        if not isinstance(each, ListNode):
            raise WrongType(
                "not lists of tokens", expected="such as [[git, status], [ls, -l]]", where=str(each.mark)
            )
    tokens = tuple(map(_tokens, lists))
    with located(found["argv"].mark):
        return Argv(tokens)


def _tokens(node: Node) -> tuple[str, ...]:
    tokens = schema.checked_texts(node, lambda token: Argv(((token,),)), what="a list of 'argv'")
    with located(node.mark):
        Argv((tokens,))
    return tokens


def _each(found: Mapping[str, Node]) -> Each:
    node = found["each"]
    inner = _constraint(schema.keys(node, what="'each'"), node, inner=True)
    assert not isinstance(inner, (AnyValue, Argv, Each))
    most = schema.whole_number(found["max_items"], what="'max_items'") if "max_items" in found else 64
    with located(found.get("max_items", node).mark):
        return Each(inner, most)


_READERS: Final[Mapping[str, Callable[[Mapping[str, Node]], Constraint]]] = {
    "one_of": _one_of,
    "const": _const,
    "number": _number,
    "max_len": _max_len,
    "pattern": _pattern,
    "under": _under,
    "host": _host,
    "each": _each,
    "argv": _argv,
}
