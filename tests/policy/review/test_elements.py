"""No string of a policy becomes markup, leaves its element, or looks like what it is not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.review_page.conftest import Page

from affiant.policy.review.elements import element, heading, joined, listed, name, names, plain, text

ANY = st.text(max_size=60) | st.text("<>&\"'/=`{}:;#-\\\n ab", max_size=40)


@given(ANY)
def test_any_text_stays_text_in_an_element_and_in_an_attribute(value: str) -> None:
    page = Page(element("p", text(value), name(value), title=value, cls=value))
    assert [tag for tag, _ in page.elements] == ["p", "code"]
    assert set(page.elements[0][1]) == {"title", "class"}
    assert page.text == plain(value) * 2


@given(ANY)
def test_nothing_shown_steers_a_reader(value: str) -> None:
    shown = plain(value)
    assert shown.isprintable() or not shown
    assert len(shown) <= 6 * 400 + 3


def test_invisible_and_reordering_characters_are_escapes() -> None:
    assert plain("a\u202eb\u200bc\x00d\ne\u2066") == "a\\u202eb\\u200bc\\u0000d\\ne\\u2066"


def test_marks_do_not_climb_over_other_lines() -> None:
    assert plain("e\u0301\u0301") == "e\u0301\u0301"
    assert plain("e" + "\u0301" * 4) == "e\u0301\u0301\\u0301\\u0301"


@pytest.mark.parametrize(
    "secret",
    ["ghp_0123456789abcdefABCDEF0123456789abcd", "AKIAABCDEFGHIJKLMNOP", "aB3dE5gH7jK9mN1pQ3rS5tU7"],
)
def test_what_reads_like_a_secret_is_not_shown(secret: str) -> None:
    for value in (secret, f"k {secret} k", f"/w/{secret}", f"to {secret}."):
        assert secret not in text(value)
        assert "***" in text(value)


def test_a_long_text_is_cut_after_what_reads_like_a_secret_was_masked() -> None:
    secret = "ghp_0123456789abcdefABCDEF0123456789abcd"
    shown = plain("x " * 195 + secret)
    assert "ghp" not in shown
    assert len(plain("x" * 5000)) == 403
    assert len(plain("x" * 5000, limit=20)) == 23


def test_lists_read_as_sentences() -> None:
    assert listed([]) == ""
    assert listed([text("a"), text("b"), text("c")]) == "a, b and c"
    assert joined([text("a"), text("b")], " & ") == "a &amp; b"
    assert re.sub(r"</?code>", "", names("abcdefgh")) == "a, b, c, d, e, f and 2 more"
    assert "more" not in names("abcdefg")


def test_attributes_are_written_as_html_has_them() -> None:
    assert element("p", hidden=True, aria_label="x", tabindex=-1, title=None) == (
        '<p hidden aria-label="x" tabindex="-1"></p>'
    )
    assert heading(2, text("x"), anchor="y") == '<h2 id="y">x</h2>'
