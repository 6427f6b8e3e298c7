"""What is shown of a text never looks like what it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.policy.review.page_text import LongText, PublicText, plain

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


@pytest.mark.parametrize("secret", ["ghp_0123456789abcdefABCDEF0123456789abcd", "AKIAABCDEFGHIJKLMNOP"])
def test_what_has_the_form_of_a_known_token_is_not_shown(secret: str) -> None:
    for value in (secret, f"k {secret} k", f"/w/{secret}", f"to {secret}."):
        assert secret not in plain(value)
        assert "***" in plain(value)


def test_what_only_looks_like_a_secret_is_shown_because_its_field_holds_none() -> None:
    for value in ("aB3dE5gH7jK9mN1pQ3rS5tU7", "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"):
        assert plain(value) == value


def test_a_text_that_is_public_by_its_type_is_never_masked() -> None:
    thumbprint = "sk_" + "A" * 40
    assert plain(thumbprint) == "***"
    assert plain(PublicText(thumbprint)) == thumbprint


def test_a_long_text_shows_both_its_ends() -> None:
    shown = plain("begin" + "x" * 5000 + "end")
    assert shown.startswith("begin")
    assert shown.endswith("end")


def test_a_long_text_is_cut_after_what_reads_like_a_secret_was_masked() -> None:
    secret = "ghp_0123456789abcdefABCDEF0123456789abcd"
    for text in ("x " * 195 + secret, secret + " x" * 195, "x " * 97 + secret + " x" * 300):
        assert "ghp" not in plain(text)
    assert len(plain("x" * 5000)) == 403
    assert len(plain(LongText("x" * 5000))) == 2003
