"""Reads the part of YAML in which a document means what it shows, with the line and column of every value.

Built on libyaml's *events*, not on its loader, because the loader keeps the last of two equal keys in silence,
turns ``no`` into False and ``22:22`` into 1342, and crashes on 60,000 nested brackets. Here:

1. at most 1 MiB of UTF-8; no BOM, NUL, tab, carriage return, other control, zero-width or bidirectional
   character, neither in the text nor written as an escape in a quoted value (Trojan Source, CVE-2021-42574);
2. one document, no directives, anchors, aliases, tags, merge keys, block scalars or non-scalar keys;
3. a key stands once in its mapping; at most 16 levels and 100,000 values;
4. a value is text. Only where the schema wants an integer or a boolean is an *unquoted* value one, and only
   in the spellings ``0``, ``17``, ``true``, ``false``.

>>> compose(b"port: 443", source="p.yaml").members[0].value.text
'443'
>>> compose(b"a: 1\\na: 2", source="p.yaml")
Traceback (most recent call last):
    ...
affiant.policy.refusals.DuplicateKey: p.yaml:2:1: key 'a' stands twice in one mapping; first at p.yaml:1:1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml
from yaml._yaml import CParser

from affiant.policy.refusals import (
    CharacterRefused,
    DocumentTooLarge,
    DuplicateKey,
    FeatureRefused,
    LineBreaksMissing,
    PolicySyntaxRefused,
    excerpt,
)

__all__ = ["MAX_BYTES", "MAX_DEPTH", "ListNode", "MapNode", "Mark", "Member", "Node", "ScalarNode", "compose"]

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 16
"""The deepest place in the schema is 6 levels down; far below what exhausts a stack (CWE-674)."""
_MAX_VALUES: Final = 100_000

_INVISIBLE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode categories Cc, Cf, Cs, Zl and Zp without the line feed, fillers and variation selectors."""

_LINE_BREAKS_HINT: Final = "The line breaks are missing: paste the profile again, one key on each line"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a document; line and column count from 1."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value, as written; ``plain`` if it was not quoted."""

    text: str
    plain: bool
    mark: Mark

    @property
    def empty(self) -> bool:
        """Whether nothing at all was written."""
        return self.plain and self.text == ""


