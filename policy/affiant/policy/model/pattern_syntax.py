r"""Parses the text of a pattern into a tree that knows its size and the lengths of its texts.

Reading takes time in proportion to the pattern's length: what it would become is told from sums alone
(``text_pattern`` says what the syntax is, and makes the automaton).

>>> tree = read_pattern(r"v[0-9]{1,3}(\.[0-9]{1,3})?")
>>> tree.places, tree.shortest, tree.longest
(8, 2, 8)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from affiant.policy.canonical.errors import ValueRefused, excerpt

__all__ = ["MAX_PATTERN", "MAX_PLACES", "Choice", "Counted", "Joined", "One", "Tree", "read_pattern"]

MAX_PATTERN: Final = 256
"""Characters of a pattern."""
MAX_PLACES: Final = 512
"""Places at which it reads one character, once counts are written out."""
_MAX_NESTED: Final = 16
_MEANING: Final = frozenset("\\^$.|?*+()[]{}")
_COUNT: Final = re.compile(r"\{([0-9]{1,3})(,([0-9]{1,3})?)?\}")


@dataclass(frozen=True, slots=True)
class One:
    """One of some characters."""

    chars: frozenset[str]
    places: int = field(default=1, init=False)
    shortest: int = field(default=1, init=False)
    longest: int | None = field(default=1, init=False)


@dataclass(frozen=True, slots=True)
class Joined:
    """One part after another."""

    parts: Sequence[Tree]
    places: int = field(init=False)
    shortest: int = field(init=False)
    longest: int | None = field(init=False)

    def __post_init__(self) -> None:
        longest = [part.longest for part in self.parts]
        ended = [length for length in longest if length is not None]
        _measured(
            self,
            places=sum(part.places for part in self.parts),
            shortest=sum(part.shortest for part in self.parts),
            longest=sum(ended) if len(ended) == len(longest) else None,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some parts."""

    parts: Sequence[Tree]
    places: int = field(init=False)
    shortest: int = field(init=False)
    longest: int | None = field(init=False)

    def __post_init__(self) -> None:
        longest = [part.longest for part in self.parts]
        ended = [length for length in longest if length is not None]
        _measured(
            self,
            places=sum(part.places for part in self.parts),
            shortest=min(part.shortest for part in self.parts),
            longest=max(ended) if len(ended) == len(longest) else None,
        )


@dataclass(frozen=True, slots=True)
class Counted:
    """A part from ``least`` to ``most`` times; ``most`` None: without end."""

    part: Tree
    least: int
    most: int | None
    places: int = field(init=False)
    shortest: int = field(init=False)
    longest: int | None = field(init=False)

    def __post_init__(self) -> None:
        each = self.part.longest
        _measured(
            self,
            places=self.part.places * (max(self.least, 1) if self.most is None else self.most),
            shortest=self.part.shortest * self.least,
            longest=None if each is None or self.most is None else each * self.most,
        )


Tree = One | Joined | Choice | Counted


def _measured(tree: Joined | Choice | Counted, *, places: int, shortest: int, longest: int | None) -> None:
    if places > MAX_PLACES:
        raise ValueRefused(
            "a pattern that is too large",
            expected=f"at most {MAX_PLACES} places, once counts are written out",
            hint="Count less, or write 'max_len' beside a '*'",
        )
    for name, value in (("places", places), ("shortest", shortest), ("longest", longest)):
        object.__setattr__(tree, name, value)


