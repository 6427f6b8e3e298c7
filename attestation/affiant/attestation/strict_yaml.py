"""The part of YAML in which a document means what it shows, with the line and column of every value.

For files that a person writes and a verifier believes. Built on libyaml's *events*, because its loader keeps the
last of two equal keys in silence and turns ``no`` into False:

1. at most 256 KiB of UTF-8, in which every character can be seen: no tab, control or bidirectional character, also
   none that a quoted value writes as an escape;
2. one document; no directives, anchors, aliases, tags, merge keys or block scalars;
3. a key is text and stands once in its mapping; at most 12 levels and 20,000 values;
4. a value is text. Whoever reads it decides whether it is a number, by its spelling.

>>> compose(b"days: 14", source="a.yaml").members["days"].text
'14'
>>> compose(b"a: 1\\na: 2", source="a.yaml")
Traceback (most recent call last):
    ...
affiant.attestation.strict_yaml.YAMLRefused: a.yaml:2:1: key 'a' stands twice in one mapping; first at a.yaml:1:1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml
from yaml._yaml import CParser

from affiant.errors import MalformedError

__all__ = ["MAX_YAML_BYTES", "ListNode", "MapNode", "Mark", "Node", "Scalar", "YAMLRefused", "compose"]

MAX_YAML_BYTES: Final = 256 << 10
_MAX_DEPTH: Final = 12
"""Far below what exhausts a stack (CWE-674)."""
_MAX_VALUES: Final = 20_000


class YAMLRefused(MalformedError):
    """Not YAML, or YAML with a feature that lets a document mean something else than it shows."""

    code = "yaml.refused"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a document; line and column count from 1."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value, as written; ``plain`` if it was not quoted."""

    text: str
    plain: bool
    mark: Mark


@dataclass(frozen=True, slots=True)
class ListNode:
    """A sequence."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class MapNode:
    """A mapping in the order of the text, and where each key stands."""

    members: Mapping[str, Node]
    mark: Mark
    keys: Mapping[str, Mark] = field(repr=False)


Node = Scalar | ListNode | MapNode


def compose(data: bytes, *, source: str) -> Node:
    """The one document of ``data``.

    Args:
        data: at most :data:`MAX_YAML_BYTES`.
        source: the name that places in refusals begin with.

    Raises:
        YAMLRefused: with ``where``, as ``source:line:column``.
    """
    if len(data) > MAX_YAML_BYTES:
        raise YAMLRefused(
            "file too large", expected=f"at most {MAX_YAML_BYTES} bytes", found=len(data), where=source
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YAMLRefused("not UTF-8", where=f"{source}:{line}") from error
    for number, line_text in enumerate(text.split("\n"), start=1):
        _refuse_invisible(line_text, Mark(source, number, 1))
    try:
        node = _Composer(text, source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = source if mark is None else f"{source}:{mark.line + 1}:{mark.column + 1}"
        raise YAMLRefused(f"not YAML: {(error.problem or 'not readable')[:120]}", where=where) from error
    except yaml.YAMLError as error:
        raise YAMLRefused("not YAML", where=source) from error
    if node is None:
        raise YAMLRefused("the file says nothing", where=source)
    return node


def _refuse_invisible(text: str, mark: Mark) -> None:
    """Trojan Source (CVE-2021-42574): what a reviewer cannot see must not count."""
    if text.isprintable():
        return
    column, char = next((index, char) for index, char in enumerate(text) if not char.isprintable())
    hints = {"\t": "Indent with spaces.", "\r": "Save the file with line feeds alone (LF)."}
    raise YAMLRefused(
        "a character that cannot be seen",
        found=f"U+{ord(char):04X}",
        where=str(Mark(mark.source, mark.line, mark.column + column)),
        hint=hints.get(char, "Delete it."),
    )


class _Composer:
    """One pass over the events; keeps nothing but the count of values."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._values = 0
        self._events = _events(text)

    def document(self) -> Node | None:
        node: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if node is not None:
                    raise YAMLRefused("a second document", where=str(self._mark(event)))
                if event.version or event.tags:
                    raise YAMLRefused("a directive is refused", where=str(self._mark(event)))
                node = self._node(next(self._events), 1)
        return node

    def _node(self, event: yaml.Event, depth: int) -> Node:
        mark = self._mark(event)
        self._refuse_features(event, mark)
        self._values += 1
        if depth > _MAX_DEPTH or self._values > _MAX_VALUES:
            raise YAMLRefused("nested too deep" if depth > _MAX_DEPTH else "too many values", where=str(mark))
        if isinstance(event, yaml.SequenceStartEvent):
            return ListNode(tuple(self._items(depth)), mark)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth, mark)
        return self._scalar(event, mark)

    def _items(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._node(event, depth + 1)

    def _mapping(self, depth: int, mark: Mark) -> MapNode:
        members: dict[str, Node] = {}
        keys: dict[str, Mark] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar) or key.text == "<<":
                raise YAMLRefused("a key that is no plain name", where=str(key.mark))
            if key.text in keys:
                raise YAMLRefused(
                    f"key {key.text[:60]!r} stands twice in one mapping; first at {keys[key.text]}",
                    where=str(key.mark),
                )
            keys[key.text] = key.mark
            members[key.text] = self._node(next(self._events), depth + 1)
        return MapNode(members, mark, keys)

    def _scalar(self, event: yaml.Event, mark: Mark) -> Scalar:
        if not isinstance(event, yaml.ScalarEvent):  # pragma: no cover - libyaml has no other node event
            raise YAMLRefused("not a value", where=str(mark))
        if event.style in ("|", ">"):
            raise YAMLRefused(
                "a block scalar is refused", where=str(mark), hint="Write the value on one line."
            )
        _refuse_invisible(event.value, mark)
        return Scalar(event.value, event.style not in ("'", '"'), mark)

    def _refuse_features(self, event: yaml.Event, mark: Mark) -> None:
        features = (
            ("an alias", isinstance(event, yaml.AliasEvent)),
            ("an anchor", getattr(event, "anchor", None) is not None),
            ("a tag", getattr(event, "tag", None) is not None),
        )
        for name, is_there in features:
            if is_there:
                raise YAMLRefused(f"{name} is refused", where=str(mark), hint="Write the value out.")

    def _mark(self, event: yaml.Event) -> Mark:
        start = event.start_mark
        if start is None:  # pragma: no cover - libyaml marks every event
            raise YAMLRefused("a value without a place", where=self._source)
        return Mark(self._source, start.line + 1, start.column + 1)


def _events(text: str) -> Iterator[yaml.Event]:
    parser = CParser(text)
    while (event := parser.get_event()) is not None:
        yield event
