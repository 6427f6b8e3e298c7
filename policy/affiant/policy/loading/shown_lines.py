"""Shows the line of a document in an error message, without anything that may be a secret.

A file that is refused is a file with a mistake, and the mistake may be a secret pasted where a name belongs. So nothing
is shown because it looks harmless; a value is shown where its place says what it is:

1. every key above it is one of the format's (below an unknown one anything may stand), and none of them is
   ``secrets_access`` or ``secret``;
2. it does not read like a secret itself (``looks_like_a_value``);
3. it begins and ends on this line.

All other values are ``***``, whatever their length; comments are left out. A file that loads has no such mistake: of it
every value is shown whose field holds no secret, and not the forms of secrets' placeholders and headers, which are free
text (``loaded``). Of a document that is not YAML as we read
it, no place is known, and of a line only keys of the format are shown. Characters beyond printable ASCII are escaped.

>>> shown = ShownDocument(b"agent_configs: {dev: {tolos: [hunter2]}}").line(1, 23)
>>> print(*shown.lines(width=80), sep="\\n")
  1 | agent_configs: {dev: {tolos: [***
    |                       ^
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError
from affiant.line_excerpt import LineExcerpt
from affiant.policy.canonical.request_names import is_a_token, looks_like_a_value
from affiant.policy.canonical.strict_yaml import ListNode, Node, ScalarNode, compose
from affiant.policy.normal_form.format_keys import EVERY_KEY, KEYS, VALUES_NOT_SHOWN

__all__ = ["ShownDocument", "show_line", "without_tokens", "without_values"]

_AGENTS: Final = 1
_RULES: Final = 3
_KNOWN: Final = {
    0: frozenset({*KEYS["a profile file"], *KEYS["a baseline policy"]}),
    _AGENTS: frozenset[str](),
    2: frozenset(KEYS["a profile"]),
}
"""The keys of the mappings around the rules, by depth; an agent may have any name."""

_REPEATING: Final = frozenset(
    {"policy.host", "policy.value", "policy.path", "policy.target", "policy.address", "policy.request"}
)
"""Refusals that repeat the value; among secrets even a host may be one, pasted on the wrong line."""

_MASK: Final = "***"
_FREE_TEXT: Final = frozenset({"format", "shape"})
"""Keys of a secret whose values are free text: a value of the secret may have been pasted into it."""
_STRUCTURE: Final = frozenset(" []{},:-")
_KEY: Final = re.compile(r"([a-z_]+): *")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")
_WORD: Final = re.compile(r"[A-Za-z0-9_+=-]{16,}")
_DOUBLE_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class _Token:
    """A key or value: where it begins, whether it may be shown, and whether its place is one for secrets."""

    node: ScalarNode
    shown: bool
    private: bool

    @property
    def start(self) -> int:
        return self.node.mark.column - 1

    def end(self, line: str) -> int | None:
        """The position behind it; None if it does not end on ``line``, or is not written there as expected."""
        if self.node.plain:
            return self.start + len(self.node.text) if line.startswith(self.node.text, self.start) else None
        pattern = _SINGLE_QUOTED if line.startswith("'", self.start) else _DOUBLE_QUOTED
        match = pattern.match(line, self.start)
        return None if match is None else match.end()


class ShownDocument:
    """The lines of a document, as they may be shown. It is read when a line is first asked for.

    Args:
        loaded: it was loaded, so that each value is of the type of its field: that says whether it is shown.
    """

    def __init__(self, data: bytes, *, loaded: bool = False) -> None:
        self._data = data
        self._walk = _walk_loaded if loaded else _walk
        self._lines = data.decode("utf-8", "replace").split("\n")
        self._tokens: Mapping[int, list[_Token]] | None = None
        self._read = False
        self._drawn: dict[int, _Drawing] = {}

    def line(self, number: int, column: int) -> LineExcerpt:
        """The line of that number, with its caret; empty behind the last. Both count from 1; columns are characters."""
        drawing = self._drawn.get(number)
        if drawing is None:
            drawing = self._drawn[number] = self._draw(number)
        return drawing.excerpt(number, column - 1)

    def _draw(self, number: int) -> _Drawing:
        """The line, drawn once however many refusals are of it."""
        line = self._lines[number - 1] if 1 <= number <= len(self._lines) else ""
        drawing, tokens = _Drawing(), self._all_tokens()
        if tokens is None:
            _draw_keys_alone(drawing, line)
        else:
            _draw(drawing, line, tokens.get(number, []))
        return drawing

    def is_private(self, number: int, column: int) -> bool:
        """Whether what stands at that place may be a secret; also where the document is not YAML as we read it."""
        tokens = self._all_tokens()
        if tokens is None:
            return True
        here = (token for token in tokens.get(number, ()) if token.node.mark.column >= column)
        first = next(here, None)
        return first is not None and first.private

    def _all_tokens(self) -> Mapping[int, list[_Token]] | None:
        """The keys and values by line; None if the document is not YAML as we read it."""
        if not self._read:
            self._read = True
            try:
                root = compose(self._data, source="")
            except AffiantError:
                return None
            self._tokens = {}
            for token in () if root is None else self._walk(root):
                self._tokens.setdefault(token.node.mark.line, []).append(token)
        return self._tokens


def show_line(error: AffiantError, documents: Mapping[str, ShownDocument]) -> None:
    """Give a refusal the line of the document at its place, and take out of its text what reads like a secret.

    Args:
        documents: by the source that places begin with.
    """
    error.message = without_values(error.message)
    error.args = (error.message,)
    source, *numbers = (error.where or "").rsplit(":", 2)
    document = documents.get(source)
    place = None
    if document is not None and len(numbers) == 2:
        place = int(numbers[0]), int(numbers[1])
        if error.excerpt is None:
            error.excerpt = document.line(*place)
    if isinstance(error.found, str):
        private = document is not None and place is not None and document.is_private(*place)
        error.found = None if private and error.code in _REPEATING else without_values(error.found)


def without_values(text: str) -> str:
    """``text`` with *** in place of each word that reads like a secret."""
    return _WORD.sub(lambda word: _MASK if looks_like_a_value(word.group()) else word.group(), text)


def without_tokens(text: str) -> str:
    """``text`` with *** in place of each word that has the form of some service's tokens."""
    return _WORD.sub(lambda word: _MASK if is_a_token(word.group()) else word.group(), text)