@lru_cache(maxsize=64)
def read_pattern(pattern: str) -> Tree:
    """The tree of a pattern.

    Raises:
        ValueRefused: of another syntax, or of too many places.
    """
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise ValueRefused("a pattern of this length", expected=f"1 to {MAX_PATTERN} characters")
    return _Reader(pattern).read()


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    nested: int = 0

    def read(self) -> Tree:
        whole = self._choice()
        if self.at < len(self.text):
            raise self._refused("a ')' that closes nothing")
        return whole

    def _choice(self) -> Tree:
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        return found[0] if len(found) == 1 else Choice(tuple(found))

    def _sequence(self) -> Tree:
        found: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            found.append(self._counted())
        if not found:
            raise self._refused(
                "nothing, where a character was expected", hint="What may be left out has a '?' after it"
            )
        return found[0] if len(found) == 1 else Joined(tuple(found))

    def _counted(self) -> Tree:
        part = self._atom()
        if self._take("?"):
            part = Counted(part, 0, 1)
        elif self._take("*"):
            part = Counted(part, 0, None)
        elif self._take("+"):
            part = Counted(part, 1, None)
        elif self._peek("{"):
            part = Counted(part, *self._times())
        else:
            return part
        if self.at < len(self.text) and self.text[self.at] in "?*+{":
            raise self._refused(
                "two counts of one thing", hint="Put what is counted twice in brackets: (a{2}){3}"
            )
        return part

    def _times(self) -> tuple[int, int | None]:
        found = _COUNT.match(self.text, self.at)
        if found is None:
            raise self._refused("not a count", expected="{2}, {2,} or {2,40}")
        least = int(found[1])
        most = least if found[2] is None else None if found[3] is None else int(found[3])
        if most == 0 or (most is not None and most < least):
            raise self._refused(
                "a count that nothing has", expected="at least 1, and not less than its beginning"
            )
        self.at = found.end()
        return least, most

    def _atom(self) -> Tree:
        char = self.text[self.at]
        if char == "(":
            return self._group()
        if char == "[":
            return One(self._class())
        return One(frozenset(self._char("outside of [ ]")))

    def _group(self) -> Tree:
        self.at += 1
        self.nested += 1
        if self.nested > _MAX_NESTED:
            raise self._refused(f"more than {_MAX_NESTED} brackets in each other")
        if self._peek("?"):
            raise self._refused("'(?'", expected="brackets that group, without flags or look-around")
        found = self._choice()
        if not self._take(")"):
            raise self._refused("the end of the pattern", expected="')'")
        self.nested -= 1
        return found

    def _class(self) -> frozenset[str]:
        self.at += 1
        if self._peek("^"):
            raise self._refused("'[^'", expected="the characters that there may be, such as [a-z0-9]")
        found: set[str] = set()
        while not self._take("]"):
            first = last = self._char("in [ ]")
            if self._peek("-") and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self._char("in [ ]")
            if first > last:
                raise self._refused(f"a range from {first!r} back to {last!r}")
            found |= {chr(code) for code in range(ord(first), ord(last) + 1)}
        if not found:
            raise self._refused("'[]'", expected="at least one character")
        return frozenset(found)

    def _char(self, where: str) -> str:
        if self.at >= len(self.text):
            raise self._refused("the end of the pattern", expected="']'")
        char = self.text[self.at]
        if not " " <= char <= "~":
            raise self._refused(
                f"the character {char!a}", expected="printable ASCII", hint="Other texts: 'one_of'"
            )
        self.at += 1
        if char == "\\":
            char = self.text[self.at : self.at + 1]
            if char not in _MEANING and char != "-":
                self.at -= 1
                raise self._refused(
                    f"'\\{char}'", expected="'\\' before a character that means something", hint="[0-9]"
                )
            self.at += 1
        elif char in (_MEANING if where.startswith("outside") else "[\\^"):
            self.at -= 1
            raise self._refused(
                f"{char!r} {where}", expected=f"\\{char} for the character itself", hint=_WHY.get(char, "")
            )
        return char

    def _peek(self, char: str) -> bool:
        return self.text.startswith(char, self.at)

    def _take(self, char: str) -> bool:
        found = self._peek(char)
        self.at += found
        return found

    def _refused(self, found: str, *, expected: str = "", hint: str = "") -> ValueRefused:
        place = excerpt(self.text[: self.at])
        return ValueRefused(
            "not a pattern", expected=expected or None, found=f"{found}, after {place}", hint=hint or None
        )


_WHY: Final = {
    "^": "The whole text must fit anyhow",
    "$": "The whole text must fit anyhow",
    ".": "Name the characters that there may be, such as [a-z0-9]",
}
