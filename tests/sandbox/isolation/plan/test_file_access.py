"""Where a call on files acts: never beyond the profile."""

from __future__ import annotations

import pytest
from tests.raising import raises_code

from affiant.sandbox.isolation.plan.file_access import (
    FileAct,
    FileCall,
    call_from_json,
    call_to_json,
    place_of,
)
from affiant.sandbox.isolation.plan.plan import Access, FileGrant, plan_sandbox

PLAN = plan_sandbox(
    "s1",
    [
        FileGrant(path, Access(access))
        for path, access in [
            ("/workspace", "read-write"),
            ("/workspace/a/.git", "none"),
            ("/workspace2", "read-only"),
            ("/logs", "read-only"),
            ("/logs/mine", "read-write"),
        ]
    ],
)


@pytest.mark.parametrize(
    ("act", "path", "entry", "relative"),
    [
        (FileAct.GET, "/workspace", "/workspace", ""),
        (FileAct.PUT, "/workspace/a/b", "/workspace", "a/b"),
        (FileAct.GET, "/workspace2/x", "/workspace2", "x"),
        (FileAct.GET, "/logs/mine/x", "/logs", "mine/x"),
        (FileAct.PUT, "/logs/mine/x", "/logs/mine", "x"),
        (FileAct.REMOVE, "/logs/mine/x", "/logs/mine", "x"),
    ],
)
def test_a_call_acts_in_the_widest_entry_that_allows_it(act, path, entry, relative) -> None:
    place = place_of(PLAN, FileCall(act, path))
    assert (place.bind.target, place.relative) == (entry, relative)


@pytest.mark.parametrize("act", FileAct)
@pytest.mark.parametrize(
    "path",
    ["/etc", "/work", "/workspace3", "/workspace/a/.git", "/workspace/a/.git/x", "/tmp/a", "/dev/shm/a"],
)
def test_no_call_reaches_what_no_entry_covers_or_a_carve_out_does(act, path) -> None:
    with raises_code("files.path"):
        place_of(PLAN, FileCall(act, path))


@pytest.mark.parametrize(
    "path", ["", "/", "workspace", "/workspace/", "/workspace/../etc", "/workspace/./a", "/workspace/a\nb"]
)
def test_a_path_that_is_not_canonical_is_rejected(path) -> None:
    with raises_code("isolation.plan"):
        place_of(PLAN, FileCall(FileAct.GET, path))


@pytest.mark.parametrize(
    ("act", "path"),
    [
        (FileAct.PUT, "/workspace2/a"),
        (FileAct.DIGEST, "/logs/a"),
        (FileAct.REMOVE, "/logs/mine"),
        (FileAct.REMOVE, "/workspace"),
        (FileAct.DIGEST, "/workspace"),
    ],
)
def test_nothing_is_changed_where_the_agent_may_not_write_and_no_entry_is_removed(act, path) -> None:
    with raises_code("files.read_only"):
        place_of(PLAN, FileCall(act, path))


def test_carve_outs_below_the_path_are_passed_over() -> None:
    assert place_of(PLAN, FileCall(FileAct.GET, "/workspace")).carved_out == {"a/.git"}
    assert place_of(PLAN, FileCall(FileAct.GET, "/workspace/a")).carved_out == {".git"}


def test_a_call_comes_back_as_it_was_sent() -> None:
    for call in (
        FileCall(FileAct.LIST, "/workspace", recursive=True, length=5),
        FileCall(FileAct.GET, "/workspace/a", single=True, cut=True, length=5),
    ):
        assert call_from_json(call_to_json(call)) == call


@pytest.mark.parametrize(
    "changed",
    [
        {"act": "chmod"},
        {"act": 1},
        {"path": None},
        {"single": 1},
        {"cut": 1},
        {"length": -1},
        {"length": True},
        {"more": 1},
    ],
)
def test_other_members_are_rejected(changed) -> None:
    with raises_code("isolation.frame"):
        call_from_json({**call_to_json(FileCall(FileAct.GET, "/workspace")), **changed})
    with raises_code("isolation.frame"):
        call_from_json([])
