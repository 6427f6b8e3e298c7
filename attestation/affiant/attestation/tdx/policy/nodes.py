"""Reads the nodes of a policy file: a mapping with known keys, entries with their time, values of one form.

Every error names file, line and column; a wrong word comes with the nearest known one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, TypedDict, TypeVar

from affiant.attestation.encoding.binary_text import EncodingError, from_hex
from affiant.attestation.encoding.strict_yaml import ListNode, MapNode, Mark, Node, ScalarNode
from affiant.attestation.tdx.pki.times import parse_rfc3339_utc
from affiant.errors import MalformedError

__all__ = [
    "TIMES",
    "EntryTimes",
    "NodeMap",
    "any_or_list",
    "hexadecimal_of",
    "list_of",
    "name_of",
    "plain_or_entry",
    "refused_value",
    "suggestion",
    "text_of",
    "word_of",
]

TIMES: Final = ("from", "until", "revoked_at", "reason")
"""The members that every entry may have."""

_MAX_ENTRIES: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_T = TypeVar("_T")


class EntryTimes(TypedDict):
    """The members that every entry may have."""

    where: str
    valid_from: datetime | None
    until: datetime | None
    revoked_at: datetime | None
    reason: str | None


class NodeMap:
    """A mapping that is read."""

    def __init__(self, node: Node) -> None:
        if not isinstance(node, MapNode):
            raise refused_value(node, "not a mapping", expected="members, as `name: value`")
        self.mark: Mark = node.mark
        self.nodes: Mapping[str, Node] = {member.key.text: member.value for member in node.members}
        self._keys = {member.key.text: member.key.mark for member in node.members}

    def only(self, *, required: Iterable[str], optional: Iterable[str]) -> None:
        """Refuse unknown and missing keys."""
        needed = tuple(required)
        known = (*needed, *optional)
        for name, mark in self._keys.items():
            if name not in known:
                raise MalformedError(
                    f"unknown key {name[:60]!r}",
                    where=str(mark),
                    hint=suggestion(name, known),
                    code="appraisal_policy.key",
                )
        for name in needed:
            if name not in self.nodes:
                raise MalformedError(
                    f"the key {name!r} is missing", where=str(self.mark), code="appraisal_policy.key"
                )

    def _node(self, name: str) -> Node:
        if name not in self.nodes:
            raise MalformedError(
                f"the key {name!r} is missing", where=str(self.mark), code="appraisal_policy.key"
            )
        return self.nodes[name]

    def text(self, name: str) -> str:
        """A text."""
        return text_of(self._node(name))

    def number(self, name: str, *, maximum: int, minimum: int = 0) -> int:
        """A number, not quoted."""
        node = self._node(name)
        if isinstance(node, ScalarNode) and node.plain and _NUMBER.match(node.text):
            number = int(node.text)
            if minimum <= number <= maximum:
                return number
        raise refused_value(node, f"{name} is not such a number", expected=f"{minimum} to {maximum}")

    def word(self, name: str, words: Mapping[str, _T]) -> _T:
        """One of ``words``."""
        node = self._node(name)
        return word_of(node, words, name)

    def hexadecimal(self, name: str, size: int) -> bytes:
        """Exactly ``size`` bytes."""
        return hexadecimal_of(self._node(name), size)

    def names(self, name: str) -> tuple[str, ...]:
        """A list of names, each once."""
        return list_of(self._node(name), name_of)

    def entries(self, name: str, read: Callable[[Node], _T]) -> tuple[_T, ...]:
        """A list that may be absent, but not empty."""
        return list_of(self.nodes[name], read) if name in self.nodes else ()

    def times(self) -> EntryTimes:
        """The members that every entry may have."""
        valid_from, until, revoked_at = (
            _instant_of(self.nodes[name]) if name in self.nodes else None
            for name in ("from", "until", "revoked_at")
        )
        if valid_from is not None and until is not None and valid_from >= until:
            raise refused_value(self.nodes["until"], "it ends before it begins", expected="until after from")
        return {
            "where": str(self.mark),
            "valid_from": valid_from,
            "until": until,
            "revoked_at": revoked_at,
            "reason": self.text("reason") if "reason" in self.nodes else None,
        }


def plain_or_entry(node: Node, read: Callable[[Node], _T]) -> tuple[_T, EntryTimes]:
    """A plain value that always counts, or a mapping with ``value`` and its time."""
    if isinstance(node, ScalarNode):
        times: EntryTimes = {
            "where": str(node.mark),
            "valid_from": None,
            "until": None,
            "revoked_at": None,
            "reason": None,
        }
        return read(node), times
    entry = NodeMap(node)
    entry.only(required=("value",), optional=TIMES)
    return read(entry.nodes["value"]), entry.times()


def any_or_list(node: Node, read: Callable[[Node], _T]) -> tuple[_T, ...] | None:
    if isinstance(node, ScalarNode):
        word_of(node, {"any": None}, "a list")
        return None
    return list_of(node, read)


def list_of(node: Node, read: Callable[[Node], _T]) -> tuple[_T, ...]:
    if not isinstance(node, ListNode):
        raise refused_value(node, "not a list", expected="entries, each after `- `")
    if not node.items:
        raise MalformedError(
            "an empty list",
            where=str(node.mark),
            hint="Leave the key out for its strict default, or fill it.",
            code="appraisal_policy.empty",
        )
    if len(node.items) > _MAX_ENTRIES:
        raise refused_value(node, "too many entries", expected=f"at most {_MAX_ENTRIES}")
    found = tuple(read(item) for item in node.items)
    for index, item in enumerate(found):
        if item in found[:index] and isinstance(item, str):
            raise refused_value(node.items[index], "a value stands twice")
    return found


def text_of(node: Node) -> str:
    if isinstance(node, ScalarNode) and node.text.strip():
        return node.text
    raise refused_value(node, "not a text", expected="one value")


def name_of(node: Node) -> str:
    text = text_of(node)
    if _NAME.match(text) is None:
        raise refused_value(node, "not a name", expected="letters, digits, `.`, `_`, `-`; at most 64")
    return text


def hexadecimal_of(node: Node, size: int) -> bytes:
    try:
        return from_hex(text_of(node), size=size)
    except EncodingError as error:
        raise refused_value(
            node, "not lower-case hexadecimal of this size", expected=f"{2 * size} digits"
        ) from error


def _instant_of(node: Node) -> datetime:
    try:
        return parse_rfc3339_utc(text_of(node))
    except ValueError as error:
        raise refused_value(node, "not a timestamp", expected="2026-11-21T12:00:00Z") from error


def word_of(node: Node, words: Mapping[str, _T], what: str) -> _T:
    text = text_of(node)
    if text not in words:
        raise MalformedError(
            f"{what}: not a known word",
            where=str(node.mark),
            expected=" or ".join(words),
            found=repr(text[:60]),
            hint=suggestion(text, words),
            code="appraisal_policy.value",
        )
    return words[text]


def refused_value(node: Node, message: str, *, expected: str | None = None) -> MalformedError:
    found = repr(node.text[:60]) if isinstance(node, ScalarNode) else None
    return MalformedError(
        message, where=str(node.mark), expected=expected, found=found, code="appraisal_policy.value"
    )


def suggestion(found: str, known: Iterable[str]) -> str | None:
    words = tuple(known)
    lower = {word.lower(): word for word in words}
    near = difflib.get_close_matches(found.lower()[:60], lower, n=1)
    return f"Did you mean {lower[near[0]]!r}?" if near else f"Known: {', '.join(words)}."