@dataclass(frozen=True, slots=True)
class ListNode:
    """A sequence."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Member:
    """One key and its value."""

    key: ScalarNode
    value: Node


@dataclass(frozen=True, slots=True)
class MapNode:
    """A mapping, in the order of the text; no key stands twice."""

    members: tuple[Member, ...]
    mark: Mark


Node = ScalarNode | ListNode | MapNode


def compose(data: bytes, *, source: str) -> Node | None:
    """The one document of ``data``; None if there is none (nothing but comments).

    Args:
        data: at most :data:`MAX_BYTES` bytes.
        source: the name that places in refusals begin with.

    Raises:
        PolicySyntaxRefused, LineBreaksMissing, CharacterRefused, DocumentTooLarge, FeatureRefused,
        DuplicateKey: each with ``where``, as ``source:line:column``.
    """
    if len(data) > MAX_BYTES:
        raise DocumentTooLarge(
            "file too large", expected=f"at most {MAX_BYTES} bytes", found=f"{len(data)} bytes", where=source
        )
    text = _decoded(data, source)
    try:
        node = _Composer(text, source).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text, source) from error
    except yaml.YAMLError as error:
        raise PolicySyntaxRefused("not YAML", where=source) from error
    if node is None and "agent_configs:" in text:
        raise LineBreaksMissing("everything is in a comment", hint=_LINE_BREAKS_HINT, where=f"{source}:1:1")
    return node


def _decoded(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicySyntaxRefused("not UTF-8", where=f"{source}:{line}") from error
    found = _INVISIBLE.search(text)
    if found is not None:
        start = found.start()
        mark = Mark(source, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        raise _character(found.group(), mark)
    return text


def _character(char: str, mark: Mark) -> CharacterRefused:
    hint = {
        "\t": "Indent with spaces",
        "\r": "Save the file with line feeds alone (LF)",
        "\ufeff": "Save the file as UTF-8 without a byte order mark",
    }.get(char, "Delete it: a reviewer cannot see it")
    return CharacterRefused("character refused", found=f"U+{ord(char):04X}", where=str(mark), hint=hint)


def _syntax(error: yaml.MarkedYAMLError, text: str, source: str) -> PolicySyntaxRefused | LineBreaksMissing:
    problem = excerpt(error.problem or error.context or "not YAML", limit=120).strip("'\"")
    where = source
    if error.problem_mark is not None:
        where = f"{source}:{error.problem_mark.line + 1}:{error.problem_mark.column + 1}"
        line = (
            text.split("\n")[error.problem_mark.line] if error.problem_mark.line <= text.count("\n") else ""
        )
        if "mapping values are not allowed" in problem and line.count(":") > 1:
            return LineBreaksMissing("several keys on one line", where=where, hint=_LINE_BREAKS_HINT)
    return PolicySyntaxRefused(f"not YAML: {problem}", where=where)


class _Composer:
    """One pass over the events; keeps nothing but the count of values."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._values = 0
        self._events = _events(text)

    def document(self) -> Node | None:
        node: Node | None = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise FeatureRefused("a second document", where=str(self._mark(event)))
                if event.version or event.tags:
                    raise FeatureRefused("a directive", where=str(self._mark(event)))
                node = self._node(next(self._events), 1)
        return node

    def _node(self, event: yaml.Event, depth: int) -> Node:
        mark = self._mark(event)
        self._refuse_features(event, mark)
        self._values += 1
        if depth > MAX_DEPTH or self._values > _MAX_VALUES:
            raise DocumentTooLarge(
                "nested too deep" if depth > MAX_DEPTH else "too many values", where=str(mark)
            )
        if isinstance(event, yaml.SequenceStartEvent):
            return ListNode(tuple(self._items(depth)), mark)
        if isinstance(event, yaml.MappingStartEvent):
            return MapNode(tuple(self._members(depth)), mark)
        return self._scalar(event, mark)

    def _items(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._node(event, depth + 1)

    def _members(self, depth: int) -> Iterator[Member]:
        seen: dict[str, Mark] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            key = self._node(event, depth + 1)
            if not isinstance(key, ScalarNode):
                raise FeatureRefused("a key that is no plain name", where=str(key.mark))
            if key.text == "<<":
                raise FeatureRefused("a merge key", where=str(key.mark), hint="Write the rules out")
            if key.text in seen:
                raise DuplicateKey(
                    f"key {excerpt(key.text)} stands twice in one mapping; first at {seen[key.text]}",
                    where=str(key.mark),
                )
            seen[key.text] = key.mark
            yield Member(key, self._node(next(self._events), depth + 1))

    def _scalar(self, event: yaml.Event, mark: Mark) -> ScalarNode:
        if not isinstance(event, yaml.ScalarEvent):  # pragma: no cover - libyaml has no other node event
            raise PolicySyntaxRefused("not a value", where=str(mark))
        if event.style in ("|", ">"):
            raise FeatureRefused("a block scalar", where=str(mark), hint="Write the value on one line")
        found = _INVISIBLE.search(event.value)
        if found is not None or "\n" in event.value:
            raise _character("\n" if found is None else found.group(), mark)
        return ScalarNode(event.value, event.style not in ("'", '"'), mark)

    def _refuse_features(self, event: yaml.Event, mark: Mark) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise FeatureRefused("an alias", where=str(mark), hint="Write the rules out")
        if getattr(event, "anchor", None) is not None:
            raise FeatureRefused("an anchor", where=str(mark), hint="Write the rules out")
        if getattr(event, "tag", None) is not None:
            raise FeatureRefused("a tag", where=str(mark))

    def _mark(self, event: yaml.Event) -> Mark:
        start = event.start_mark
        if start is None:  # pragma: no cover - libyaml marks every event
            raise PolicySyntaxRefused("event without a place", where=self._source)
        return Mark(self._source, start.line + 1, start.column + 1)


def _events(text: str) -> Iterator[yaml.Event]:
    parser = CParser(text)
    while (event := parser.get_event()) is not None:
        yield event
