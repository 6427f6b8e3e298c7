"""Reads the part of YAML in which a document means what it shows, with the line and column of every value.

For files that a person writes and that decide. Built on libyaml's *events*, not on its loader, because the loader
keeps the last of two equal keys in silence, turns ``no`` into False and ``22:22`` into 1342, and crashes on 60,000
nested brackets. Here:

1. UTF-8; no BOM, NUL, tab, carriage return, other control, zero-width or bidirectional character, neither in the text
   nor written as an escape in a quoted value (Trojan Source, CVE-2021-42574);
2. one document, no directives, anchors, aliases, tags, merge keys, block scalars or non-scalar keys;
3. a key stands once in its mapping; bytes, levels and values are bounded;
4. a value is text. Whoever reads it decides whether an *unquoted* one is a number or a boolean, by its encoding.

Bounds and errors are the caller's, so that each kind of file keeps its own stable codes.

>>> compose(b"port: 443", source="p", dialect=PLAIN).members[0].value.text
'443'
>>> compose(b"a: 1\\na: 2", source="p", dialect=PLAIN)
Traceback (most recent call last):
    ...
affiant.attestation.encoding.strict_yaml.YAMLRefused: p:2:1: key 'a' stands twice in one mapping; first at p:1:1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import yaml
from yaml._yaml import CParser

from affiant.attestation.encoding.invisible_text import INVISIBLE
from affiant.errors import AffiantError, MalformedError

__all__ = [
    "PLAIN",
    "Dialect",
    "ListNode",
    "MapNode",
    "Mark",
    "Member",
    "Node",
    "ScalarNode",
    "YAMLRefused",
    "compose",
]


class YAMLRefused(MalformedError):
    """Not YAML, or YAML with a feature that lets a document mean something else than it shows."""

    code = "yaml.refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one kind of file may be, and what it is refused with.

    Args:
        max_bytes, max_depth, max_values: of a document; the depth far below what exhausts a stack (CWE-674).
        syntax: not UTF-8, or not YAML; chained from the parser's own error.
        character: a character that cannot be seen.
        too_large: over one of the three bounds.
        feature: a feature that lets a document mean something else than it shows.
        duplicate: a key that stands twice.
    """

    max_bytes: int
    max_depth: int
    max_values: int
    syntax: type[AffiantError]
    character: type[AffiantError]
    too_large: type[AffiantError]
    feature: type[AffiantError]
    duplicate: type[AffiantError]


PLAIN: Final = Dialect(
    max_bytes=256 << 10,
    max_depth=12,
    max_values=20_000,
    syntax=YAMLRefused,
    character=YAMLRefused,
    too_large=YAMLRefused,
    feature=YAMLRefused,
    duplicate=YAMLRefused,
)
"""Files without codes of their own."""


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


def compose(data: bytes, *, source: str, dialect: Dialect) -> Node | None:
    """The one document of ``data``; None if there is none (nothing but comments).

    Args:
        source: the name that places in errors begin with.
        dialect: bounds, and the errors to raise.

    Raises:
        AffiantError: one of the ``dialect``'s, with ``where`` as ``source:line:column``.
    """
    if len(data) > dialect.max_bytes:
        raise dialect.too_large(
            "file too large",
            expected=f"at most {dialect.max_bytes} bytes",
            found=f"{len(data)} bytes",
            where=source,
        )
    text = _decoded(data, source, dialect)
    try:
        return _Composer(text, source, dialect).document()
    except yaml.MarkedYAMLError as error:
        problem = _excerpt(error.problem or error.context or "not YAML", limit=120).strip("'\"")
        mark = error.problem_mark
        where = source if mark is None else f"{source}:{mark.line + 1}:{mark.column + 1}"
        raise dialect.syntax(f"not YAML: {problem}", where=where) from error
    except yaml.YAMLError as error:
        raise dialect.syntax("not YAML", where=source) from error


