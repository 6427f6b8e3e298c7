r"""Patterns over the text of an argument: a regular language that is decided in one step for each character.

A part of what every engine of regular expressions reads alike: printable ASCII characters, ``[a-z0-9_-]``, ``(a|b)``,
``?``, ``*``, ``+``, ``{2}``, ``{1,40}``, and ``\`` before a character that would mean something else. Always the whole
text must fit, so there are no anchors. Nothing is in it whose meaning differs between engines or is easily misread:
no ``.``, ``[^a]``, ``\d`` or ``\w`` (which of Unicode?), no look-around, no back-reference.

A pattern becomes a deterministic automaton when it is loaded (positions: Glushkov 1961; subsets: Rabin, Scott 1959).
One that would become too large is refused there, so that no text takes longer than its length; and two patterns can
be compared exactly (:mod:`.pattern_texts`).

>>> versions = automaton(r"v[0-9]{1,3}(\.[0-9]{1,3})?")
>>> [versions.fits(text) for text in ("v1", "v1.20", "v1.", "xv1")], versions.longest, versions.shortest
([True, True, False, False], 8, 'v0')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from affiant.policy.refusals import ValueRefused, excerpt

__all__ = ["MAX_PATTERN", "Automaton", "automaton"]

MAX_PATTERN: Final = 256
"""Characters of a pattern."""
_MAX_POSITIONS: Final = 512
_MAX_STATES: Final = 1024
_MAX_NESTED: Final = 16
_MEANING: Final = frozenset("\\^$.|?*+()[]{}")
_COUNT: Final = re.compile(r"\{([0-9]{1,3})(,([0-9]{1,3})?)?\}")


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic automaton; its states are numbers, 0 is where it begins, and from each a text of it can end.

    Args:
        steps: state -> character -> next state. accepting: the states in which a text may end.
    """

    steps: Sequence[Mapping[str, int]]
    accepting: frozenset[int]

    def fits(self, text: str) -> bool:
        """Whether all of ``text`` is of the language."""
        state = 0
        for char in text:
            reached = self.steps[state].get(char)
            if reached is None:
                return False
            state = reached
        return state in self.accepting

    @cached_property
    def longest(self) -> int | None:
        """Characters of its longest text; None: there is none."""
        left = [len({*step.values()}) for step in self.steps]
        before: list[set[int]] = [set() for _ in self.steps]
        for state, step in enumerate(self.steps):
            for reached in step.values():
                before[reached].add(state)
        ended = [state for state, count in enumerate(left) if count == 0]
        lengths = dict.fromkeys(ended, 0)
        for state in ended:  # grows: each state once all that follow it are known
            for earlier in before[state]:
                lengths[earlier] = max(lengths.get(earlier, 0), lengths[state] + 1)
                left[earlier] -= 1
                if left[earlier] == 0:
                    ended.append(earlier)
        return lengths[0] if len(ended) == len(self.steps) else None

    @cached_property
    def shortest(self) -> str:
        """The first of its shortest texts."""
        seen, found = {0}, [(0, "")]
        for state, text in found:  # grows
            if state in self.accepting:
                return text
            for char in sorted(self.steps[state]):
                reached = self.steps[state][char]
                if reached not in seen:
                    seen.add(reached)
                    found.append((reached, text + char))
        raise AssertionError("a state from which no text can end")


@lru_cache(maxsize=1024)
def automaton(pattern: str) -> Automaton:
    """The automaton of a pattern, made once.

    Raises:
        ValueRefused: of another syntax, or too large.
    """
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise ValueRefused("a pattern of this length", expected=f"1 to {MAX_PATTERN} characters")
    return _determined(_Parser(pattern).parse())


# -- positions --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Positions:
    """Each place of the pattern at which one character is read, and which may follow which."""

    chars: list[frozenset[str]] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)

    def one(self, chars: frozenset[str]) -> _Part:
        """A part that is one character."""
        if len(self.chars) == _MAX_POSITIONS:
            raise _too_large()
        self.chars.append(chars)
        self.follow.append(set())
        at = len(self.chars) - 1
        return _Part(empty=False, first={at}, last={at})

    def joined(self, before: _Part, after: _Part) -> _Part:
        """One part after another."""
        for last in before.last:
            self.follow[last] |= after.first
        return _Part(
            before.empty and after.empty,
            before.first | after.first if before.empty else before.first,
            before.last | after.last if after.empty else after.last,
        )

    def repeated(self, part: _Part) -> _Part:
        """A part, once or more often."""
        for last in part.last:
            self.follow[last] |= part.first
        return part

    def copied(self, part: _Part, *, begin: int, end: int) -> _Part:
        """The same part again: its positions are ``begin`` up to ``end``, and go no further."""
        by = len(self.chars) - begin
        if end + by > _MAX_POSITIONS:
            raise _too_large()
        self.chars += self.chars[begin:end]
        self.follow += [
            {at + by for at in self.follow[each] if begin <= at < end} for each in range(begin, end)
        ]
        return _Part(part.empty, {at + by for at in part.first}, {at + by for at in part.last})


