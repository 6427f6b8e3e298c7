"""What is shown of a text never looks like what it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.policy.review.page_text import LongText, plain

ANY = st.text(max_size=60) | st.text("<>&\"'/=`{}:;#-\\\n ab", max_size=40)


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
        assert secret not in plain(value)
        assert "***" in plain(value)


def test_a_long_text_is_cut_after_what_reads_like_a_secret_was_masked() -> None:
    secret = "ghp_0123456789abcdefABCDEF0123456789abcd"
    shown = plain("x " * 195 + secret)
    assert "ghp" not in shown
    assert len(plain("x" * 5000)) == 403
    assert len(plain(LongText("x" * 5000))) == 2003
