"""The tree's digest and the rule for links, without any file."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.sandbox.workspace.tree import Entry, Kind, compare, link_stays_inside, tree_digest

FILE = Entry("a/b", Kind.FILE, False, "sha256:" + "0" * 64)


def test_the_order_of_entries_does_not_matter():
    other = Entry("a", Kind.DIRECTORY, False, "")
    assert tree_digest([FILE, other]) == tree_digest([other, FILE])


@pytest.mark.parametrize(
    "changed",
    [
        Entry("a/c", Kind.FILE, False, FILE.content),
        Entry("a/b", Kind.LINK, False, FILE.content),
        Entry("a/b", Kind.FILE, True, FILE.content),
        Entry("a/b", Kind.FILE, False, "sha256:" + "1" * 64),
    ],
)
def test_every_member_is_in_the_digest(changed):
    assert tree_digest([FILE]) != tree_digest([changed])


def test_compare_names_added_changed_and_removed():
    changed = Entry("a/b", Kind.FILE, True, FILE.content)
    new = Entry("n", Kind.LINK, False, "a")
    gone = Entry("g", Kind.FILE, False, FILE.content)
    changes = compare([FILE, gone], [changed, new])
    assert (changes.added, changes.changed, changes.removed) == (("n",), ("a/b",), ("g",))


@pytest.mark.parametrize("target", ["b", "./b", "b/c", "../x", "../x/y"])
def test_links_that_stay_inside_are_kept(target):
    assert link_stays_inside("d/l", target)


@pytest.mark.parametrize("target", ["", "/etc/passwd", "../../x", "b/../../..", "b/../c", "..//../x", "a\0"])
def test_links_that_could_leave_are_refused(target):
    assert not link_stays_inside("d/l", target)


SEGMENT = st.sampled_from(["..", ".", "a", "b", "l", ""])


@thorough(150)
@given(
    links=st.lists(
        st.tuples(st.sampled_from(["l", "a/l", "a/b/l", "b/l"]), st.lists(SEGMENT, min_size=1, max_size=6)),
        max_size=4,
    )
)
def test_no_set_of_kept_links_leads_out(links, tmp_path_factory):
    """Build real trees of links that the rule keeps; whatever they resolve to stays in the tree."""
    top = tmp_path_factory.mktemp("links")
    root = top / "x" / "tree"
    (root / "a" / "b" / "a").mkdir(parents=True)
    (root / "b" / "b").mkdir(parents=True)
    for path, segments in links:
        target = "/".join(segments)
        if link_stays_inside(path, target) and not os.path.lexists(root / path):
            os.symlink(target, root / path)
    for path, _ in links:
        try:
            real = (root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        assert real.is_relative_to(root.resolve())
