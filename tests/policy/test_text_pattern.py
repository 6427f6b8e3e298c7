"""Patterns: held against an engine of regular expressions, and against whoever wants them slow or misread."""

from __future__ import annotations

import random
import re
import time

import pytest

from affiant.policy.refusals import ValueRefused
from affiant.policy.text_pattern import MAX_PATTERN, Automaton, automaton

ATOMS = [*"abc", "[ab]", "[a-c]", "[b-]", "[]a]".replace("[]", "[\\]"), "\\.", "\\-", "\\["]
COUNTS = ["", "?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}", "{0,}"]


def some_pattern(source: random.Random, depth: int) -> str:
    if depth == 0 or source.random() < 0.3:
        return source.choice(ATOMS)
    kind = source.randrange(3)
    parts = [some_pattern(source, depth - 1) for _ in range(source.randrange(1, 4))]
    if kind == 0:
        return f"({'|'.join(parts)})"
    return "".join(parts) if kind == 1 else f"({parts[0]}){source.choice(COUNTS)}"


def walked(found: Automaton, source: random.Random) -> str | None:
    """A text of the language, by chance; None where the way was too long."""
    state, text = 0, ""
    for _ in range(12):
        if state in found.accepting and (not found.steps[state] or source.random() < 0.3):
            return text
        char = source.choice(sorted(found.steps[state]))
        state, text = found.steps[state][char], text + char
    return None


@pytest.mark.parametrize("seed", range(6))
def test_a_text_fits_exactly_where_a_regular_expression_fits_the_whole_of_it(seed: int) -> None:
    source, fitting = random.Random(seed), 0
    for _ in range(120):
        pattern = some_pattern(source, 3)
        found, known = automaton(pattern), re.compile(pattern)
        texts = ["".join(source.choices("abc.-[]x\n", k=source.randrange(6))) for _ in range(20)]
        texts += [text for _ in range(5) if (text := walked(found, source)) is not None]
        for text in [*texts, found.shortest]:
            assert found.fits(text) == (known.fullmatch(text) is not None), (pattern, text)
            fitting += found.fits(text)
            assert not found.fits(text) or found.longest is None or len(text) <= found.longest
    assert fitting > 300


@pytest.mark.parametrize(
    ("pattern", "longest", "shortest"),
    [
        ("a", 1, "a"),
        ("a?", 1, ""),
        ("a*", None, ""),
        ("a{2,}", None, "aa"),
        ("(a|bc){2,3}d?", 7, "aa"),
        ("[b-d][+-]", 2, "b+"),
        (r"\{\}\\\.", 4, "{}\\."),
        ("a-b", 3, "a-b"),
        ("[^-^]".replace("[^-^]", r"[\^-\^]"), 1, "^"),
        ("((a?){16}){16}", 256, ""),
    ],
)
def test_the_longest_and_the_shortest_text(pattern: str, longest: int | None, shortest: str) -> None:
    found = automaton(pattern)
    assert (found.longest, found.shortest) == (longest, shortest)
    assert found.fits(shortest)


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a**", "a+?", "a{2}?", "a{2}{3}", "*a", "+", "?", "{2}", "(*a)"),
        *("(a", "a)", "()", "(|a)", "a|", "|", "(?i)a", "(?:a)", "(?=a)b", "(?<x>a)", "a||b"),
        *(
            "[",
            "[]",
            "[a",
            "[^a]",
            "[z-a]",
            "[[:alpha:]]",
            "[a[b]]",
            "[a-",
            "]",
            "}",
            "a{",
            "a{,2}",
            "a{3,2}",
            "a{0}",
        ),
        *(
            "a{1000}",
            "a{ 1}",
            "a{1,2",
            "^a",
            "a$",
            ".",
            "a.*b",
            r"\d",
            r"\w",
            r"\s",
            r"\x41",
            r"\1",
            r"\n",
            "\\",
        ),
        *(
            "\u00e9",
            "a\tb",
            "a\nb",
            "\x00",
            "[\u00e9]",
            "\u212a",
            "a" * (MAX_PATTERN + 1),
            "(" * 40 + "a" + ")" * 40,
        ),
        "(a|b)*a(a|b){12}",
        "(((((a{5}){5}){5}){5}){5})",
        "[a-z]{513}",
    ],
)
def test_what_engines_read_differently_or_slowly_is_refused(pattern: str) -> None:
    with pytest.raises(ValueRefused) as refusal:
        automaton(pattern)
    assert refusal.value.code == "policy.value"
    assert str(refusal.value).isascii() and str(refusal.value).isprintable()


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a*)*b", "(a|a)*b", "(a?){64}a{64}", "([a-z]+)*b", "(x+x+)+y"]
)
def test_no_pattern_makes_a_text_slow(pattern: str) -> None:
    """Each takes a backtracking engine longer than anybody waits."""
    found = automaton(pattern)
    begin = time.process_time()
    assert not found.fits("a" * 65_000 + "!")
    assert time.process_time() - begin < 1


def test_a_refusal_says_where_and_what_to_write() -> None:
    with pytest.raises(ValueRefused, match=r"after 'v'") as refusal:
        automaton("v.x")
    assert refusal.value.expected == "\\. for the character itself"
    assert "[a-z0-9]" in (refusal.value.hint or "")