@dataclass(slots=True)
class _Part:
    """A part of a pattern: whether it may be empty, at which positions it may begin, and at which end."""

    empty: bool
    first: set[int]
    last: set[int]

    @staticmethod
    def nothing() -> _Part:
        return _Part(empty=True, first=set(), last=set())

    def or_(self, other: _Part) -> _Part:
        return _Part(self.empty or other.empty, self.first | other.first, self.last | other.last)

    def optional(self) -> _Part:
        return _Part(empty=True, first=self.first, last=self.last)


# -- syntax -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Parser:
    text: str
    at: int = 0
    nested: int = 0
    positions: _Positions = field(default_factory=_Positions)

    def parse(self) -> tuple[_Positions, _Part]:
        whole = self._choice()
        if self.at < len(self.text):
            raise self._refused("a ')' that closes nothing")
        return self.positions, whole

    def _choice(self) -> _Part:
        found = self._sequence()
        while self._take("|"):
            found = found.or_(self._sequence())
        return found

    def _sequence(self) -> _Part:
        found, begin = _Part.nothing(), self.at
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            found = self.positions.joined(found, self._counted())
        if self.at == begin:
            raise self._refused(
                "nothing, where a character was expected", hint="What may be left out has a '?' after it"
            )
        return found

    def _counted(self) -> _Part:
        begin = len(self.positions.chars)
        part = self._atom()
        end = len(self.positions.chars)
        if self._take("?"):
            part = part.optional()
        elif self._take("*"):
            part = self.positions.repeated(part).optional()
        elif self._take("+"):
            part = self.positions.repeated(part)
        elif self._peek("{"):
            part = self._times(part, begin, end)
        else:
            return part
        if self.at < len(self.text) and self.text[self.at] in "?*+{":
            raise self._refused(
                "two counts of one thing", hint="Put what is counted twice in brackets: (a{2}){3}"
            )
        return part

    def _times(self, part: _Part, begin: int, end: int) -> _Part:
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
        whole = _Part.nothing()
        copies = max(least, 1) if most is None else most
        for number in range(copies):
            again = self.positions.copied(part, begin=begin, end=end) if number else part
            if most is None and number == copies - 1:
                again = self.positions.repeated(again)
            whole = self.positions.joined(whole, again if number < least else again.optional())
        return whole

    def _atom(self) -> _Part:
        char = self.text[self.at]
        if char == "(":
            return self._group()
        if char == "[":
            return self.positions.one(self._class())
        return self.positions.one(frozenset(self._char("outside of [ ]")))

    def _group(self) -> _Part:
        self.at += 1
        self.nested += 1
        if self.nested > _MAX_NESTED:
            raise _too_large()
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


def _too_large() -> ValueRefused:
    return ValueRefused(
        "a pattern that is too large",
        expected=f"at most {_MAX_POSITIONS} places and {_MAX_STATES} states",
        hint="Count less, or write 'max_len' beside a '*'",
    )


# -- states -----------------------------------------------------------------------------------------------------------


def _determined(parsed: tuple[_Positions, _Part]) -> Automaton:
    """By subsets of positions; each state is the positions that may be read next, and whether the text may end."""
    positions, whole = parsed
    begin = (frozenset(whole.first), whole.empty)
    numbers, order = {begin: 0}, [begin]
    steps: list[Mapping[str, int]] = []
    for state, _ in order:  # grows
        step: dict[str, int] = {}
        for chars in _apart(positions.chars[at] for at in state):
            one = next(iter(chars))
            read = [at for at in state if one in positions.chars[at]]
            reached = (
                frozenset[int]().union(*(positions.follow[at] for at in read)),
                not whole.last.isdisjoint(read),
            )
            if reached not in numbers:
                if len(numbers) == _MAX_STATES:
                    raise _too_large()
                numbers[reached] = len(numbers)
                order.append(reached)
            step.update(dict.fromkeys(chars, numbers[reached]))
        steps.append(step)
    return Automaton(tuple(steps), frozenset(number for (_, ends), number in numbers.items() if ends))


def _apart(sets: Iterable[frozenset[str]]) -> Sequence[frozenset[str]]:
    """The coarsest parts of the union of ``sets`` that each of them holds wholly or not at all."""
    parts: list[frozenset[str]] = []
    for each in {*sets}:
        split = [piece for part in parts for piece in (part & each, part - each) if piece]
        rest = each.difference(*parts)
        parts = [*split, rest] if rest else split
    return parts
