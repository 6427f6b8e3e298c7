"""Reads YAML nodes by type: each function returns the expected value, or raises an error with the place.

A key is known, known but not enforced by this version, or unknown; none is ever ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from affiant.errors import ConfigurationError, MalformedError
from affiant.policy.canonical.errors import (
    EmptyList,
    PolicyConflict,
    ValueRefused,
    WrongType,
    did_you_mean,
    excerpt,
    located,
)
from affiant.policy.canonical.request_names import looks_like_a_value
from affiant.policy.canonical.strict_yaml import ListNode, MapNode, Mark, Node, ScalarNode
from affiant.policy.normal_form.format_keys import KEYS

__all__ = [
    "SIZE",
    "at_member",
    "boolean",
    "checked",
    "checked_texts",
    "items",
    "key_mark",
    "keys",
    "maybe",
    "one_of",
    "required",
    "size",
    "text",
    "texts",
    "whole_number",
]

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}\Z")
"""What a key could have been; in anything else a value may have been pasted."""
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,14})\Z")
SIZE: Final = re.compile(r"([1-9][0-9]{0,8})(KiB|MiB|GiB|TiB)\Z")
_UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_T = TypeVar("_T")
_KINDS: Final = {ScalarNode: "a value", ListNode: "a list", MapNode: "a mapping"}


def keys(
    node: Node, *, what: str, known: Collection[str] | None = None, later: Collection[str] = ()
) -> Mapping[str, Node]:
    """The members of a mapping, by key.

    Args:
        what: the mapping's name in an error message.
        known: every key that may be there; None: those that :data:`KEYS` lists for ``what``.
        later: keys of the format that nothing enforces in this version.

    Raises:
        WrongType: not a mapping.
        ``policy.not_enforced_yet``, ``policy.unknown_key``: with the place of the key.
    """
    if not isinstance(node, MapNode):
        raise _wrong(node, f"a mapping for {what}")
    known = KEYS[what] if known is None else known
    found: dict[str, Node] = {}
    for member in node.members:
        name = member.key.text
        if name in later:
            raise ConfigurationError(
                f"{name!r} is known in {what}, but nothing enforces it in this version",
                code="policy.not_enforced_yet",
                where=str(member.key.mark),
                hint="Take it out: to keep it would promise what does not happen",
            )
        if name not in known:
            hint = did_you_mean(name, known)
            raise MalformedError(
                f"unknown key {_shown_key(name, what, hint)} in {what}",
                code="policy.unknown_key",
                where=str(member.key.mark),
                hint=hint,
            )
        found[name] = member.value
    return found


def _shown_key(name: str, what: str, hint: str) -> str:
    """The key as an error may show it; where secrets are named, only one that is nearly a key of the format."""
    is_key = _KEY.match(name) is not None and not looks_like_a_value(name)
    near = hint.startswith("Did you mean")
    return (
        excerpt(name)
        if is_key and (near or what not in ("a secret", "'inject'", "'body'", "'exchange'", "'sigv4'"))
        else "(not shown)"
    )


def required(found: Mapping[str, Node], name: str, node: Node, *, what: str) -> Node:
    """The member ``name`` of a mapping read from ``node``.

    Raises:
        ``policy.missing_key``: it is not there.
    """
    if name not in found:
        raise MalformedError(
            f"{what} needs the key {name!r}", code="policy.missing_key", where=str(node.mark)
        )
    return found[name]


def maybe(node: Node | None, read: Callable[[Node], _T], default: _T) -> _T:
    """What ``read`` makes of ``node``, with its place in errors; ``default`` where there is none."""
    if node is None:
        return default
    with located(node.mark):
        return read(node)


def key_mark(node: Node, name: str) -> Mark:
    """The place of the key ``name`` of a mapping; where the mapping begins if it has none."""
    members = node.members if isinstance(node, MapNode) else ()
    return next((member.key.mark for member in members if member.key.text == name), node.mark)


class _AtMember:
    """What :func:`at_member` returns."""

    __slots__ = ("_found", "_node")

    def __init__(self, found: Mapping[str, Node], node: Node) -> None:
        self._found = found
        self._node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, PolicyConflict) and error.where is None:
            error.where = str(self._found.get(error.key, self._node).mark)


def at_member(found: Mapping[str, Node], node: Node) -> _AtMember:
    """Give every conflict inside that has no place yet the place of the value that it is about, else that of ``node``.

    Args:
        found: the values of the mapping ``node`` by key.
    """
    return _AtMember(found, node)


def text(node: Node, *, what: str) -> str:
    """One value as it was written, whatever YAML makes of ``no``, ``22:22`` or ``1e3`` elsewhere.

    Raises:
        WrongType: a list, a mapping, or nothing.
    """
    if not isinstance(node, ScalarNode) or node.text == "":
        raise _wrong(node, f"text for {what}")
    return node.text


def checked(node: Node, check: Callable[[str], object], *, what: str) -> str:
    """:func:`text` that ``check`` accepts; what it refuses has the place of the value."""
    value = text(node, what=what)
    with located(node.mark):
        check(value)
    return value


def items(node: Node, *, what: str) -> tuple[Node, ...]:
    """The entries of a list, which may be empty.

    Raises:
        WrongType: not a list.
    """
    if not isinstance(node, ListNode):
        raise _wrong(node, f"a list for {what}")
    return node.items


def texts(node: Node, *, what: str) -> tuple[str, ...]:
    """The values of a list that narrows something.

    Raises:
        WrongType: not a list of text.
        EmptyList: it holds nothing.
    """
    values = tuple(text(item, what=f"an entry of {what}") for item in items(node, what=what))
    if not values:
        raise EmptyList(f"{what} is empty", where=str(node.mark), hint="Add an entry, or leave the key out")
    return values


def checked_texts(node: Node, check: Callable[[str], object], *, what: str) -> tuple[str, ...]:
    """:func:`texts` each of which ``check`` accepts; what it refuses has the place of the entry."""
    values = texts(node, what=what)
    for item, value in zip(items(node, what=what), values, strict=True):
        with located(item.mark):
            check(value)
    return values


def whole_number(node: Node, *, what: str) -> int:
    """An unquoted decimal number without sign or leading zeros.

    Raises:
        WrongType: anything else.
    """
    if not (isinstance(node, ScalarNode) and node.plain and _NUMBER.match(node.text)):
        raise _wrong(node, f"a whole number for {what}", show=True)
    return int(node.text)


def boolean(node: Node, *, what: str) -> bool:
    """Unquoted ``true`` or ``false``.

    Raises:
        WrongType: anything else, ``yes`` and ``no`` included.
    """
    if not (isinstance(node, ScalarNode) and node.plain and node.text in ("true", "false")):
        raise _wrong(node, f"true or false for {what}", show=True)
    return node.text == "true"


def size(node: Node, *, what: str) -> int:
    """Bytes, written with a unit: ``512MiB``, ``2GiB``.

    Raises:
        WrongType: anything else.
    """
    match = SIZE.match(node.text) if isinstance(node, ScalarNode) else None
    if match is None:
        raise _wrong(node, f"a size such as 512MiB or 2GiB for {what}", show=True)
    return int(match.group(1)) * _UNITS[match.group(2)]


def one_of(node: Node, choices: Collection[str], *, what: str) -> str:
    """One of ``choices``, exactly.

    Raises:
        WrongType: not text.
        ValueRefused: other text.
    """
    value = text(node, what=what)
    if value not in choices:
        raise ValueRefused(
            f"not a value for {what}",
            found=excerpt(value),
            where=str(node.mark),
            hint=did_you_mean(value, choices),
        )
    return value


def _wrong(node: Node, expected: str, *, show: bool = False) -> WrongType:
    """The error about a node; its text is shown only where no secret can have been pasted."""
    found = _KINDS[type(node)]
    if isinstance(node, ScalarNode) and (node.empty or show):
        found = "nothing" if node.empty else excerpt(node.text)
    hint = "Write [] for none, or leave the key out" if found == "nothing" else None
    return WrongType("wrong type", expected=expected, found=found, where=str(node.mark), hint=hint)
