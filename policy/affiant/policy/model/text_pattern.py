r"""Patterns over the text of an argument: regular languages, decided in one step for each character.

A part of what every engine of regular expressions reads alike: printable ASCII characters, ``[a-z0-9_-]``, ``(a|b)``,
``?``, ``*``, ``+``, ``{2}``, ``{1,40}``, and ``\`` before a character that would mean something else. Always the whole
text must fit, so there are no anchors. Nothing is in it whose meaning differs between engines or is easily misread:
no ``.``, ``[^a]``, ``\d`` or ``\w`` (which of Unicode?), no look-around, no back-reference.

A pattern becomes a deterministic automaton when its profile is loaded (positions: Glushkov 1961; subsets: Rabin, Scott
1959). One that would become too large is refused there, so that no text takes longer than its length; and two patterns
can be compared exactly (``pattern_texts``). What making automata costs is counted, and bounded for each pattern,
for all patterns of a profile and for all of a file: who writes a profile cannot make its reader work for minutes.

>>> versions = automaton(r"v[0-9]{1,3}(\.[0-9]{1,3})?")
>>> [versions.fits(text) for text in ("v1", "v1.20", "v1.", "xv1")], versions.longest, versions.shortest
([True, True, False, False], 8, 'v0')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from threading import Lock
from typing import Final

from affiant.policy.canonical.errors import ValueRefused, excerpt
from affiant.policy.model.pattern_syntax import Choice, Counted, Joined, One, Tree, read_pattern

__all__ = [
    "MAX_WORK",
    "MAX_WORK_OF_FILE",
    "MAX_WORK_OF_PROFILE",
    "Automaton",
    "Work",
    "automaton",
]

_MAX_STATES: Final = 1024
MAX_WORK: Final = 200_000
"""Steps and entries that the automaton of one pattern may cost to make."""
MAX_WORK_OF_PROFILE: Final = 4 * MAX_WORK
"""The same, of all patterns of a profile that differ."""
MAX_WORK_OF_FILE: Final = 4 * MAX_WORK_OF_PROFILE
"""The same, of all patterns of a file."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic automaton; its states are numbers, 0 is where it begins, and from each a text of it can end.

    Args:
        steps: state -> character -> next state. accepting: the states in which a text may end. work: what it cost to
            make, in steps and entries.
    """

    steps: Sequence[Mapping[str, int]]
    accepting: frozenset[int]
    work: int = 0

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


def automaton(pattern: str) -> Automaton:
    """The automaton of a pattern.

    Raises:
        ValueRefused: of another syntax, or too large.
    """
    known = _KEPT.get(pattern)
    if known is None:
        cost = _Cost(pattern)
        positions = _Positions(cost)
        known = _KEPT.keep(pattern, _determined(positions, positions.of(read_pattern(pattern))))
    return known


class _Kept:
    """Automata that were made, as many as hold no more than those of a file: those that were asked for last."""

    def __init__(self) -> None:
        self._made: dict[str, Automaton] = {}
        self._work = 0
        self._lock = Lock()

    def get(self, pattern: str) -> Automaton | None:
        with self._lock:
            found = self._made.pop(pattern, None)
            if found is not None:
                self._made[pattern] = found
            return found

    def keep(self, pattern: str, made: Automaton) -> Automaton:
        with self._lock:
            if pattern not in self._made:
                self._made[pattern] = made
                self._work += made.work
            while self._work > MAX_WORK_OF_FILE + MAX_WORK:
                self._work -= self._made.pop(next(iter(self._made))).work
        return made


_KEPT: Final = _Kept()


@dataclass(slots=True)
class Work:
    """What making the automata of some patterns cost; each pattern counts once.

    Args:
        most: of all of them. what: whose patterns they are, for refusals.
    """

    most: int
    what: str
    spent: int = 0
    counted: set[str] = field(default_factory=set)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is made."""
        return self.spent > self.most

    def spend(self, pattern: str, make: Callable[[], Automaton]) -> None:
        """Have a pattern's automaton made, and count it; where nothing is left, it is not made.

        Raises:
            ValueRefused: this one is too large, or costs more than the bound with those before it.
        """
        if pattern in self.counted:
            return
        self.counted.add(pattern)
        if not self.is_spent:
            self.spent += MAX_WORK  # what one that is refused may have cost
            self.spent += make().work - MAX_WORK
        if self.is_spent:
            raise ValueRefused(
                f"the patterns of {self.what} are too large together",
                expected=f"at most {self.most} steps and entries of their automata",
                found=f"{self.spent} with {excerpt(pattern)}",
                hint="Count less in each, or use 'one_of', 'under' or 'host'",
            )


