"""The plan by which a service with its own user sees its code and nothing else of closed folders."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.sandbox.base.exposure import (
    Cover,
    Facts,
    Link,
    Need,
    Show,
    exposure_plan,
    step_from_json,
    step_to_json,
)


def facts(*closed: str, links: dict[str, str] | None = None) -> Facts:
    return Facts(is_closed=lambda path: path in closed, readlink=(links or {}).get)


def test_open_folders_need_no_step():
    assert exposure_plan((Need("/usr"), Need("/opt/src"), Need("/srv/state", writable=True)), facts()) == ()


def test_only_the_needed_part_of_a_closed_folder_is_shown():
    steps = exposure_plan((Need("/root/python"), Need("/opt/code")), facts("/root"))
    assert steps == (Cover("/root"), Show("/root/python", writable=False))


def test_the_outermost_closed_folder_is_covered_once_for_all_needs():
    steps = exposure_plan(
        (Need("/root/b/c"), Need("/root/a"), Need("/root/b/state", writable=True)), facts("/root", "/root/b")
    )
    assert steps == (
        Cover("/root"),
        Show("/root/a", writable=False),
        Show("/root/b/c", writable=False),
        Show("/root/b/state", writable=True),
    )


def test_a_need_inside_a_shown_folder_adds_nothing_unless_it_is_closed_or_writable():
    within = exposure_plan((Need("/root/x"), Need("/root/x/y")), facts("/root"))
    assert within == (Cover("/root"), Show("/root/x", writable=False))
    writable = exposure_plan((Need("/root/x"), Need("/root/x/y", writable=True)), facts("/root"))
    assert writable[-1] == Show("/root/x/y", writable=True)
    closed = exposure_plan((Need("/root/x"), Need("/root/x/y/z")), facts("/root", "/root/x/y"))
    assert closed[-2:] == (Cover("/root/x/y"), Show("/root/x/y/z", writable=False))


def test_links_that_a_cover_hides_are_made_again():
    links = {"/root/bin/python": "../py/bin/python3", "/root/py/bin/python3": "python3.11"}
    steps = exposure_plan((Need("/root/bin/python"), Need("/root/py")), facts("/root", links=links))
    assert steps == (
        Cover("/root"),
        Show("/root/py", writable=False),
        Link("/root/bin/python", "../py/bin/python3"),
    )


def test_a_link_loop_is_refused():
    with raises_code("service.unreadable"):
        exposure_plan((Need("/a"),), facts(links={"/a": "/b", "/b": "/a"}))


def test_a_relative_path_is_refused():
    with raises_code("service.unreadable"):
        exposure_plan((Need("src"),), facts())


def test_a_step_survives_its_journey():
    for step in (Cover("/a"), Show("/b", writable=True), Link("/c", "d")):
        assert step_from_json(step_to_json(step)) == step
    with raises_code("service.unreadable"):
        step_from_json(["umount", "/"])


SEGMENT = st.sampled_from(["a", "b", "c"])
PATH = st.lists(SEGMENT, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))


@thorough(200)
@given(st.lists(st.tuples(PATH, st.booleans()), max_size=6), st.frozensets(PATH, max_size=5))
def test_after_the_plan_every_need_is_reachable_and_as_writable_as_asked(needs, closed):
    steps = exposure_plan([Need(path, writable=writable) for path, writable in needs], facts(*closed))
    for path, writable in needs:
        passable, last = True, None
        for count in range(1, path.count("/") + 1):
            here = "/".join(path.split("/")[: count + 1])
            if here != path and here in closed:
                passable = False
            for step in steps:
                if isinstance(step, Cover) and step.path == here:
                    passable, last = True, step
                if isinstance(step, Show) and step.path == here:
                    passable, last = True, step
                if isinstance(step, Show) and isinstance(last, Cover) and step.path.startswith(here + "/"):
                    passable = True  # made as a mount point in the covered folder
        assert passable
        if writable and isinstance(last, Show):
            assert last.writable
