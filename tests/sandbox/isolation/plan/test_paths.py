"""One spelling of every path, and coverage by segment."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import ConfigurationError
from affiant.sandbox.isolation.plan.plan import RESERVED, checked_path, covers, listed_path, outermost

SPELLINGS = st.lists(
    st.sampled_from(["a", "b", "..", ".", "", "usr", "proc", "e\u0301", "\u202e"]), max_size=5
).map("/".join)


@thorough(300)
@given(path=st.one_of(SPELLINGS, SPELLINGS.map(lambda text: "/" + text), st.text(max_size=8)))
def test_what_is_accepted_is_its_own_normal_form(path):
    try:
        checked_path(path)
    except ConfigurationError as error:
        assert error.code == "isolation.plan"
        return
    assert posixpath.normpath(path) == path
    assert path.startswith("/")
    assert path != "/"
    assert path.isprintable()


@thorough(200)
@given(path=SPELLINGS.map(lambda text: "/" + text))
def test_what_may_be_listed_never_touches_the_system(path):
    try:
        listed_path(path)
    except ConfigurationError as error:
        assert error.code == "isolation.plan"
        return
    assert not any(covers(reserved, path) or covers(path, reserved) for reserved in RESERVED)


@pytest.mark.parametrize(
    ("above", "path", "holds"),
    [("/a", "/a", True), ("/a", "/a/b", True), ("/a", "/ab", False), ("/a/b", "/a", False)],
)
def test_coverage_is_by_segment(above, path, holds):
    assert covers(above, path) is holds


def test_only_the_outermost_remain():
    assert outermost(["/a/b", "/a", "/b/c", "/ab", "/a"]) == ("/a", "/ab", "/b/c")