@dataclass(slots=True)
class _Cost:
    """What one automaton cost until now."""

    pattern: str
    spent: int = 0

    def add(self, entries: int) -> None:
        self.spent += entries
        if self.spent > MAX_WORK:
            raise self.too_large()

    def too_large(self) -> ValueRefused:
        return ValueRefused(
            "a pattern that is too large",
            expected=f"at most {_MAX_STATES} states and {MAX_WORK} steps and entries of its automaton",
            found=excerpt(self.pattern),
            hint="Count less, or write 'max_len' beside a '*'",
        )


# -- positions --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Positions:
    """Each place of the pattern at which one character is read, and which may follow which."""

    cost: _Cost
    chars: list[frozenset[str]] = field(default_factory=list)
    follow: list[set[int]] = field(default_factory=list)

    def of(self, tree: Tree) -> _Part:
        """The positions of ``tree``, new ones each time."""
        match tree:
            case One(chars):
                return self._one(chars)
            case Joined(parts):
                return reduce(self._joined, map(self.of, parts))
            case Choice(parts):
                return reduce(_Part.or_, map(self.of, parts))
            case Counted(part, least, most):
                return self._times(part, least, most)

    def _one(self, chars: frozenset[str]) -> _Part:
        self.chars.append(chars)
        self.follow.append(set())
        at = len(self.chars) - 1
        return _Part(empty=False, first={at}, last={at})

    def _joined(self, before: _Part, after: _Part) -> _Part:
        self._after(before.last, after.first)
        return _Part(
            before.empty and after.empty,
            before.first | after.first if before.empty else before.first,
            before.last | after.last if after.empty else after.last,
        )

    def _times(self, part: Tree, least: int, most: int | None) -> _Part:
        """What may be left out stands in what may be left out, ``x(x(x)?)?``: so each copy is followed by one."""
        found: _Part | None = None
        for _ in range(0 if most is None else most - least):
            again = self.of(part)
            found = (again if found is None else self._joined(again, found)).optional()
        if most is None:
            found = self.of(part)
            self._after(found.last, found.first)
            if least == 0:
                return found.optional()
            least -= 1
        for _ in range(least):
            again = self.of(part)
            found = again if found is None else self._joined(again, found)
        assert found is not None  # 'most' is at least one
        return found

    def _after(self, last: set[int], first: set[int]) -> None:
        self.cost.add(len(last) * len(first))
        for each in last:
            self.follow[each] |= first


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


# -- states -----------------------------------------------------------------------------------------------------------


def _determined(positions: _Positions, whole: _Part) -> Automaton:
    """By subsets of positions; each state is the positions that may be read next, and whether the text may end."""
    cost = positions.cost
    begin = (frozenset(whole.first), whole.empty)
    numbers, order = {begin: 0}, [begin]
    steps: list[Mapping[str, int]] = []
    for state, _ in order:  # grows
        step: dict[str, int] = {}
        for chars in _apart(positions.chars[at] for at in state):
            one = next(iter(chars))
            read = [at for at in state if one in positions.chars[at]]
            cost.add(len(state) + len(chars) + sum(len(positions.follow[at]) for at in read))
            reached = (
                frozenset[int]().union(*(positions.follow[at] for at in read)),
                not whole.last.isdisjoint(read),
            )
            if reached not in numbers:
                if len(numbers) == _MAX_STATES:
                    raise cost.too_large()
                numbers[reached] = len(numbers)
                order.append(reached)
            step.update(dict.fromkeys(chars, numbers[reached]))
        steps.append(step)
    ends = frozenset(number for (_, end), number in numbers.items() if end)
    return Automaton(tuple(steps), ends, cost.spent)


def _apart(sets: Iterable[frozenset[str]]) -> Sequence[frozenset[str]]:
    """The coarsest parts of the union of ``sets`` that each of them holds wholly or not at all."""
    parts: list[frozenset[str]] = []
    for each in {*sets}:
        split = [piece for part in parts for piece in (part & each, part - each) if piece]
        rest = each.difference(*parts)
        parts = [*split, rest] if rest else split
    return parts
