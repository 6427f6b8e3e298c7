"""Finds any of many long patterns in bytes, fast enough in Python for every response.

Every pattern is at least ``shortest`` bytes long. An occurrence of one therefore covers, with the 4 bytes at
one of its first ``shortest - 3`` positions, one of the places that lie ``shortest - 3`` apart: it is enough to
look up 4 bytes at every such place in a table of all those 4-byte grams (the idea of Wu and Manber, 1994), and
to go on only where the table answers: then the ``shortest`` bytes that would begin a pattern are looked up in
a second table. Nothing else is looked at, and text full of ``\\u00`` or ``&#`` costs little more than any other.

Matches are leftmost, then longest, and do not overlap, whatever the order of the patterns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

__all__ = ["Match", "Searcher"]

_GRAM: Final = 4
_SHORTEST: Final = 8


class Match(NamedTuple):
    """``data[start:end]`` is an encoding that belongs to ``key``."""

    start: int
    end: int
    key: int


class Searcher:
    """A compiled set of patterns.

    Args:
        patterns: pairs of a pattern (at least 8 bytes) and the key that its matches carry.
    """

    __slots__ = ("_beginnings", "_grams", "_openings", "_ordered", "_shortest", "longest")

    def __init__(self, patterns: Iterable[tuple[bytes, int]]) -> None:
        known = dict(patterns)
        self.longest = max(map(len, known), default=0)
        self._shortest = min(map(len, known), default=_SHORTEST)
        if self._shortest < _SHORTEST:
            raise ValueError(f"patterns are at least {_SHORTEST} bytes long")
        grams: dict[bytes, set[int]] = {}
        beginnings: dict[bytes, list[tuple[bytes, int]]] = {}
        for pattern, key in known.items():
            beginnings.setdefault(pattern[: self._shortest], []).append((pattern, key))
        for beginning in beginnings:
            for offset in range(self._shortest - _GRAM + 1):
                grams.setdefault(beginning[offset : offset + _GRAM], set()).add(offset)
        self._grams = {gram: tuple(offsets) for gram, offsets in grams.items()}
        self._beginnings = beginnings
        self._ordered = sorted(known)
        self._openings = {pattern[:size] for pattern in known for size in (1, 2, 3)}

    def matches(self, data: bytes) -> tuple[Match, ...]:
        """All matches in ``data``, in order, not overlapping."""
        if len(data) <= _GRAM or not self._grams:
            return ()
        found = sorted(self._candidates(data), key=lambda match: (match.start, -match.end))
        chosen: list[Match] = []
        free_from = 0
        for match in found:
            if match.start >= free_from:
                chosen.append(match)
                free_from = match.end
        return tuple(chosen)

    def open_end(self, data: bytes) -> int:
        """Where the longest tail of ``data`` begins with which a pattern begins and goes on; the end if none does."""
        for start in range(max(len(data) - self.longest + 1, 0), len(data)):
            if data[start : start + 3] in self._openings and self._goes_on(data[start:]):
                return start
        return len(data)

    def _goes_on(self, tail: bytes) -> bool:
        after = bisect_right(self._ordered, tail)
        return after < len(self._ordered) and self._ordered[after].startswith(tail)

    def _candidates(self, data: bytes) -> Iterator[Match]:
        grams, beginnings, shortest = self._grams, self._beginnings, self._shortest
        places = range(0, len(data) - _GRAM + 1, shortest - _GRAM + 1)
        for place in [place for place in places if data[place : place + _GRAM] in grams]:
            for offset in grams[data[place : place + _GRAM]]:
                start = place - offset
                if start < 0:
                    continue
                for pattern, key in beginnings.get(data[start : start + shortest], ()):
                    if data.startswith(pattern, start):
                        yield Match(start, start + len(pattern), key)