def _walk_loaded(node: Node, path: tuple[str, ...] = ()) -> Iterator[_Token]:
    """Every key and value of a file that loads, in the order of the text; ``path``: the keys above."""
    if isinstance(node, ScalarNode):
        if not node.empty:
            free = path[2:3] == ("secrets_access",) and path[-1] in _FREE_TEXT
            approval = "requires_human_approval" in (path[:1] + path[2:3])
            shown = not free and (approval or without_tokens(node.text) == node.text)
            yield _Token(node, shown, private=free)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _walk_loaded(item, path)
    else:
        for member in node.members:
            if not member.key.empty:
                yield _Token(member.key, without_tokens(member.key.text) == member.key.text, private=False)
            yield from _walk_loaded(member.value, (*path, member.key.text))


def _walk(node: Node, *, shown: bool = True, depth: int = 0) -> Iterator[_Token]:
    """Every key and value in the order of the text; ``depth``: the file, its agents, a profile, what is below."""
    if isinstance(node, ScalarNode):
        if not node.empty:
            yield _Token(node, shown and not _reads_like_a_value(node.text), private=not shown)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _walk(item, shown=shown, depth=max(depth, _RULES))
    else:
        for member in node.members:
            key = member.key.text
            known = key in _KNOWN.get(depth, EVERY_KEY)
            if not member.key.empty:
                name = _NAME.match(key) is not None and not _reads_like_a_value(key)
                yield _Token(member.key, known or (shown and name), private=not shown)
            below = shown and (depth == _AGENTS or (known and key not in VALUES_NOT_SHOWN))
            deeper = _RULES if depth == 0 and key != "agent_configs" else depth + 1
            yield from _walk(member.value, shown=below, depth=deeper)


def _reads_like_a_value(text: str) -> bool:
    return without_values(text) != text


class _Drawing:
    """A line as it is shown; knows where each position of the document's line came to stand."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._starts: list[int] = []
        self._pieces: list[tuple[int, int, bool]] = []

    def copy(self, line: str, start: int, end: int) -> None:
        """What is written there, escaped."""
        piece = line[start:end]
        if piece.isascii() and piece.isprintable():
            self._put(start, end, piece, moves=True)
            return
        for position, char in enumerate(piece, start):
            self._put(position, position + 1, char if " " <= char <= "~" else ascii(char)[1:-1], moves=False)

    def mask(self, start: int, end: int) -> None:
        """Something stands there."""
        self._put(start, end, _MASK, moves=False)

    def gap(self) -> None:
        """What follows stands apart."""
        self._add(" ")

    def excerpt(self, number: int, wanted: int) -> LineExcerpt:
        """The line so far, with its caret where the position ``wanted`` of the document's line came to stand."""
        text = "".join(self._parts)
        caret = self._size
        at = bisect_right(self._starts, wanted) - 1
        if at >= 0:
            end, drawn, moves = self._pieces[at]
            if wanted < end:
                caret = drawn + (wanted - self._starts[at] if moves else 0)
        return LineExcerpt(number, text, min(caret, len(text)) + 1)

    def _put(self, start: int, end: int, text: str, *, moves: bool) -> None:
        """``moves``: position by position, as it is written; else all of it stands for each position."""
        if start < end:
            self._starts.append(start)
            self._pieces.append((end, self._size, moves))
        self._add(text)

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)


def _draw_keys_alone(drawing: _Drawing, line: str) -> None:
    position = len(line) - len(line.lstrip(" -"))
    match = _KEY.match(line, position)
    if match is not None and match[1] in EVERY_KEY:
        position = match.end()
    drawing.copy(line, 0, position)
    if position < len(line):
        drawing.mask(position, len(line))


def _draw(drawing: _Drawing, line: str, tokens: list[_Token]) -> None:
    """Structure as written, values where they may be shown; whatever is neither ends or hides what follows."""
    position = _draw_between(drawing, line, 0, tokens[0].start if tokens else len(line))
    for token, following in zip(tokens, [*tokens, None][1:], strict=True):
        limit = len(line) if following is None else following.start
        end = token.end(line) if token.shown else None
        if end is None or end > limit:
            drawing.mask(token.start, limit)
            if following is not None:
                drawing.gap()
            position = limit
        else:
            drawing.copy(line, token.start, end)
            position = _draw_between(drawing, line, end, limit)
    if position < len(line) and not line[position:].lstrip(" ").startswith("#"):
        drawing.mask(position, len(line))


def _draw_between(drawing: _Drawing, line: str, start: int, end: int) -> int:
    """Structure from ``start``; the position where it ended. What is no structure before ``end`` is masked.

    It is a comment at the end of the line, or the end of a value that began on an earlier one.
    """
    position = start
    while position < end and line[position] in _STRUCTURE:
        position += 1
    drawing.copy(line, start, position)
    if position < end < len(line):
        drawing.mask(position, end)
        drawing.gap()
        position = end
    return position
