"""Names in Markdown, DOT and Mermaid are never markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.policy.rendering.markup import (
    Code,
    dot_text,
    markdown_page,
    markdown_table,
    markdown_text,
    mermaid_text,
)


@given(text=st.text(max_size=40))
def test_a_dot_string_ends_where_the_text_ends(text):
    assert re.fullmatch(r'"(?:[^"\\\n]|\\["\\])*"', dot_text(text))


@given(text=st.text(max_size=40))
def test_a_mermaid_label_holds_plain_characters_and_codes_alone(text):
    assert re.fullmatch(r'"(?:[A-Za-z0-9 ._/:,-]|#[0-9]+;)*"', mermaid_text(text))


@given(text=st.text(max_size=40))
def test_a_cell_has_no_bar_no_tag_and_no_line_of_its_own(text):
    shown = re.sub("<!-- -->", "", markdown_text(text))
    plain = re.sub(r"\\[\\`*_{}\[\]<>|&~!$]", "", shown)
    assert not set("\n\\`*_{}[]<>|&~!$") & set(plain)
    assert not any(not char.isprintable() for char in shown)


@pytest.mark.parametrize("text", ["@team", "#12", "https://a.b", "HTTP://a.b", "www.a.b", "a@b.c"])
def test_a_forge_makes_no_link_and_no_mention_of_it(text):
    assert "<!-- -->" in markdown_text(text)
    assert markdown_text(text).replace("<!-- -->", "") == text


def test_a_table_bounds_its_rows_and_cells_and_says_so() -> None:
    rows = [("a|b", "x" * 9, Code("policy.code")), ("two\nlines", "", Code("c")), ("3", "3", Code("c"))]
    assert list(markdown_table(("", "text", "code"), rows, most=2, cell=5)) == [
        "| | text | code |",
        "|---|---|---|",
        "| a\\|b | xxxxx... | `policy.code` |",
        "| two<br>l... | | `c` |",
        "| and 1 more; --json lists all | | |",
        "",
    ]
    assert list(markdown_table(("a",), [])) == []


def test_a_page_ends_with_one_line_feed() -> None:
    assert markdown_page("a_b", ["x", ""]) == "### a\\_b\n\nx\n"
