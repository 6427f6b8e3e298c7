"""The templates cannot print what is not escaped, nor what is not there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from tests.policy.review_page.conftest import Page

from affiant.policy.review.page_text import Link, plain
from affiant.policy.review_page.page import TEMPLATES, environment

ANY = st.text(max_size=60) | st.text("<>&\"'/=`{}:;#-\\\n ab", max_size=40)
PRINTED = (
    '{% from "macros.html.j2" import names, places %}'
    '<p title="{{ value }}" class="{{ value }}">{{ value }}{{ names(listed) }}{{ places(links) }}</p>'
)


@given(ANY)
def test_any_text_stays_text_in_an_element_and_in_an_attribute(value: str) -> None:
    shown = environment().from_string(PRINTED).render(value=value, listed=[value], links=[Link(value)])
    page = Page(shown)
    assert [tag for tag, _ in page.elements] == ["p", "code"]
    assert page.elements[0][1] == {"title": plain(value), "class": plain(value)}
    assert page.text == plain(value) * 3


def test_a_link_is_to_a_line_of_the_page() -> None:
    links = [Link("p.yaml:3", "#n3"), Link("and 2 more")]
    page = Page(environment().from_string(PRINTED).render(value="", listed=[], links=links))
    assert page.all("a") == [{"class": "place", "href": "#n3"}]
    assert page.text == "p.yaml:3 and 2 more"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ("", ""),
        ("a", "a"),
        ("abc", "a, b and c"),
        ("abcde", "a, b, c, d and e"),
        ("abcdef", "a, b, c, d and 2 more"),
    ],
)
def test_lists_of_names_read_as_sentences(values: str, text: str) -> None:
    page = Page(environment().from_string(PRINTED).render(value="", listed=list(values), links=[]))
    assert page.text == text
    assert len(page.all("code")) == min(len(values), 5 if len(values) < 6 else 4)


@pytest.mark.parametrize("expression", ["missing", "row.missing", "row['missing']", "rows[1]"])
def test_what_is_not_there_is_an_error(expression: str) -> None:
    with pytest.raises(UndefinedError):
        environment().from_string(f"{{{{ {expression} }}}}").render(row={"one": 1}, rows=["one"])


@pytest.mark.parametrize("value", [None, 1.5, ("a",), {"a": 1}, b"a"])
def test_what_is_no_text_is_an_error(value: object) -> None:
    with pytest.raises(TypeError, match="expected text or a number"):
        environment().from_string("{{ value }}").render(value=value)


def test_no_template_leaves_escaping_out() -> None:
    templates = sorted(TEMPLATES.glob("*.html.j2"))
    assert len(templates) > 5
    for path in templates:
        assert not re.search(r"\|\s*safe|Markup|autoescape|<script|<style|\son\w+=", path.read_text()), (
            path.name
        )
