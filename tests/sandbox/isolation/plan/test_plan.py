"""From file entries to mounts: the rules, and that no spelling gets around them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.sandbox.isolation.plan import plan as module
from affiant.sandbox.isolation.plan.plan import (
    Access,
    Bind,
    Command,
    FileGrant,
    Limits,
    Mask,
    covers,
    plan_sandbox,
)

READ, WRITE, NONE = Access.READ_ONLY, Access.READ_WRITE, Access.NONE


def made(*entries):
    return plan_sandbox("s", [FileGrant(path, access) for path, access in entries])


def test_the_doctest_holds():
    assert doctest.testmod(module).failed == 0


def test_no_entry_means_no_files():
    plan = made()
    assert (plan.binds, plan.masks, plan.workspaces) == ((), (), ())


def test_the_widest_covering_entry_decides():
    plan = made(("/a", WRITE), ("/a/b", READ))
    assert plan.binds == (Bind("/a", "files/0", writable=True),)
    plan = made(("/a", READ), ("/a/b", WRITE), ("/a/b/c", READ))
    assert plan.binds == (Bind("/a", "files/0", writable=False), Bind("/a/b", "files/0/b", writable=True))


def test_the_order_of_entries_does_not_matter():
    entries = [("/b", WRITE), ("/a", READ), ("/a/x", WRITE), ("/b/n", NONE)]
    assert made(*entries) == made(*reversed(entries))


def test_a_carve_out_wins_at_every_depth():
    plan = made(("/a", WRITE), ("/a/b", NONE), ("/a/b/c", WRITE))
    assert plan.masks == (Mask("/a/b"),)
    assert [bind.target for bind in plan.binds] == ["/a"]


def test_directories_above_a_carve_out_become_mount_points():
    plan = made(("/a", WRITE), ("/a/b/c/d", NONE))
    assert [bind.target for bind in plan.binds] == ["/a", "/a/b", "/a/b/c"]
    assert all(bind.writable for bind in plan.binds)
    assert plan.workspaces == (Bind("/a", "files/0", writable=True),)
    assert plan.carved_out("/a") == ("b/c/d",)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/",
        "//a",
        "/a/",
        "/a//b",
        "/a/./b",
        "/a/../b",
        "/..",
        "/a\0b",
        "/a\nb",
        "/a\u202eb",
        "/e\u0301",
    ],
)
def test_a_path_that_is_not_canonical_is_refused(path):
    for access in Access:
        with raises_code("isolation.plan"):
            made((path, access))


@pytest.mark.parametrize(
    "path", ["/proc", "/proc/self", "/dev", "/sys/kernel", "/usr", "/usr/lib", "/etc/passwd", "/lib64"]
)
def test_the_systems_own_paths_are_refused(path):
    for access in Access:
        with raises_code("isolation.plan", match="own system"):
            made((path, access))


@pytest.mark.parametrize("path", ["/run", "/opt", "/run/affiant/x"])
def test_a_path_above_the_systems_own_is_refused(path):
    with raises_code("isolation.plan"):
        made((path, WRITE))


def test_a_neighbour_is_not_covered():
    assert not covers("/a", "/ab")
    plan = made(("/workspace", WRITE), ("/workspace2", READ))
    assert len(plan.workspaces) == 2


def test_source_of_finds_the_sessions_directory():
    plan = made(("/a", WRITE), ("/b", READ), ("/a/hole", NONE))
    assert plan.source_of("/b") == "files/1"
    assert plan.source_of("/a/x/y") == "files/0/x/y"
    for path in ("/c", "/ab", "/a/hole", "/a/hole/x", "/a/../b"):
        with raises_code("isolation.plan"):
            plan.source_of(path)


@pytest.mark.parametrize("session", ["", "a/b", "..", "a b", "x" * 65, "a\n"])
def test_a_session_id_is_never_a_path(session):
    with raises_code("isolation.plan"):
        plan_sandbox(session, ())


@pytest.mark.parametrize(
    "limits", [{"memory_bytes": 1}, {"tmp_bytes": 0}, {"processes": 1}, {"open_files": 3}, {"cpus": 0}]
)
def test_limits_that_let_nothing_run_are_refused(limits):
    with raises_code("isolation.plan"):
        plan_sandbox("s", (), limits=Limits(**limits))


@pytest.mark.parametrize(
    "command",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("a\0",)},
        {"argv": ("a\udcff",)},
        {"argv": ("a",), "env": {"A=B": "c"}},
        {"argv": ("a",), "env": {"": "c"}},
        {"argv": ("a",), "env": {"A": "b\0"}},
        {"argv": ("a",), "cwd": "relative"},
        {"argv": ("a",), "cwd": "/a/../b"},
    ],
)
def test_a_command_that_execve_cannot_carry_is_refused(command):
    with raises_code("isolation.plan"):
        Command(**command)


SEGMENTS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4)
ENTRIES = st.lists(
    st.tuples(SEGMENTS.map(lambda parts: "/" + "/".join(parts)), st.sampled_from(list(Access))), max_size=8
)


def expected(entries, path):
    """The policy's own words: the widest covering allow, unless a carve-out covers the path."""
    covering = [access for entry, access in entries if covers(entry, path)]
    if NONE in covering or not covering:
        return None
    return WRITE in covering


def mounted(plan, path):
    """What the mounts give: the innermost mount decides."""
    if any(covers(mask.target, path) for mask in plan.masks):
        return None
    around = [bind for bind in plan.binds if covers(bind.target, path)]
    return max(around, key=lambda bind: len(bind.target)).writable if around else None


@thorough(300)
@given(entries=ENTRIES, path=SEGMENTS.map(lambda parts: "/" + "/".join(parts)))
def test_mounts_give_exactly_what_the_policy_says(entries, path):
    assert mounted(made(*entries), path) == expected(entries, path)


@thorough(300)
@given(entries=ENTRIES)
def test_every_mount_comes_after_what_it_stands_in_and_shows_its_own_directory(entries):
    plan = made(*entries)
    targets = [bind.target for bind in plan.binds]
    for number, bind in enumerate(plan.binds):
        assert not any(covers(bind.target, earlier) for earlier in targets[:number])
        above = next(top for top in plan.workspaces if covers(top.target, bind.target))
        assert bind.source == above.source + bind.target[len(above.target) :]
