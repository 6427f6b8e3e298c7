"""Describes limits in words, as differences and reports print them.

>>> limit_words("requests", (Bound(60, 60), Bound(1000, 86400)))
'make 60 requests a minute and 1000 requests a day'
>>> limit_words("wall", (Bound(7200),)), limit_words("tokens", ())
('run for 2h', 'use any number of tokens')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from affiant.policy.model.limits import WINDOWS, Bound, Bounds, Limits

__all__ = ["instead_words", "limit_words", "most_words", "no_rule_words", "profile_limits", "size_words"]

_WINDOW_WORDS: Final[Mapping[int | None, str]] = {
    1: "a second",
    60: "a minute",
    3600: "an hour",
    86400: "a day",
    None: "in a session",
}
_SIZES: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_TIMES: Final = tuple(reversed([(name, length) for name, length in WINDOWS.items() if length > 1]))
_THOUSANDS: Final = (("M", 1_000_000), ("k", 1000))

_PHRASES: Final[Mapping[str, tuple[str, str]]] = {
    "requests": ("make", "requests"),
    "tool_calls": ("make", "tool calls"),
    "rate": ("make", "calls"),
    "tokens": ("use", "tokens"),
    "bytes_out": ("send", "bytes"),
    "max_tokens": ("ask for", "tokens"),
    "max_uses": ("use it in", "requests"),
    "at_most": ("start", "sessions of it"),
    "wall": ("run for", ""),
}
"""Of each limit: what the agent does, and of what."""


def most_words(name: str, bounds: Bounds) -> str:
    """The most that ``bounds`` let through, of which there is one at least: ``at most 60 requests a minute``."""
    verb, _ = _PHRASES[name]
    return f"at most {limit_words(name, bounds).removeprefix(f'{verb} ')}"


def limit_words(name: str, bounds: Bounds) -> str:
    """What ``bounds`` let an agent do."""
    verb, noun = _PHRASES[name]
    if name == "wall":
        return f"{verb} {_short(bounds[0].most, _TIMES, 's') if bounds else 'as long as its session lives'}"
    if not bounds:
        return f"{verb} any number of {noun}"
    return f"{verb} " + " and ".join(_amount(name, noun, bound) for bound in bounds)


def _amount(name: str, noun: str, bound: Bound) -> str:
    window = "in one request" if name == "max_tokens" else _WINDOW_WORDS[bound.per]
    if name == "bytes_out":
        return f"{size_words(bound.most)} {window}"
    shown = _short(bound.most, _THOUSANDS, "") if name in ("tokens", "max_tokens") else str(bound.most)
    return f"{shown} {noun} {window}"


def size_words(size: int) -> str:
    """So many bytes: ``2GiB``."""
    return _short(size, _SIZES, "B")


def _short(value: int, units: tuple[tuple[str, int], ...], least: str) -> str:
    """A number in the largest unit that says it exactly."""
    return next((f"{value // size}{unit}" for unit, size in units if value % size == 0), f"{value}{least}")


def no_rule_words(name: str) -> str:
    """What a rule that is not there lets an agent do."""
    return f"{_PHRASES[name][0]} none by such a rule"


def instead_words(old: str, new: str) -> str:
    """A change from one to another, in a sentence that says each word once.

    >>> instead_words("make 60 requests a minute", "make 200 requests a minute")
    'may now make 200 requests a minute instead of 60'
    """
    before, after = old.split(), new.split()
    differing = [word for word, other in zip(before, after, strict=False) if word != other]
    if len(before) == len(after) and len(differing) == 1:
        return f"may now {new} instead of {differing[0]}"
    verb = max((verb for verb, _ in _PHRASES.values() if old.startswith(f"{verb} ")), key=len)
    return f"may now {new} instead of {old.removeprefix(f'{verb} ')}"


def profile_limits(limits: Limits) -> Iterator[tuple[str, Bounds]]:
    """Every limit of a profile that there can be, with its bounds; ``wall`` as one bound of seconds."""
    yield "tool_calls", limits.tool_calls
    yield "requests", limits.requests
    yield "tokens", limits.tokens
    yield "bytes_out", limits.bytes_out
    yield "wall", () if limits.wall is None else (Bound(limits.wall),)
