import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.secrets.redaction.search import Match, Searcher

ALPHABET = st.sampled_from(b"ab")
PATTERN = st.lists(ALPHABET, min_size=8, max_size=14).map(bytes)
TEXT = st.lists(ALPHABET, max_size=200).map(bytes)


def plainly(patterns: list[bytes], text: bytes) -> list[tuple[int, int]]:
    """The same by the standard library: alternatives, longest first."""
    ordered = sorted(set(patterns), key=len, reverse=True)
    return [match.span() for match in re.finditer(b"|".join(map(re.escape, ordered)), text)]


@thorough(120)
@given(st.lists(PATTERN, min_size=1, max_size=12), TEXT)
def test_matches_are_those_of_a_plain_alternation(patterns: list[bytes], text: bytes) -> None:
    searcher = Searcher((pattern, key) for key, pattern in enumerate(patterns))
    assert [(match.start, match.end) for match in searcher.matches(text)] == plainly(patterns, text)


@thorough(80)
@given(st.lists(PATTERN, min_size=1, max_size=6), TEXT, st.data())
def test_a_planted_pattern_is_found(patterns: list[bytes], text: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    planted = data.draw(st.sampled_from(patterns))
    searcher = Searcher((pattern, key) for key, pattern in enumerate(patterns))
    assert searcher.matches(text[:at] + planted + text[at:])


def test_the_longest_of_those_that_begin_together_wins() -> None:
    searcher = Searcher([(b"abcdefgh", 0), (b"abcdefghij", 1)])
    assert searcher.matches(b"..abcdefghij") == (Match(2, 12, 1),)
    assert searcher.matches(b"..abcdefghi") == (Match(2, 10, 0),)


def test_nothing_to_look_for_finds_nothing() -> None:
    assert Searcher([]).matches(b"abcdefghij") == ()
    assert Searcher([]).longest == 0


def test_a_short_pattern_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="8 bytes"):
        Searcher([(b"short", 0)])
