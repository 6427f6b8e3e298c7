"""The line that a refusal shows: bounded, plain, and its caret under the place."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.command_line import ErrorShown
from affiant.errors import MalformedError
from affiant.line_excerpt import LineExcerpt

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=400)


@given(TEXT, st.integers(1, 10**6), st.integers(0, 500), st.data())
def test_the_caret_stands_under_its_character_and_nothing_is_wider_than_the_terminal(
    text: str, number: int, width: int, data: st.DataObject
) -> None:
    column = data.draw(st.integers(1, len(text) + 1))
    line, caret = LineExcerpt(number, text, column).lines(width=width)
    assert max(len(line), len(caret)) <= min(max(width, 24), 160)
    position = caret.index("^")
    assert caret.strip(" ") == "| " + " " * (position - caret.index("|") - 2) + "^"
    shown = line[position : position + 1]
    assert shown in {text[column - 1 : column], "", "."}


@pytest.mark.parametrize(
    ("text", "column"), [("a\x1b[2J", 1), ("\u202e", 1), ("a\tb", 1), ("é", 1), ("ab", 4), ("ab", 0)]
)
def test_an_excerpt_that_could_steer_a_terminal_does_not_exist(text: str, column: int) -> None:
    with pytest.raises(ValueError):
        LineExcerpt(1, text, column)


def test_a_refusal_without_a_line_is_one_line_and_one_with_it_three(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = MalformedError("no", where="p.yaml:3:2")
    ErrorShown(error).show()
    assert capsys.readouterr().err == "affiant: refused: p.yaml:3:2: no [malformed]\n"
    error.excerpt = LineExcerpt(3, "abc", 2)
    ErrorShown(error).show()
    assert capsys.readouterr().err.splitlines()[1:] == ["  3 | abc", "    |  ^"]
    assert isinstance(ErrorShown(error), click.ClickException)
    assert "excerpt" not in error.to_json()