def _decoded(data: bytes, source: str, dialect: Dialect) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise dialect.syntax("not UTF-8", where=f"{source}:{line}") from error
    found = INVISIBLE.search(text)
    if found is not None:
        start = found.start()
        mark = Mark(source, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        raise _character(found.group(), mark, dialect)
    return text


def _character(char: str, mark: Mark, dialect: Dialect) -> AffiantError:
    hint = {
        "\t": "Indent with spaces",
        "\r": "Save the file with line feeds alone (LF)",
        "\ufeff": "Save the file as UTF-8 without a byte order mark",
    }.get(char, "Delete it: a reviewer cannot see it")
    return dialect.character("character refused", found=f"U+{ord(char):04X}", where=str(mark), hint=hint)


def _excerpt(text: str, *, limit: int = 60) -> str:
    """Quoted, escaped to ASCII and bounded: hostile text as an error may show it."""
    shown = ascii(text)
    return shown if len(shown) <= limit else shown[: limit - 4] + "...'"


class _Composer:
    """One pass over the events; keeps nothing but the count of values."""

    def __init__(self, text: str, source: str, dialect: Dialect) -> None:
        self._source = source
        self._dialect = dialect
        self._values = 0
        self._next: Callable[[], yaml.Event | None] = CParser(text).get_event

    def document(self) -> Node | None:
        node: Node | None = None
        documents = 0
        while (event := self._next()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._dialect.feature("a second document", where=str(self._mark(event)))
                if event.version or event.tags:
                    raise self._dialect.feature("a directive", where=str(self._mark(event)))
                node = self._node(self._expected(), 1)
        return node

    def _expected(self) -> yaml.Event:
        """The event that follows, where libyaml always has one."""
        event = self._next()
        assert event is not None
        return event

    def _node(self, event: yaml.Event, depth: int) -> Node:
        mark = self._mark(event)
        self._values += 1
        if depth > self._dialect.max_depth or self._values > self._dialect.max_values:
            too_deep = depth > self._dialect.max_depth
            raise self._dialect.too_large(
                "nested too deep" if too_deep else "too many values", where=str(mark)
            )
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, mark)
        self._refuse_features(event, mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return ListNode(tuple(self._items(depth + 1)), mark)
        if isinstance(event, yaml.MappingStartEvent):
            return MapNode(tuple(self._members(depth + 1)), mark)
        raise self._dialect.syntax("not a value", where=str(mark))  # pragma: no cover - libyaml has no other

    def _items(self, depth: int) -> list[Node]:
        found: list[Node] = []
        while type(event := self._expected()) is not yaml.SequenceEndEvent:
            found.append(self._node(event, depth))
        return found

    def _members(self, depth: int) -> list[Member]:
        found: list[Member] = []
        seen: dict[str, Mark] = {}
        while type(event := self._expected()) is not yaml.MappingEndEvent:
            key = self._node(event, depth)
            if not isinstance(key, ScalarNode):
                raise self._dialect.feature("a key that is no plain name", where=str(key.mark))
            if key.text == "<<":
                raise self._dialect.feature("a merge key", where=str(key.mark), hint="Write it out")
            if key.text in seen:
                raise self._dialect.duplicate(
                    f"key {_excerpt(key.text)} stands twice in one mapping; first at {seen[key.text]}",
                    where=str(key.mark),
                )
            seen[key.text] = key.mark
            found.append(Member(key, self._node(self._expected(), depth)))
        return found

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> ScalarNode:
        if event.anchor is not None or event.tag is not None:
            self._refuse_features(event, mark)
        style = event.style
        if style in ("|", ">"):
            raise self._dialect.feature("a block scalar", where=str(mark), hint="Write the value on one line")
        value = event.value
        # only an escape can make a character that the text itself does not show, and was not refused for
        found = INVISIBLE.search(value) if style == '"' else None
        if found is not None or "\n" in value:
            raise _character("\n" if found is None else found.group(), mark, self._dialect)
        return ScalarNode(value, style not in ("'", '"'), mark)

    def _refuse_features(self, event: yaml.Event, mark: Mark) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise self._dialect.feature("an alias", where=str(mark), hint="Write it out")
        if getattr(event, "anchor", None) is not None:
            raise self._dialect.feature("an anchor", where=str(mark), hint="Write it out")
        if getattr(event, "tag", None) is not None:
            raise self._dialect.feature("a tag", where=str(mark))

    def _mark(self, event: yaml.Event) -> Mark:
        start = event.start_mark
        if start is None:  # pragma: no cover - libyaml marks every event
            raise self._dialect.syntax("event without a place", where=self._source)
        return Mark(self._source, start.line + 1, start.column + 1)
