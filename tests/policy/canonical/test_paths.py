"""Paths: one spelling for each place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.canonical.errors import PathRefused
from affiant.policy.canonical.paths import above, canonical_path, covers, grantable_path, rule_path

NOT_CANONICAL = [
    "",
    "a",
    "a/b",
    "./a",
    "~",
    "~/x",
    "/a/../b",
    "/..",
    "/.",
    "/a/./b",
    "//",
    "/a//b",
    "/a/",
    "/a\x00b",
    "/a\nb",
    "/a\\b",
    "/a\u200bb",
    "/cafe\u0301",
    "/" + "a" * 4096,
]


@pytest.mark.parametrize("text", NOT_CANONICAL)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(PathRefused):
        canonical_path(text)


@pytest.mark.parametrize(
    "text", ["/a*", "/a?", "/[a]", "/{a,b}", "/$HOME", "/~x", "/a,b", "/a:b", "/a!", "/a /b", "/ a", "/a "]
)
def test_a_rule_has_no_patterns_variables_or_lists(text: str) -> None:
    with pytest.raises(PathRefused):
        rule_path(text)


@pytest.mark.parametrize("text", ["/", "/proc", "/proc/self/root", "/sys/fs", "/dev", "/dev/fd", "/run/x"])
def test_what_the_sandbox_keeps_cannot_be_granted(text: str) -> None:
    with pytest.raises(PathRefused):
        grantable_path(text)


@pytest.mark.parametrize(
    "text", ["/workspace", "/var/log", "/a.b", "/..a", "/caf\u00e9", "/processes", "/a b"]
)
def test_ordinary_paths_are_themselves(text: str) -> None:
    assert grantable_path(text) == text


SEGMENT = st.text("ab", min_size=1, max_size=3)
PATHS = st.lists(SEGMENT, max_size=4).map(lambda segments: "/" + "/".join(segments))


@thorough(200)
@given(PATHS, PATHS)
def test_covering_is_by_whole_segments(entry: str, path: str) -> None:
    parts, whole = [part for part in entry.split("/") if part], [part for part in path.split("/") if part]
    assert covers(entry, path) == (whole[: len(parts)] == parts)
    assert covers(entry, path) == (entry in above(path))


@pytest.mark.parametrize("char", ["\ufe0f", "\U000e0100", "\u3164", "\u034f"])
def test_a_rule_holds_no_character_that_no_file_of_profiles_may_hold(char: str) -> None:
    """They are printable to Python, and nobody sees them."""
    with pytest.raises(PathRefused, match="invisible"):
        rule_path(f"/w/a{char}")
