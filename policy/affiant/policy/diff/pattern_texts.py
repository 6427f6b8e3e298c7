"""Finds one text for each way in which patterns, texts and lengths can judge a text; used by ``argument_atoms``.

All automata are walked at once, one length after another. Two texts of a length that lead to the same states are judged
alike by all of them, and so is whatever follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.model.text_pattern import Automaton

__all__ = ["judged_texts"]

_MAX_STEPS: Final = 200_000
_PREFERRED: Final = "xyzabcdefghijklmnopqrstuvwABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- "
_UNPRINTABLE: Final = "\x7f"
"""In no pattern and in no text of a profile, and one byte: a long text of it is still no call that is too large."""

_States = tuple[int | None, ...]
"""Where each automaton is; None: no text that begins so fits it."""


def judged_texts(
    patterns: Sequence[Automaton], *, literals: Sequence[str], bounds: Sequence[int]
) -> Sequence[str] | None:
    """Texts of which one stands for every text; None where they are too many to walk.

    Args:
        patterns: one that has no longest text must have its bound among ``bounds``: longer texts do not fit it.
        literals: texts that are judged by themselves; they are among the answer.
        bounds: lengths that are judged: at most so many characters, or more.
    """
    automata = (*patterns, _one_of(literals))
    lengths = [each.longest for each in automata if each.longest is not None]
    walk = _Walk(automata, _letters(automata), tuple(sorted({*bounds})), max([*bounds, *lengths]) + 1)
    found = walk.texts()
    if found is None:
        return None
    known = {char for each in automata for step in each.steps for char in step}
    strange = next(char for char in _PREFERRED + _UNPRINTABLE if char not in known)
    of_none = (strange * length for bound in walk.bounds for length in (bound, bound + 1))
    apart: dict[object, str] = {}
    for text in (*literals, *found, "", strange, *of_none):
        fits = (text if text in literals else None, *(each.fits(text) for each in patterns))
        apart.setdefault((*fits, *(len(text) <= bound for bound in walk.bounds)), text)
    return list(apart.values())


def _one_of(texts: Sequence[str]) -> Automaton:
    steps: list[dict[str, int]] = [{}]
    accepting = set()
    for text in texts:
        state = 0
        for char in text:
            reached = steps[state].get(char)
            if reached is None:
                reached = steps[state][char] = len(steps)
                steps.append({})
            state = reached
        accepting.add(state)
    return Automaton(tuple(steps), frozenset(accepting))


def _letters(automata: Sequence[Automaton]) -> Sequence[str]:
    """Of characters that lead to the same place from everywhere, the one that is best to read."""
    known = {char for each in automata for step in each.steps for char in step}
    apart: dict[object, str] = {}
    for char in sorted(known, key=_order):
        apart.setdefault(tuple(step.get(char) for each in automata for step in each.steps), char)
    return tuple(apart.values())


def _order(char: str) -> tuple[int, str]:
    at = _PREFERRED.find(char)
    return (at if at >= 0 else len(_PREFERRED), char)


@dataclass(frozen=True, slots=True)
class _Walk:
    automata: Sequence[Automaton]
    letters: Sequence[str]
    bounds: Sequence[int]
    last: int
    """No longer text fits anything."""

    def texts(self) -> Sequence[str] | None:
        """The first text of each judgement, as far as something fits what begins so; None after too many steps."""
        layer: Mapping[_States, str] = {(0,) * len(self.automata): ""}
        found: dict[object, str] = {}
        left = _MAX_STEPS
        for length in range(self.last + 1):
            for states, text in layer.items():
                found.setdefault(self._judgement(states, length), text)
            left -= len(layer) * len(self.letters)
            if left < 0:
                return None
            layer = dict(self._after(layer))
        return list(found.values())

    def _judgement(self, states: _States, length: int) -> object:
        fits = (state in each.accepting for state, each in zip(states, self.automata, strict=True))
        return (*fits, *(length <= bound for bound in self.bounds))

    def _after(self, layer: Mapping[_States, str]) -> Iterator[tuple[_States, str]]:
        seen: set[_States] = {(None,) * len(self.automata)}
        for states, text in layer.items():
            for char in self.letters:
                reached = tuple(
                    None if state is None else each.steps[state].get(char)
                    for state, each in zip(states, self.automata, strict=True)
                )
                if reached not in seen:
                    seen.add(reached)
                    yield reached, text + char
